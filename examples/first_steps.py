"""First steps with kafka-python: a topic, records into it, and out again.

    pybroker start
    python examples/first_steps.py [BOOTSTRAP_SERVERS]

You see where the brokers put each record (a partition, and an offset in it) as they acknowledge it,
and then a consumer that reads all of them back. Records with the same key are in one partition, so
that they stay in order.
"""

import itertools
import os
import secrets
import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
TOPIC = f"planets-{secrets.token_hex(3)}"
FACTS = [
    ("Mercury", "a year is 88 days"),
    ("Venus", "turns backwards"),
    ("Earth", "has oceans"),
    ("Mars", "has the highest volcano"),
    ("Earth", "has one large moon"),
    ("Mars", "has two small ones"),
]

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic(TOPIC, num_partitions=2)])
admin.close()
print(f"The topic {TOPIC} has 2 partitions.\n\nIn:")

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for planet, fact in FACTS:
    place = producer.send(TOPIC, key=planet.encode(), value=fact.encode()).get(timeout=30)
    print(f"  {planet:8} {fact:24} -> partition {place.partition}, offset {place.offset}")
producer.close()

print("\nOut:")
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", consumer_timeout_ms=30_000
)
for record in itertools.islice(consumer, len(FACTS)):
    planet, fact = record.key.decode(), record.value.decode()
    print(f"  partition {record.partition}, offset {record.offset} -> {planet:8} {fact}")
consumer.close()
print(f"\nThey stay there: pybroker consume {TOPIC} --from-beginning")
