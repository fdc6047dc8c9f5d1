"""A Spark stream: structured streaming that reads a topic and keeps a table of it up to date.

    pip install 'pybroker-kafka[spark]'       (and Java 17 or newer)
    pybroker start
    python examples/spark_stream.py [BOOTSTRAP_SERVERS]

You see the mean temperature of each city, counted from 300 readings that are in the topic as JSON,
and then the table again after 300 more: the query goes on from the offsets where it was. Spark
takes some seconds to start.
"""

import json
import os
import secrets
import sys

from kafka import KafkaProducer
from pyspark.sql import functions as f

from pybroker_kafka import kafka_session

BOOTSTRAP = (sys.argv[1:] or [os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")])[0]
TOPIC = f"temperatures-{secrets.token_hex(3)}"
CITIES = ("Oslo", "Nairobi", "Lima")


def measure(first: int) -> None:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for number in range(first, first + 300):
        reading = {"city": CITIES[number % 3], "celsius": 4 + 9 * (number % 3) + number / 100}
        producer.send(TOPIC, json.dumps(reading).encode())
    producer.close()


measure(0)
spark = kafka_session("spark_stream", master="local[2]", shuffle_partitions=2)
readings = (
    spark.readStream.format("pybroker")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("subscribe", TOPIC)
    .option("startingOffsets", "earliest")
    .load()
    .select(f.from_json(f.col("value").cast("string"), "city STRING, celsius DOUBLE").alias("r"))
)
means = readings.groupBy("r.city").agg(
    f.count("*").alias("readings"), f.round(f.avg("r.celsius"), 1).alias("mean_celsius")
)
query = means.writeStream.outputMode("complete").format("memory").queryName("means").start()
for first in (0, 300):
    if first:
        measure(first)
    query.processAllAvailable()
    spark.table("means").orderBy("city").show()
query.stop()
spark.stop()
