"""The protocol of ZooKeeper: its wire format, codes, and the operations of flows that use it."""
