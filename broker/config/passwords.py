"""Passwords among dynamic configs: in ZooKeeper they are encrypted, here they are not.

Job: `readable` decrypts stored values, `writable` encrypts values to store, by
password.encoder.secret. Both derive keys, some milliseconds each: in a thread, if `has_passwords`.

Invariants: a value that cannot be decrypted is left out, with one log line that names its key and
no value. Without a secret no password is written.

Mirrors `DynamicBrokerConfig.toPersistentProps`, `fromPersistentProps` and `maybeReEncodePasswords`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...storage.config_def import ConfigType, DynamicMode, shortened
from ..security import password_encoder
from ..security.password_encoder import CannotDecode, EncoderSettings
from .definitions import BROKER_CONFIGS, base_key
from .errors import ConfigError

if TYPE_CHECKING:
    from .kafka_config import KafkaConfig

logger = logging.getLogger("pybroker.broker.config")

SECRET = "password.encoder.secret"
OLD_SECRET = "password.encoder.old.secret"
_PASSWORD_KEYS = tuple(
    name
    for name, definition in BROKER_CONFIGS.items()
    if definition.type is ConfigType.PASSWORD
    and definition.dynamic_mode is not DynamicMode.READ_ONLY
)


def is_password(name: str) -> bool:
    """Whether a key is a password: as in Kafka by its last part, after listener and mechanism."""
    return name.endswith(_PASSWORD_KEYS)


def is_secret(name: str) -> bool:
    """Whether a key's value must not be shown: a password, or an unknown key."""
    definition = base_key(name)
    return is_password(name) or definition is None or definition.type is ConfigType.PASSWORD


def has_passwords(values: Mapping[str, str]) -> bool:
    return any(is_password(name) for name in values)


def check_encoder(config: KafkaConfig) -> None:
    """ConfigError if passwords could not be encrypted as the keys say."""
    settings = _settings(config)
    if settings is not None and (problem := password_encoder.problem_of(settings)) is not None:
        raise ConfigError(f"password.encoder.{problem[0]}: {problem[1]}")


def readable(config: KafkaConfig, stored: Mapping[str, str]) -> dict[str, str]:
    """The stored values with decrypted passwords; passwords that cannot be decrypted are left
    out.
    """
    secrets = [text for key in (SECRET, OLD_SECRET) if (text := config.text(key))]
    values: dict[str, str] = {}
    lost: dict[str, str] = {}
    for name, text in stored.items():
        if not is_password(name):
            values[name] = text
            continue
        problem = f"{SECRET} is not set"
        for secret in secrets:
            try:
                values[name] = password_encoder.decode(secret, text)
                break
            except CannotDecode as error:
                problem = str(error)
        else:
            lost[name] = problem
    if lost:
        told = ", ".join(f"{shortened(name)} ({why})" for name, why in sorted(lost.items()))
        logger.error(
            "Passwords among the dynamic configs that cannot be read are left out: %s", told
        )
    return values


def writable(config: KafkaConfig, values: Mapping[str, str]) -> dict[str, str]:
    """The values to store, with encrypted passwords. ConfigError without a secret."""
    if not has_passwords(values):
        return dict(values)
    settings = _settings(config)
    if settings is None:
        raise ConfigError(
            f"Password encoder secret not configured: set {SECRET} to store passwords"
        )
    return {
        name: _encoded(settings, text) if is_password(name) else text
        for name, text in values.items()
    }


def was_written_with_another(config: KafkaConfig, stored: Mapping[str, str]) -> bool:
    """Whether password.encoder.old.secret can decrypt a password: it must be rewritten then."""
    old = config.text(OLD_SECRET)
    for name, text in stored.items():
        if old and is_password(name):
            try:
                password_encoder.decode(old, text)
            except CannotDecode:
                continue
            return True
    return False


def _encoded(settings: EncoderSettings, password: str) -> str:
    salt, vector = (
        os.urandom(password_encoder.SALT_BYTES),
        os.urandom(password_encoder.VECTOR_BYTES),
    )
    return password_encoder.encode(settings, password, salt, vector)


def _settings(config: KafkaConfig) -> EncoderSettings | None:
    secret = config.text(SECRET)
    if not secret:
        return None
    return EncoderSettings(
        secret=secret,
        key_factory=config.get_optional_string("password.encoder.keyfactory.algorithm")
        or password_encoder.DEFAULT_KEY_FACTORY,
        cipher=config.get_string("password.encoder.cipher.algorithm"),
        key_length=config.get_int("password.encoder.key.length"),
        iterations=config.get_int("password.encoder.iterations"),
    )
