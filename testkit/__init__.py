"""Kafka in a test: quick clusters, faults on purpose, time travel, and a pytest plugin.

`pybroker_kafka.testing` is the way in. The clusters are those of `pybroker start`, from `local`.
"""
