"""Producers' transactions and their log, a pure machine; start at transaction_coordinator.py."""
