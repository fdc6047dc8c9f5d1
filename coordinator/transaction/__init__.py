"""Transactions of producers and their log, as a pure machine; start at machine.py."""
