"""Classic consumer groups and their offsets, as a pure machine; start at group_coordinator.py."""
