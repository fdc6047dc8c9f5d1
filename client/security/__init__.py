"""How a client makes itself known to a broker, and the broker to it: TLS and SASL.

From the settings of Kafka's clients (`security.protocol`, `sasl.*`, `ssl.*`) to streams that are
ready for requests. Brokers use it as clients of each other.
"""
