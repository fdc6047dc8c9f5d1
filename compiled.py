"""The modules of pybroker that mypyc compiles, and which of them run compiled: one list, in units.

A unit is a library and its modules. setup.py compiles them:

- For a wheel (`pip install .`): each module's `.so` lies beside its `.py`, where Python itself
  finds it first, and nothing here is needed.
- In a checkout only when asked (`make compiled`), into `build/compiled/`, a folder for each
  interpreter and unit. A `Finder` imports them instead of the sources if the digest recorded with
  them matches the present sources and the modules of ours that these import: constants of those are
  compiled in too. After an edit or a `git checkout` the sources run until they are compiled again.

`PYBROKER_COMPILED` in the environment selects units, when they are compiled and when they run: `0`
for none, `loops` for `LOOPS` alone, anything else or nothing for all. A wheel needs the finder only
if a unit is not wanted: Python would find the `.so` first, and the finder gives it the source.

Each module in the list was measured to pay (docs/decisions/compiled.md), and no test double
inherits from its classes. Compiled code checks annotations; where an annotation is wrong about a
rare value, the connection that the value came from is closed, and others live
(docs/decisions/contained.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import find_spec, source_hash, spec_from_file_location
from types import ModuleType
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """Modules that are compiled together, into one library that each of them loads."""

    name: str
    library: str  # name in the package; mypyc adds to it
    level: str  # of the C compiler's optimization
    modules: tuple[str, ...]  # in the package

    @property
    def library_module(self) -> str:
        return f"{self.library}__mypyc"


# Plain functions over bytes, which call each other for each record: inlined, in one C file.
LOOPS: Final = Unit(
    "record loops",
    "record_loops",
    "3",
    (
        "protocol.records.loops.encode",
        "protocol.records.loops.keys",
        "protocol.records.loops.places",
        "protocol.records.loops.scan",
        "protocol.records.loops.small_batch",
        "protocol.records.loops.varint",
    ),
)
# The path of a request, and of the producer's records: a C file for each module.
REQUEST_PATH: Final = Unit(
    "request path",
    "request_path",
    "1",
    (
        "broker.coordinators.coordinator_runtime",
        "broker.coordinators.group_runtime",
        "broker.handlers.consumer_groups",
        "broker.handlers.fetch",
        "broker.handlers.group_offsets",
        "broker.handlers.produce",
        "broker.handlers.quick_answers",
        "broker.handlers.quick_fetch_answers",
        "broker.handlers.request_waits",
        "broker.network.connection",
        "broker.network.dispatcher",
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
        "broker.network.request_meter",
        "broker.network.send_queue",
        "broker.network.tls_connection",
        "broker.observability.request_metrics",
        "broker.replicas.replica_runtime",
        "broker.replicas.applied_replicas",
        "broker.resources.clock",
        "client.hosted.asyncio_producer",
        "client.hosted.blocking_producer",
        "client.hosted.outbox",
        "client.producer.accumulator",
        "client.producer.batch",
        "client.producer.chunk",
        "client.producer.delivery",
        "client.producer.partition_queue",
        "client.producer.partitioners",
        "client.producer.placement",
        "client.producer.producer",
        "coordinator.append_errors",
        "coordinator.group.changing_group",
        "coordinator.group.commit_plan",
        "coordinator.group.commits",
        "coordinator.group.consumer.consumer_group",
        "coordinator.group.consumer.heartbeats",
        "coordinator.group.consumer.member",
        "coordinator.group.consumer.reconciliation",
        "coordinator.group.consumer.records",
        "coordinator.group.consumer.requests",
        "coordinator.group.consumer.sessions",
        "coordinator.group.consumer.target_assignment",
        "coordinator.group.consumer.uniform_assignor",
        "coordinator.group.consumer.writing",
        "coordinator.group.core",
        "coordinator.group.group",
        "coordinator.group.joining",
        "coordinator.group.members",
        "coordinator.group.membership",
        "coordinator.group.rebalance",
        "coordinator.group.timers",
        "protocol.codec",
        "protocol.generated.consumer_group_data",
        "protocol.generated.consumer_group_heartbeat",
        "protocol.generated.fetch",
        "protocol.generated.group_data",
        "protocol.generated.heartbeat",
        "protocol.generated.join_group",
        "protocol.generated.metadata",
        "protocol.generated.offset_commit",
        "protocol.generated.offset_fetch",
        "protocol.generated.produce",
        "protocol.generated.sync_group",
        "protocol.murmur2",
        "protocol.reader",
        "protocol.records.batch",
        "protocol.records.plain_batch",
        "protocol.timer_wheel",
        "protocol.wall_clock",
        "protocol.writer",
        "replication.appends",
        "replication.collected_fetches",
        "replication.delayed_operations",
        "replication.fetch_purgatory",
        "replication.fetch_reader",
        "replication.fetch_session",
        "replication.fetches",
        "replication.first_fetches",
        "replication.hosted_partitions",
        "replication.isr",
        "replication.partition",
        "replication.purgatory",
        "replication.reader",
        "replication.types",
        "replication.waiting",
        "storage.append_info",
        "storage.appendable_log",
        "storage.batch_scan",
        "storage.directory_health",
        "storage.end_markers",
        "storage.leader_epochs",
        "storage.local_log",
        "storage.log",
        "storage.log_config",
        "storage.log_invariants",
        "storage.log_producers",
        "storage.offset_index",
        "storage.open_transactions",
        "storage.own_batches",
        "storage.producer_checks",
        "storage.producer_entry",
        "storage.producer_state",
        "storage.producer_table",
        "storage.readable_log",
        "storage.segment",
        "storage.segment_reader",
        "storage.segments",
        "storage.time_index",
        "storage.truncatable_log",
        "storage.validation",
    ),
)
UNITS: Final = (LOOPS, REQUEST_PATH)
FOLDER: Final = os.path.join("build", "compiled")

_SUFFIX: Final = EXTENSION_SUFFIXES[0]


def wanted() -> tuple[Unit, ...]:
    """The units that the environment asks for."""
    asked = os.environ.get("PYBROKER_COMPILED")
    return () if asked == "0" else (LOOPS,) if asked == "loops" else UNITS


def folder_of(unit: Unit) -> str:
    """The folder in which a checkout keeps the unit compiled for the running interpreter."""
    return os.path.join(FOLDER, _SUFFIX.strip(".").removesuffix(".so"), unit.library)


def digest(root: str, names: Sequence[str]) -> str:
    """The digest of the files `names` below `root`; OSError if one is missing."""
    contents = []
    for name in names:
        with open(os.path.join(root, name), "rb") as file:
            contents.append(file.read())
    return source_hash(b"\0".join(contents)).hex()


class Finder:
    """Finds the modules of the units: compiled where they fit and are wanted, otherwise as
    sources."""

    def __init__(self, package: str, root: str) -> None:
        self._package = package
        self._root = root
        self._units = {
            f"{package}.{module}": unit
            for unit in UNITS
            for module in (unit.library_module, *unit.modules)
        }
        self._fits: dict[Unit, bool] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        unit = self._units.get(name)
        if unit is None:
            return None
        inside = name.removeprefix(f"{self._package}.")
        if unit in wanted():
            if not self.fits(unit):
                return None
            place = os.path.join(self._root, folder_of(unit), inside + _SUFFIX)
            return spec_from_file_location(name, place, loader=ExtensionFileLoader(name, place))
        place = os.path.join(self._root, *inside.split(".")) + ".py"
        return spec_from_file_location(name, place, loader=SourceFileLoader(name, place))

    def fits(self, unit: Unit) -> bool:
        """Whether the checkout's compiled unit matches its sources and can be loaded."""
        if unit not in self._fits:
            self._fits[unit] = True  # while the library, which asks for no module, is found
            self._fits[unit] = self._can_be_loaded(unit)
        return self._fits[unit]

    def _can_be_loaded(self, unit: Unit) -> bool:
        try:
            place = os.path.join(self._root, folder_of(unit), "digest")
            with open(place, encoding="utf-8") as file:
                recorded, *names = file.read().split("\n")
            if digest(self._root, names) != recorded:
                return False
            import_module(f"{self._package}.{unit.library_module}")
        except (OSError, ImportError, ValueError):  # ValueError: from parts of another mypyc
            return False
        return True


def install(package: str, root: str) -> None:
    """Install a finder for the modules of `package`, whose files are in `root`."""
    sys.meta_path.insert(0, Finder(package, root))


def is_compiled(unit: Unit) -> bool:
    """Whether the unit's modules are the compiled ones."""
    found = find_spec(f"{__name__.rpartition('.')[0]}.{unit.modules[0]}")
    return found is not None and str(found.origin).endswith(_SUFFIX)


def described() -> str:
    """The compiled units as text, for people."""
    return ", ".join(f"compiled {unit.name}" for unit in UNITS if is_compiled(unit)) or PURE


PURE: Final = "pure Python"
