"""A topic as a table: Spark reads it with SQL, and no connector runs.

    pip install 'pybroker-kafka[spark,tables]'       (and Java 17 or newer)
    pybroker start
    python examples/topic_as_table.py [BOOTSTRAP_SERVERS]

You see the flights and the mean delay of each carrier, out of 300 flights that are in the topic as
JSON and in the table as columns. Spark fetches the jars of Iceberg from Maven Central once.
"""

import json
import os
import secrets
import sys
import time

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.spark_jobs.tables import table_session

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
TOPIC = f"flights_{secrets.token_hex(3)}"
CARRIERS = ("AA", "LH", "UA")
COLUMNS = {"carrier": {"type": "string"}, "delay": {"type": "integer"}}

configs = {
    "pybroker.table": "iceberg",
    "pybroker.table.schema": json.dumps({"type": "object", "properties": COLUMNS}),
    "pybroker.table.target.lag.ms": "1000",
}
admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
admin.create_topics([NewTopic(TOPIC, 3, 1, topic_configs=configs)])
admin.close()
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for number in range(300):
    flight = {"carrier": CARRIERS[number % 3], "delay": number // 3}
    producer.send(TOPIC, json.dumps(flight).encode())
producer.close()

spark = table_session("topic_as_table", master="local[2]", shuffle_partitions=2)
table = f"kafka.{TOPIC}"
while not spark.catalog.tableExists(table) or spark.table(table).count() < 300:
    time.sleep(0.5)
spark.sql(
    f"SELECT carrier, count(*) AS flights, avg(delay) AS mean_delay FROM {table} "
    "GROUP BY carrier ORDER BY carrier"
).show()
spark.stop()
