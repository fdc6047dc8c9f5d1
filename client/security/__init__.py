"""Authentication of a client at a broker, and of the broker: TLS and SASL.

From the settings of Kafka's clients (`security.protocol`, `sasl.*`, `ssl.*`) to streams that are
ready for requests. Brokers use it as clients of each other.
"""
