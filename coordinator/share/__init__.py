"""The share coordinator: the state of share partitions, kept for their leaders (KIP-932)."""
