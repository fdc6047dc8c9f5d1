"""The TLS of listeners: the names in clients' certificates, and the context that may change."""
