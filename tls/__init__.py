"""TLS of both sides: Kafka's ssl.* keys, the key stores of Java, and the `ssl.SSLContext` that they
make.

Whoever listens or connects imports `contexts`; `cryptography` is only loaded there.
"""
