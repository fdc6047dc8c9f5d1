"""The data for the pages about the inside: of a broker from its metrics port, of ZooKeeper by its
four-letter words. Only a cluster on this machine has either.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

import trio
from starlette.datastructures import QueryParams

from ..local.metrics_ports import read_path
from .asked import Wrong, whole
from .collector import Collector

VIEWS: Final = frozenset(
    {"waiting", "files", "look-up", "replica", "znode", "clients", "in-flight"}
)
PASSED_ON: Final = ("topic", "partition", "offset", "timestamp", "path", "group")
WORDS: Final = frozenset({"srvr", "cons", "dump", "wchp", "mntr"})
WORD_SECONDS: Final = 5.0
WORD_MAX_BYTES: Final = 1024 * 1024
ONLY_OURS: Final = (
    "only a broker of pybroker on this machine shows its inside, over its metrics port; "
    "pybroker start --console gives it one"
)


async def inside_of(collector: Collector, query: QueryParams) -> object:
    """The answer of broker `broker` for `view`. Raises Wrong."""
    view = query.get("view", "")
    address = collector.metrics_ports().get(whole(query.get("broker", "")))
    if view not in VIEWS:
        raise Wrong(f"{view!r} is not one of {', '.join(sorted(VIEWS))}")
    if address is None:
        raise Wrong(ONLY_OURS)
    asked = {name: query[name] for name in PASSED_ON if query.get(name)}
    answer = await read_path(address, f"/inside/{view}?{urlencode(asked)}")
    if answer is None:
        raise Wrong("the broker's metrics port does not answer")
    found = json.loads(answer.body)
    if not answer.is_ok:
        raise Wrong(str(found["error"]))
    return found


async def replicas_of(collector: Collector, query: QueryParams) -> dict[str, Any]:
    """One partition as each broker has it, None for brokers without an answer. Raises Wrong."""
    topic, partition = query.get("topic", ""), whole(query.get("partition", ""))
    parts = collector.view.topics.get(topic)
    one = parts[partition] if parts and 0 <= partition < len(parts) else None
    if one is None:
        raise Wrong(f"there is no partition {topic}-{partition}")
    found: dict[int, object] = {}

    async def read(broker: int) -> None:
        asked = {"view": "replica", "broker": str(broker), "topic": topic,
                 "partition": str(partition)}  # fmt: skip
        try:
            found[broker] = await inside_of(collector, QueryParams(asked))
        except Wrong:
            found[broker] = None

    async with trio.open_nursery() as nursery:
        for broker in one.replicas:
            nursery.start_soon(read, broker)
    return {
        "leader": one.leader, "epoch": one.epoch, "isr": one.isr,
        "replicas": [{"broker": broker, "told": found[broker]} for broker in one.replicas],
    }  # fmt: skip


async def zookeeper_says(collector: Collector, query: QueryParams) -> dict[str, Any]:
    """The answer to a four-letter word, of the local cluster's ZooKeeper, or of the member `node`
    of its ensemble. Raises Wrong.
    """
    word = query.get("word", "")
    if word not in WORDS:
        raise Wrong(f"{word!r} is not one of {', '.join(sorted(WORDS))}")
    rows = [
        one
        for one in collector.nodes
        if one["kind"] == "zookeeper" and query.get("node", one["name"]) == one["name"]
    ]
    if not rows:
        raise Wrong(ONLY_OURS)
    received = bytearray()
    with trio.move_on_after(WORD_SECONDS) as scope:
        try:
            async with await trio.open_tcp_stream(rows[0]["host"], rows[0]["port"]) as stream:
                await stream.send_all(word.encode())
                while len(received) < WORD_MAX_BYTES and (chunk := await stream.receive_some()):
                    received += chunk
        except (OSError, trio.BrokenResourceError) as error:
            raise Wrong(f"ZooKeeper does not answer: {error}") from None
    if scope.cancelled_caught:
        raise Wrong("ZooKeeper does not answer")
    return {"text": received.decode(errors="replace")}
