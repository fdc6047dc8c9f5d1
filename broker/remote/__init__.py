"""Tiered storage (KIP-405) in a broker: its tasks, its readers, its metadata."""
