"""Consumers of queues: share groups (KIP-932)."""
