"""Log levels as configs (KIP-412): resource type BROKER_LOGGER.

Names are Python's logger names, ours begin with `pybroker.`; `root` is the root logger. Levels are
log4j's: FATAL, ERROR, WARN, INFO, DEBUG and TRACE; TRACE is below DEBUG.

Mirrors Log4jController and RuntimeLoggerManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError

ROOT = "root"
TRACE = 5
LEVELS: Mapping[str, int] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_NAMES = {level: name for name, level in LEVELS.items()}
SET, DELETE = 0, 1
_REFUSED_OPERATIONS = {2: "APPEND operation", 3: "SUBTRACT operation"}


def levels() -> dict[str, str]:
    """Every existing logger with its effective level."""
    manager = logging.Logger.manager
    names = [
        name for name, entry in manager.loggerDict.items() if isinstance(entry, logging.Logger)
    ]
    found = {name: _level_name(logging.getLogger(name).getEffectiveLevel()) for name in names}
    found[ROOT] = _level_name(logging.getLogger().getEffectiveLevel())
    return dict(sorted(found.items()))


def check(name: str, operation: int, value: str | None) -> None:
    """Raise KafkaError if this change of a level is not allowed."""
    if operation not in (SET, DELETE):
        word = _REFUSED_OPERATIONS.get(operation, f"Unknown operation type {operation}")
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{word} is not allowed for the BROKER_LOGGER resource"
        )
    if name != ROOT and name not in logging.Logger.manager.loggerDict:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == SET and (value is None or value.upper() not in LEVELS):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    if operation == DELETE and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )


def apply(name: str, operation: int, value: str | None) -> None:
    logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
    if operation == DELETE:
        logger.setLevel(logging.NOTSET)
    else:
        assert value is not None
        logger.setLevel(LEVELS[value.upper()])


def _level_name(level: int) -> str:
    at_most = [known for known in _NAMES if known <= level]
    return _NAMES[max(at_most)] if at_most else "TRACE"
