"""pybroker: the Apache Kafka 3.9 broker in Python on trio, and a small client of its own.

The command `pybroker` (also `python -m pybroker_kafka`) starts and tends clusters; README.md shows
it. `__all__` lists the names that a program may import; nothing else here is public:

    Cluster         a cluster, reached through its bootstrap servers: connections and metadata
    Producer        writes to topics: in batches, idempotently, in transactions
    Consumer        reads topics, alone or in a group, and commits what it has read
    ShareConsumer   takes records from a queue (a share group), each for one member
    SharedRecord    such a record: `Received` and how often it was delivered
    SubscriptionPattern  topics by a pattern that the coordinator evaluates
    AsyncioProducer, AsyncioConsumer, AsyncioAdmin     the same for asyncio
    BlockingProducer, BlockingConsumer, BlockingAdmin  the same for threads: scripts, notebooks
    AsyncioShareConsumer, BlockingShareConsumer        as well
    SimpleRecord    what a producer is given: key, value, headers, timestamp
    Received        what a consumer returns: a record, and where it came from
    RetryPolicy     how soon and how often a record that failed comes again (ack mode)
    CommitFailed    the group has gone on: what was not committed will be read again
    EARLIEST, LATEST  instead of a timestamp: the first record there is, the next one to come
    Admin           administration of a cluster, by subject: topics, groups, configs, and so on
    create_topic, list_topics, delete_topic
    ClientError     the cluster cannot be reached or refuses; the message says what to do
    kafka_session   a SparkSession that reads and writes topics (needs the extra `spark`)
    __version__     of the installed distribution

Invariant: a name is imported when it is first used. Every process of a cluster imports this module,
and `pybroker --help` needs none of them. The finder of compiled modules is installed first
(`compiled`).
"""

from importlib import import_module
from os import environ
from os.path import dirname, isdir, join
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers see every name as imported, and no other
    from .client.admin.admin import Admin
    from .client.admin.topics import create_topic, delete_topic, list_topics
    from .client.cluster import Cluster
    from .client.consumer.consumer import Consumer
    from .client.consumer.deliveries import RetryPolicy
    from .client.consumer.group_work import SubscriptionPattern
    from .client.consumer.offset_keeper import CommitFailed
    from .client.consumer.options import EARLIEST, LATEST
    from .client.consumer.received import Received
    from .client.errors import ClientError
    from .client.hosted.asyncio_admin import AsyncioAdmin
    from .client.hosted.asyncio_consumer import AsyncioConsumer
    from .client.hosted.asyncio_producer import AsyncioProducer
    from .client.hosted.asyncio_share import AsyncioShareConsumer
    from .client.hosted.blocking_admin import BlockingAdmin
    from .client.hosted.blocking_consumer import BlockingConsumer
    from .client.hosted.blocking_producer import BlockingProducer
    from .client.hosted.blocking_share import BlockingShareConsumer
    from .client.producer import Producer
    from .client.share.consumer import ShareConsumer
    from .client.share.records import SharedRecord
    from .protocol.records.record import SimpleRecord
    from .spark_jobs.session import kafka_session

    __version__: str

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "AsyncioAdmin",
    "AsyncioConsumer",
    "AsyncioProducer",
    "AsyncioShareConsumer",
    "BlockingAdmin",
    "BlockingConsumer",
    "BlockingProducer",
    "BlockingShareConsumer",
    "ClientError",
    "Cluster",
    "CommitFailed",
    "Consumer",
    "Producer",
    "Received",
    "RetryPolicy",
    "ShareConsumer",
    "SharedRecord",
    "SimpleRecord",
    "SubscriptionPattern",
    "__version__",
    "create_topic",
    "delete_topic",
    "kafka_session",
    "list_topics",
]

_MODULES = {
    "Admin": ".client.admin.admin",
    "AsyncioAdmin": ".client.hosted.asyncio_admin",
    "AsyncioConsumer": ".client.hosted.asyncio_consumer",
    "AsyncioProducer": ".client.hosted.asyncio_producer",
    "AsyncioShareConsumer": ".client.hosted.asyncio_share",
    "BlockingAdmin": ".client.hosted.blocking_admin",
    "BlockingConsumer": ".client.hosted.blocking_consumer",
    "BlockingProducer": ".client.hosted.blocking_producer",
    "BlockingShareConsumer": ".client.hosted.blocking_share",
    "EARLIEST": ".client.consumer.options",
    "LATEST": ".client.consumer.options",
    "ClientError": ".client.errors",
    "Cluster": ".client.cluster",
    "Consumer": ".client.consumer.consumer",
    "Producer": ".client.producer",
    "Received": ".client.consumer.received",
    "RetryPolicy": ".client.consumer.deliveries",
    "CommitFailed": ".client.consumer.offset_keeper",
    "ShareConsumer": ".client.share.consumer",
    "SharedRecord": ".client.share.records",
    "SubscriptionPattern": ".client.consumer.group_work",
    "SimpleRecord": ".protocol.records.record",
    "create_topic": ".client.admin.topics",
    "delete_topic": ".client.admin.topics",
    "kafka_session": ".spark_jobs.session",
    "list_topics": ".client.admin.topics",
}

# In a wheel Python finds compiled modules beside their sources; other cases need the finder.
if __name__ == "pybroker_kafka" and (
    environ.get("PYBROKER_COMPILED") in ("0", "loops")
    or isdir(join(dirname(__file__), "build", "compiled"))
):
    import_module(".compiled", __name__).install(__name__, dirname(__file__))

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            found = version("pybroker-kafka")
        elif name in _MODULES:
            found = getattr(import_module(_MODULES[name], __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
