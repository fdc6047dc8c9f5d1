"""TLS of both sides: Kafka's ssl.* keys, the key stores of Java, and the `ssl.SSLContext` made of
them.

Listeners and connections import `contexts`; only they load `cryptography`.
"""
