"""Makes the storage manager that `remote.log.storage.manager.class.name` names.

- Kafka's own name of LocalTieredStorage: ours, with the same folders.
- `python:package.module.Class`: any class after the contract in `storage_manager`, made with the
  configs.
- Other names are classes of Java, and refused with a hint.

The values of configs may be secrets: an error of a constructor is repeated with each value of a
secret's key left out.

Mirrors: RemoteLogManager.createRemoteStorageManager. Leaves out
`remote.log.storage.manager.class.path`, which is of Java; Python's own path is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from .folders import LocalTieredStorage
from .secret_configs import without_secrets
from .storage_manager import RemoteStorageManager

LOCAL_TIERED_STORAGE: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
PYTHON_PREFIX: Final = "python:"
OBJECT_STORE: Final = "python:pybroker_kafka.storage.remote.object_store.ObjectStore"


class InvalidStorageManager(ValueError):
    """The text says how to name one; it has no secrets."""


def load(class_name: str, configs: Mapping[str, str]) -> RemoteStorageManager:
    """The manager of this name with these configs; raises `InvalidStorageManager`."""
    if class_name == LOCAL_TIERED_STORAGE:
        made: Any = LocalTieredStorage
    elif class_name.startswith(PYTHON_PREFIX):
        made = _python_class(class_name.removeprefix(PYTHON_PREFIX))
    else:
        raise InvalidStorageManager(
            f"{class_name} is a class of Java, which cannot run here; "
            f"use {OBJECT_STORE} for object stores, {LOCAL_TIERED_STORAGE} for folders, or a class "
            f"of your own as {PYTHON_PREFIX}package.module.Class"
        )
    try:
        manager = made(dict(configs))
    except Exception as error:
        reason = f"{type(error).__name__}: {without_secrets(str(error), configs)}"
        raise InvalidStorageManager(f"{class_name} could not be made: {reason}") from None
    if not isinstance(manager, RemoteStorageManager):
        raise InvalidStorageManager(
            f"{class_name} is no storage manager: it lacks {', '.join(_missing(manager))}"
        )
    return manager


def _python_class(name: str) -> Any:
    module_name, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidStorageManager(f"there is no class {name}: {error}") from error


def _missing(manager: object) -> list[str]:
    names = (name for name in vars(RemoteStorageManager) if not name.startswith("_"))
    return [name for name in names if not callable(getattr(manager, name, None))]
