"""Kafka in a test: clusters in a moment, faults on purpose, time travel, and a pytest plugin.

`pybroker.testing` is the way in. The clusters are those of `pybroker start`, from `broker.local`.
"""
