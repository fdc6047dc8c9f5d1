"""Broker configuration: tables of keys, typed values, loading, start-up checks."""

from broker.config.kafka_config import ConfigError, KafkaConfig
from broker.config.loading import load_config

__all__ = ["ConfigError", "KafkaConfig", "load_config"]
