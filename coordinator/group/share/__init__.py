"""Share groups: members that consume the same partitions together (KIP-932)."""
