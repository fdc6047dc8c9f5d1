"""Broker configuration: tables of keys, typed values, loading, start-up checks."""

from .kafka_config import ConfigError, KafkaConfig
from .loading import load_config

__all__ = ["ConfigError", "KafkaConfig", "load_config"]
