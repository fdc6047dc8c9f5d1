"""The way of a request, compiled: which modules are, and who imports them instead of the sources.

mypyc compiles the modules of `REQUEST_PATH` to one library (setup.py), into a folder for each
interpreter in `broker/compiled/`. They are imported in the place of their sources only if the
digest that was recorded with them is that of the sources which lie here now, and of all that these
import of us: constants of other modules are in the compiled ones too. After an edit or a `git
checkout` the sources run, until they are compiled again.

What is in the list was measured to pay (docs/decisions/compiled.md), and nobody puts doubles in its
place by inheriting from it. The loops over records have a folder and a digest of their own
(`protocol/records/loops`): they are compiled by whoever installs from a checkout, in seconds; these
take a minute, and come with `make compiled` and in wheels.

`PYBROKER_COMPILED=loops` in the environment has their sources run, 0 those of the loops, too.
Annotations are checks in what is compiled; where one is wrong about a rare value, the connection
that it came from is closed, and others live (docs/decisions/contained.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Final

REQUEST_PATH: Final = (
    "broker.coordinators.coordinator_runtime",
    "broker.coordinators.group_runtime",
    "broker.handlers.fetch",
    "broker.handlers.group_offsets",
    "broker.handlers.produce",
    "broker.handlers.quick_answers",
    "broker.handlers.quick_fetch_answers",
    "broker.handlers.request_waits",
    "broker.network.connection",
    "broker.network.dispatcher",
    "broker.network.request_meter",
    "broker.network.mute_state",
    "broker.network.page_cache",
    "broker.network.processor",
    "broker.network.produce_pipeline",
    "broker.network.produce_request_template",
    "broker.network.receive_buffer",
    "broker.network.repeated_request_template",
    "broker.network.request",
    "broker.network.request_channel",
    "broker.network.request_handler_pool",
    "broker.network.send_queue",
    "broker.network.tls_connection",
    "broker.observability.request_metrics",
    "broker.replicas.replica_runtime",
    "broker.replicas.settled_replicas",
    "broker.resources.clock",
    "client.producer.accumulator",
    "client.producer.batch",
    "client.producer.delivery",
    "client.producer.given",
    "client.producer.partition_queue",
    "client.producer.partitioners",
    "client.producer.placement",
    "client.producer.producer",
    "client.producer.ready_batch",
    "coordinator.group.commit_plan",
    "coordinator.group.commits",
    "coordinator.group.core",
    "coordinator.group.group",
    "coordinator.group.joining",
    "coordinator.group.members",
    "coordinator.group.membership",
    "coordinator.group.rebalance",
    "coordinator.group.timers",
    "protocol.codec",
    "protocol.generated.api_versions",
    "protocol.generated.describe_cluster",
    "protocol.generated.fetch",
    "protocol.generated.find_coordinator",
    "protocol.generated.group_data",
    "protocol.generated.heartbeat",
    "protocol.generated.join_group",
    "protocol.generated.leave_group",
    "protocol.generated.metadata",
    "protocol.generated.offset_commit",
    "protocol.generated.offset_delete",
    "protocol.generated.offset_fetch",
    "protocol.generated.produce",
    "protocol.generated.sync_group",
    "protocol.reader",
    "protocol.records.batch",
    "protocol.wall_clock",
    "protocol.writer",
    "replication.appends",
    "replication.collected_fetches",
    "replication.delayed_operations",
    "replication.fetch_purgatory",
    "replication.fetch_reader",
    "replication.fetch_session",
    "replication.fetches",
    "replication.hosted_partitions",
    "replication.isr",
    "replication.partition",
    "replication.purgatory",
    "replication.reader",
    "replication.timer_wheel",
    "replication.types",
    "replication.waiting",
    "storage.append_info",
    "storage.batch_scan",
    "storage.directory_health",
    "storage.leader_epochs",
    "storage.local_log",
    "storage.log",
    "storage.log_config",
    "storage.offset_index",
    "storage.own_batches",
    "storage.producer_entry",
    "storage.producer_state",
    "storage.segment",
    "storage.segments",
    "storage.time_index",
    "storage.validation",
)
LIBRARY: Final = "pybroker_request_path"
FOLDER: Final = os.path.join("broker", "compiled")

# What all of the compiled modules are in; each asks for it by this name.
_LIBRARY_MODULE: Final = f"{LIBRARY}__mypyc"
_SUFFIX: Final = EXTENSION_SUFFIXES[0]


def folder_of_interpreter() -> str:
    """The name of the folder for what is compiled for the interpreter that runs."""
    return _SUFFIX.strip(".").removesuffix(".so")


def digest(root: str, names: Sequence[str]) -> str:
    """Of the files of these names below `root`; OSError if one is not there."""
    from importlib.util import source_hash

    contents = []
    for name in names:
        with open(os.path.join(root, name), "rb") as file:
            contents.append(file.read())
    return source_hash(b"\0".join(contents)).hex()


class Finder:
    """Finds the compiled modules, if they are those of the sources."""

    def __init__(self, package: str, root: str) -> None:
        self._package = package
        self._root = root
        self._folder = os.path.join(root, FOLDER, folder_of_interpreter())
        self._names = {f"{package}.{name}" for name in REQUEST_PATH}
        self._fits: bool | None = None  # None: nobody has asked for one of them yet

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _LIBRARY_MODULE:
            file = name
        elif name in self._names:
            file = name.removeprefix(f"{self._package}.")
        else:
            return None
        if not self.fits():
            return None
        place = os.path.join(self._folder, file + _SUFFIX)
        loader = ExtensionFileLoader(name, place)
        found = ModuleSpec(name, loader, origin=place)
        found.has_location = True
        return found

    def fits(self) -> bool:
        """Whether what is compiled is of these sources, and can be loaded."""
        if self._fits is None:
            self._fits = True  # while the library is looked for, which asks for no other module
            self._fits = self._can_be_loaded()
        return self._fits

    def _can_be_loaded(self) -> bool:
        try:
            with open(os.path.join(self._folder, "digest"), encoding="utf-8") as file:
                recorded, *names = file.read().split("\n")
            if digest(self._root, names) != recorded:
                return False
            import_module(_LIBRARY_MODULE)
        except (OSError, ImportError, ValueError):  # ValueError: of another mypyc's parts
            return False
        return True


_finder: Finder | None = None


def install(package: str, root: str) -> None:
    """Have the compiled modules of `package`, whose files are in `root`, found from now on."""
    global _finder
    if _finder is None:
        _finder = Finder(package, root)
        sys.meta_path.insert(0, _finder)


def is_request_path_compiled() -> bool:
    """Whether the modules of `REQUEST_PATH` are the compiled ones."""
    return _finder is not None and _finder.fits()
