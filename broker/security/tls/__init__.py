"""The TLS of listeners: what a client's certificate says, and the context that may change."""
