"""Watch a failover: what a producer sees when the leader of its partition is killed.

    pybroker start
    python examples/watch_a_failover.py [BOOTSTRAP_SERVERS]

It produces without a pause, prints a dot for every 40 acknowledgements, and has `pybroker kill` end
the leader with SIGKILL. You see for how long nothing was acknowledged, who leads then, and that no
record is lost or there twice. At the end the broker is started again. For a cluster that was
started with --data-dir, set PYBROKER_DATA_DIR to the same directory.
"""

import os
import secrets
import sys
import time
from contextlib import suppress
from itertools import pairwise
from subprocess import DEVNULL, PIPE, Popen, run

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
CLUSTER: dict[str, str | int | float | bool] = {"bootstrap.servers": BOOTSTRAP, "log_level": 0}
PYBROKER = [sys.executable, "-P", "-m", "pybroker_kafka"]
TOPIC = f"heartbeats-{secrets.token_hex(3)}"
acknowledged: list[float] = []


def delivered(error: object, _message: object) -> None:
    assert error is None, error
    acknowledged.append(time.monotonic())
    print("" if len(acknowledged) % 40 else ".", end="", flush=True)


def produce(count: int) -> None:
    goal = len(acknowledged) + count
    while len(acknowledged) < goal:
        producer.produce(TOPIC, b"beat", partition=0, on_delivery=delivered)
        producer.poll(0.01)  # returns with the next acknowledgement


def leader() -> int:
    # Without a limit of time it waits for ever, if the broker that it asks is the dead one.
    with suppress(KafkaException, KeyError):
        return int(producer.list_topics(TOPIC, timeout=2).topics[TOPIC].partitions[0].leader)
    return -1


admin = AdminClient(CLUSTER)
admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result()
producer = Producer({**CLUSTER, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
while (victim := leader()) < 0:
    produce(1)
print(f"broker {victim} leads          ", end="")
produce(1000)
print(f"\npybroker kill {victim}          ", end="", flush=True)
with Popen([*PYBROKER, "kill", str(victim)], stdout=DEVNULL, stderr=PIPE) as kill:
    while leader() in (victim, -1):
        produce(20)
        assert not kill.poll(), kill.communicate()
    kill.terminate()  # else it waits for all partitions of the cluster
print(f"\nbroker {leader()} leads          ", end="")
produce(1000)
producer.flush()
print(f"\npybroker restart {victim}       ", end="", flush=True)
run([*PYBROKER, "restart", str(victim)], stdout=DEVNULL, check=True)
_, end = Consumer(CLUSTER | {"group.id": "-"}).get_watermark_offsets(TopicPartition(TOPIC, 0), 30)
told = f"{len(acknowledged)} records acknowledged, {end} in the log"
print(f"it follows broker {leader()}\n{told}", end="; ")
print(f"the longest silence was {max(b - a for a, b in pairwise(acknowledged)):.2f} s")
