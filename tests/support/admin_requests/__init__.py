"""Requests of administration, valid and invalid ones, for two brokers of different makes."""
