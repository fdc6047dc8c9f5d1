"""Tiered storage (KIP-405), decided: what is copied, what expires, where an offset lies."""
