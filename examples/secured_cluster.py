"""A secured cluster: a user of its own, and what she may do before and after an ACL lets her.

    pybroker start --secure
    python examples/secured_cluster.py [DATA_DIR]

`--secure` writes the settings of two users, `admin` and `user`, into the data directory; this
program takes those of `admin` for confluent-kafka. It makes a user Alice. You see that she may log
in and no more, that she may write once an ACL says so, and still not read what she wrote.
"""

import os
import runpy
import secrets
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import admin as kafka

HOME = os.environ.get("PYBROKER_DATA_DIR") or Path.home() / ".pybroker"
DATA = Path(sys.argv[1] if len(sys.argv) > 1 else HOME)
ADMIN = runpy.run_path(str(DATA / "security/admin/with_confluent_kafka.py"))["SECURED"]
NAME, PASSWORD = f"alice-{secrets.token_hex(3)}", secrets.token_urlsafe()
ALICE = {**ADMIN, "sasl.username": NAME, "sasl.password": PASSWORD}
TOPIC = f"diary-{secrets.token_hex(3)}"


def write() -> str:
    answers: list[str] = []
    producer = Producer(ALICE)
    producer.produce(TOPIC, b"Dear diary", callback=lambda error, _: answers.append(told(error)))
    producer.flush(30)
    return answers[0]


def told(error: KafkaError | None) -> str:
    return error.name() if error else "done"


def read() -> str:
    consumer = Consumer({**ALICE, "group.id": NAME, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    message = consumer.poll(30)
    consumer.close()
    return told(message.error() if message else None)


admin = kafka.AdminClient(ADMIN)
admin.create_topics([kafka.NewTopic(TOPIC, 1)])[TOPIC].result()
how = kafka.ScramCredentialInfo(kafka.ScramMechanism.SCRAM_SHA_512, 4096)
user = kafka.UserScramCredentialUpsertion(NAME, how, PASSWORD.encode())
admin.alter_user_scram_credentials([user])[NAME].result()
print(f"{NAME} writes to {TOPIC}: {write()}")

acl = kafka.AclBinding(
    kafka.ResourceType.TOPIC, TOPIC, kafka.ResourcePatternType.LITERAL,
    f"User:{NAME}", "*", kafka.AclOperation.WRITE, kafka.AclPermissionType.ALLOW,
)  # fmt: skip
admin.create_acls([acl])[acl].result()
while (answer := write()) != "done":  # the ACL reaches the topic's broker a moment later
    time.sleep(0.1)
print(f"with an ACL for it: {answer}")
print(f"{NAME} reads it: {read()}")
print(f"She may after: pybroker acls add --allow {NAME} --consumer --topic {TOPIC} --group {NAME}")
