"""The TLS of listeners: principals of their clients, and the context that may change."""
