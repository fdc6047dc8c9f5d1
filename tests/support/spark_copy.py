"""A job that copies a topic with Spark, to Parquet and to another topic, until it is killed.

    python -m tests.support.spark_copy SERVERS SOURCE TARGET DIRECTORY [OPTION=VALUE ...]

The options are those of the source. A batch's rows go to DIRECTORY/rows/N, which a second try of
batch N overwrites, then to the target.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pybroker_kafka.spark_jobs.session import kafka_session
from pybroker_kafka.spark_jobs.source.data_source import FORMAT


def main(servers: str, source: str, target: str, directory: str, *options: str) -> None:
    session = kafka_session("copy", master="local[2]", shuffle_partitions=2)

    def write(batch: Any, number: int) -> None:
        batch.persist()
        batch.write.mode("overwrite").parquet(str(Path(directory, "rows", str(number))))
        (
            batch.select("key", "value")
            .write.format(FORMAT)
            .option("kafka.bootstrap.servers", servers)
            .option("topic", target)
            .mode("append")
            .save()
        )
        batch.unpersist()

    (
        session.readStream.format(FORMAT)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .options(**dict(one.split("=") for one in options))
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(Path(directory, "checkpoint")))
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
