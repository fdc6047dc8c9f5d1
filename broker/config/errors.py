"""The one exception of bad configuration."""


class ConfigError(Exception):
    """A key or value with which the broker must not start; the message gives the remedy."""
