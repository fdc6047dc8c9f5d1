"""Tiered storage (KIP-405): segments in a remote store, and their metadata."""
