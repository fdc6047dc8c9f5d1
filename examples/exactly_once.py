"""Exactly once with confluent-kafka: read, process and write in transactions.

    pybroker start
    python examples/exactly_once.py [BOOTSTRAP_SERVERS]

You see a worker that takes orders from one topic and writes invoices to another. It fails in the
middle of the second batch, after it has written the invoices; it aborts, and does the batch again.
The invoices and the worker's place among the orders are committed together, or neither is: a reader
of committed records sees one invoice an order, a reader of all records sees the aborted ones too.
"""

import os
import secrets
import sys

from confluent_kafka import Consumer, Message, Producer, TopicPartition

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
RUN = secrets.token_hex(3)
ORDERS, INVOICES, BATCH, COUNT = f"orders-{RUN}", f"invoices-{RUN}", 4, 12
CLUSTER = {"bootstrap.servers": BOOTSTRAP}
READER = {**CLUSTER, "auto.offset.reset": "earliest", "enable.auto.commit": False}


def text(message: Message) -> str:
    return (message.value() or b"").decode()


shop = Producer(CLUSTER)
for number in range(COUNT):
    shop.produce(ORDERS, f"order {number}", partition=0)
shop.flush()

orders = Consumer({**READER, "group.id": f"worker-{RUN}", "isolation.level": "read_committed"})
orders.subscribe([ORDERS])
invoices = Producer({**CLUSTER, "transactional.id": f"worker-{RUN}"})
invoices.init_transactions()
for fails in (False, True, False, False):
    batch = orders.consume(BATCH, timeout=30)
    print(", ".join(text(order) for order in batch), end=": ")
    invoices.begin_transaction()
    for order in batch:
        invoices.produce(INVOICES, f"invoice for {text(order)}", partition=0)
    if fails:
        invoices.flush()  # the brokers have the invoices already
        invoices.abort_transaction()
        orders.seek(TopicPartition(ORDERS, 0, batch[0].offset() or 0))
        print("the worker failed, all of it is aborted")
        continue
    place = orders.position(orders.assignment())
    invoices.send_offsets_to_transaction(place, orders.consumer_group_metadata())
    invoices.commit_transaction()
    print("committed")
orders.close()

for isolation, expected in (("read_committed", COUNT), ("read_uncommitted", COUNT + BATCH)):
    reader = Consumer({**READER, "group.id": "audit", "isolation.level": isolation})
    reader.assign([TopicPartition(INVOICES, 0, 0)])
    found = [record.value() for record in reader.consume(expected, timeout=30)]
    print(f"{isolation:16}  {len(found)} invoices for {len(set(found))} orders")
    reader.close()
