"""The `sasl.*` keys of listeners: which mechanisms there are, and what each of them is told.

Mirrors `JaasContext.loadServerContext` and the reading half of `SaslChannelBuilder`.
"""

from __future__ import annotations

from ...protocol.sasl.jaas import MODULES, JaasError, login_module
from .definitions import LISTENER_PREFIX
from .errors import ConfigError
from .kafka_config import KafkaConfig

JAAS_CONFIG = "sasl.jaas.config"


def check_jaas(config: KafkaConfig) -> None:
    """Every JAAS text of a listener must be one, whoever is to read it. The one without a prefix
    is nobody's on a broker."""
    for name, text in config.explicit().items():
        if name.startswith(LISTENER_PREFIX) and name.endswith(f".{JAAS_CONFIG}"):
            mechanism = name.removesuffix(f".{JAAS_CONFIG}").rpartition(".")[2].upper()
            try:
                login_module(text, mechanism if mechanism in MODULES else "")
            except JaasError as error:
                raise ConfigError(f"{name}: {error}") from None
