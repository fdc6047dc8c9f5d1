"""Settings of a secured cluster's clients, as files that are ready to paste or to run.

One directory for each user, `security/admin` and `security/user`, written at each start, since the
ports may have changed. They hold the password, so they are as private as the password file.
"""

from __future__ import annotations

from .private_files import write_private
from .secured import ADMIN, CLIENT_PROPERTIES, MECHANISMS, USER, SecurityFiles

KAFKA_PYTHON = '''"""kafka-python: pip install kafka-python"""
from kafka import KafkaConsumer, KafkaProducer

SECURED = dict(
    bootstrap_servers={bootstrap!r},
    security_protocol="SASL_SSL",
    ssl_cafile={authority!r},
    sasl_mechanism={mechanism!r},
    sasl_plain_username={user!r},
    sasl_plain_password={password!r},
)

if __name__ == "__main__":
    KafkaProducer(**SECURED).send("greetings", b"hello").get(timeout=10)
    consumer = KafkaConsumer("greetings", **SECURED, group_id="g", auto_offset_reset="earliest")
    print(next(consumer).value)
    consumer.close()
'''

AIOKAFKA = '''"""aiokafka: pip install aiokafka"""
import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context


def secured():
    return dict(
        bootstrap_servers={bootstrap!r},
        security_protocol="SASL_SSL",
        ssl_context=create_ssl_context(cafile={authority!r}),
        sasl_mechanism={mechanism!r},
        sasl_plain_username={user!r},
        sasl_plain_password={password!r},
    )


async def main():
    async with AIOKafkaProducer(**secured()) as producer:
        await producer.send_and_wait("greetings", b"hello")
    async with AIOKafkaConsumer("greetings", **secured(), auto_offset_reset="earliest") as consumer:
        print((await consumer.getone()).value)


if __name__ == "__main__":
    asyncio.run(main())
'''

CONFLUENT = '''"""confluent-kafka: pip install confluent-kafka"""
from confluent_kafka import Consumer, Producer

SECURED = {{
    "bootstrap.servers": {bootstrap!r},
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": {authority!r},
    "sasl.mechanism": {mechanism!r},
    "sasl.username": {user!r},
    "sasl.password": {password!r},
}}

if __name__ == "__main__":
    producer = Producer(SECURED)
    producer.produce("greetings", b"hello")
    producer.flush(10)
    consumer = Consumer({{**SECURED, "group.id": "g", "auto.offset.reset": "earliest"}})
    consumer.subscribe(["greetings"])
    print(consumer.poll(10).value())
    consumer.close()
'''

SPARK = '''"""Spark: spark.readStream.format("kafka").options(**SECURED)"""

SECURED = {{
    "kafka.bootstrap.servers": {bootstrap!r},
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": {authority!r},
    "kafka.sasl.mechanism": {mechanism!r},
    "kafka.sasl.jaas.config": {jaas!r},
}}
'''

KCAT = """# kcat -F kcat.conf -L, and other programs that use librdkafka
bootstrap.servers={bootstrap}
security.protocol=sasl_ssl
ssl.ca.location={authority}
sasl.mechanisms={mechanism}
sasl.username={user}
sasl.password={password}
"""

# The purpose of each, for people.
FILES = {
    CLIENT_PROPERTIES: "Java clients and Kafka's tools: --command-config",
    "with_kafka_python.py": "kafka-python",
    "with_confluent_kafka.py": "confluent-kafka",
    "with_aiokafka.py": "aiokafka",
    "with_spark.py": "Spark",
    "kcat.conf": "kcat -F",
}


def write_client_files(files: SecurityFiles, bootstrap: str) -> None:
    """Write the files of both users. Raises OSError, ClusterError."""
    for user in (ADMIN, USER):
        for name, text in client_files(files, user, bootstrap).items():
            write_private(files.directory / user / name, text.encode(), lasting=False)


def client_files(files: SecurityFiles, user: str, bootstrap: str) -> dict[str, str]:
    """The contents of a user's files, by name."""
    settings = files.client_settings(user)
    values = {
        "bootstrap": bootstrap,
        "authority": str(files.authority),
        "mechanism": MECHANISMS[0],
        "user": user,
        "password": files.password(user),
        "jaas": settings["sasl.jaas.config"],
    }
    return {
        CLIENT_PROPERTIES: _properties({"bootstrap.servers": bootstrap, **settings}),
        "with_kafka_python.py": KAFKA_PYTHON.format(**values),
        "with_confluent_kafka.py": CONFLUENT.format(**values),
        "with_aiokafka.py": AIOKAFKA.format(**values),
        "with_spark.py": SPARK.format(**values),
        "kcat.conf": KCAT.format(**values),
    }


def _properties(settings: dict[str, str]) -> str:
    """Java reads a backslash as the beginning of something."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
