"""A consumer group with confluent-kafka: from one member to three, and back to one.

    pybroker start
    python examples/rebalancing_group.py [BOOTSTRAP_SERVERS]

You see how the six partitions of a topic are shared out anew whenever a member joins or leaves:
each partition always has one owner, and only the group's coordinator, a broker, decides which.
"""

import os
import secrets
import sys

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
TOPIC = f"seats-{secrets.token_hex(3)}"
PARTITIONS = 6
NAMES = ("Ada", "Grace", "Hedy")
members: dict[str, Consumer] = {}


def owned(name: str) -> set[int]:
    return {p.partition for p in members[name].assignment()} if name in members else set()


def show_when_settled(event: str) -> None:
    """Polls, which is what takes a member through a rebalance, until each has its share."""
    while not all(map(owned, members)) or sum(len(owned(name)) for name in members) < PARTITIONS:
        for member in members.values():
            member.poll(0.05)
    seats = (" ".join("·■"[p in owned(name)] for p in range(PARTITIONS)) for name in NAMES)
    print(f"{event:13} " + "    ".join(seats), flush=True)


admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
numbers = " ".join(map(str, range(PARTITIONS)))
print(" " * 14 + "    ".join(f"{name:{len(numbers)}}" for name in NAMES))
print("partition     " + "    ".join([numbers] * len(NAMES)))
for name in NAMES:
    members[name] = Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC, "heartbeat.interval.ms": 200}
    )
    members[name].subscribe([TOPIC])
    show_when_settled(f"{name} joins")
for name in NAMES[:-1]:
    members.pop(name).close()
    show_when_settled(f"{name} leaves")
members.popitem()[1].close()
