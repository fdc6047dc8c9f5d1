"""Read a log directory: which files a partition has, and what is in them.

    pybroker start
    python examples/read_a_log_directory.py [BOOTSTRAP_SERVERS]

It fills a topic that has small segments, asks the brokers where its partition lies (they must be on
this machine), and shows which files are there, and all that is in the newest segment: batches and
their records. The indexes of the newest segment have their full size from the start. Apache Kafka
writes the same bytes: each can open the directory of the other.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
TOPIC = f"letters-{secrets.token_hex(3)}"
SMALL = {"segment.bytes": "500", "index.interval.bytes": "100"}
LETTERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
JOBS = {
    ".log": "the records, in batches",
    ".index": "where in the .log an offset is",
    ".timeindex": "which offset a time has",
    ".snapshot": "the producers, so that nothing is written twice",
    "": "at which offset each leader began",
    ".metadata": "the topic's id",
}

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=SMALL)])
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=5000)
for number, letter in enumerate(LETTERS, 1):
    producer.send(TOPIC, key=letter.encode(), value=b"letter %d of the alphabet" % number)
    if number % 2 == 0:
        producer.flush()  # ends a batch
producer.close()
(folder,) = (
    Path(log_dir["log_dir"], f"{TOPIC}-0")
    for broker in admin.describe_log_dirs([TOPIC])
    for log_dir in broker["log_dirs"]
    if log_dir["topics"]
)
admin.close()

print(folder)
for file in sorted(folder.iterdir()):
    print(f"  {file.name:32}{file.stat().st_size:>9} bytes   {JOBS.get(file.suffix, '')}")
print("\nThe newest segment, as `pybroker log dump --print-data-log` shows it:", flush=True)
newest = max(folder.glob("*.log"))
command = ["-m", "pybroker_kafka", "log", "dump", "--print-data-log", str(newest)]
subprocess.run([sys.executable, "-P", *command], check=True)
