"""The leader's side of share groups (KIP-932): share partitions, their fetches, their state."""
