"""One table of broker keys per area, in the order of Kafka's documentation."""
