"""Prometheus' text format, written in slices: the loop does other work between them.

Collected metrics are few, and prometheus_client writes them, a family at a time; those of the
process are collected in a thread: the kernel lists ten thousand open files for 40 ms. Tables are
written here, a column after the other and at most SLICE_ROWS rows at a time: a value is that of the
moment in which it is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import trio

from .catalogue import CATALOGUE

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from .metrics import Table

SLICE_ROWS = 2000

_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Exported(Protocol):
    """A collector of prometheus_client's, tables beside it, and functions to call before; of a
    broker or of a mirror.
    """

    @property
    def tables(self) -> Sequence[Table]: ...

    @property
    def before_scrape(self) -> Sequence[Callable[[], Awaitable[None]]]: ...

    def collect(self) -> Iterable[Metric]: ...


class Collected(Protocol):
    """The part of prometheus_client's registry that is used here."""

    def collect(self) -> Iterable[Metric]: ...


class _OfOne(NamedTuple):
    family: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.family,)


async def exposition(
    metrics: Exported, registry: Collected, *, in_thread: Collected | None = None
) -> AsyncIterator[bytes]:
    """All metrics, in pieces; `registry` and `in_thread` have those outside of tables."""
    from prometheus_client.exposition import generate_latest

    async with trio.open_nursery() as nursery:
        for refresh in metrics.before_scrape:
            nursery.start_soon(refresh)
    beside: Iterable[Metric] = ()
    if in_thread is not None:
        beside = await trio.to_thread.run_sync(lambda: [*in_thread.collect()])
    for family in chain(registry.collect(), beside):
        yield generate_latest(cast("CollectorRegistry", _OfOne(family)))
        await trio.lowlevel.checkpoint()
    for table in metrics.tables:
        await trio.lowlevel.checkpoint()
        async for piece in _table(table):
            yield piece


async def _table(table: Table) -> AsyncIterator[bytes]:
    slices = []
    rows = iter(table.rows())
    while part := list(islice(rows, SLICE_ROWS)):
        slices.append(([labels_text(table.labels, values) for values, _ in part], part))
        await trio.lowlevel.checkpoint()
    for name, read in table.columns.items():
        text = CATALOGUE[name].help
        lines = f"# HELP {name} {text}\n# TYPE {name} {table.kind}\n"
        for labels, part in slices:
            await trio.lowlevel.checkpoint()
            samples = [
                f"{name}{label} {read(thing)}\n"
                for label, (_, thing) in zip(labels, part, strict=True)
            ]
            yield (lines + "".join(samples)).encode()
            lines = ""
        if lines:
            yield lines.encode()


def labels_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """`{topic="orders",partition="0"}`; the values may be anything."""
    pairs = [
        f'{name}="{value.translate(_ESCAPED)}"' for name, value in zip(names, values, strict=True)
    ]
    return f"{{{','.join(pairs)}}}"
