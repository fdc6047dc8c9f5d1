"""Tables of samples: prometheus_client reads what it would have written itself."""

from __future__ import annotations

from unittest.mock import patch

import trio
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from pybroker_kafka.broker.observability import exposition as module
from pybroker_kafka.broker.observability.catalogue import CATALOGUE
from pybroker_kafka.broker.observability.exposition import exposition
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.replication.types import TopicStats

SIZE, END = "kafka_log_log_size", "kafka_log_log_logendoffset"


async def written(metrics: BrokerMetrics) -> str:
    return b"".join([piece async for piece in exposition(metrics, CollectorRegistry())]).decode()


@given(st.dictionaries(st.tuples(st.text(), st.text()), st.integers(0, 2**53), max_size=9))
def test_a_table_is_read_back(sizes: dict[tuple[str, str], int]) -> None:
    metrics = BrokerMetrics()
    metrics.tables.clear()
    metrics.table(("topic", "partition"), sizes.items, {SIZE: lambda n: n, END: lambda n: n / 2})
    with patch.object(module, "SLICE_ROWS", 2):
        text = trio.run(written, metrics)
    size, end = text_string_to_metric_families(text)
    for family, name, share in ((size, SIZE, 1), (end, END, 2)):
        assert (family.name, family.type) == (name, "gauge")
        assert family.documentation == CATALOGUE[name].help
        found = {(s.labels["topic"], s.labels["partition"]): s.value for s in family.samples}
        assert found == {labels: float(value / share) for labels, value in sizes.items()}


async def test_topics_and_their_sum() -> None:
    metrics = BrokerMetrics()
    stats = {"a": TopicStats(), "b": TopicStats()}
    stats["a"].bytes_in, stats["b"].bytes_in = 3, 4
    metrics.topic_stats = stats
    families = {f.name: f for f in text_string_to_metric_families(await written(metrics))}
    shown = families["kafka_server_brokertopicmetrics_bytesin"]
    assert shown.type == "counter"
    assert {s.labels["topic"]: s.value for s in shown.samples} == {"": 7, "a": 3, "b": 4}
    assert {sample.name for sample in shown.samples} == {f"{shown.name}_total"}


async def test_other_work_goes_on_between_slices() -> None:
    metrics = BrokerMetrics()
    metrics.table(("topic", "partition"), lambda: [(("t", "0"), 1)] * 10, {SIZE: lambda n: n})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    with patch.object(module, "SLICE_ROWS", 1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            text = await written(metrics)
            nursery.cancel_scope.cancel()
    assert text.count(f"\n{SIZE}{{") == 10
    assert turns >= 20
