"""Kafka topics in PySpark without a jar: `format("pybroker")`.

    from pybroker_kafka.spark_jobs.source import register

    register(spark)
    frame = spark.readStream.format("pybroker").option("kafka.bootstrap.servers", ...)

Options and columns are those of Spark's Kafka connector. Needs Spark 4.0 or later, and pyarrow.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession) -> None:
    """Register `format("pybroker")` with a session, for batch and streaming.

    Raises ImportError with an older Spark, or without pyarrow; the message says what to install.
    """
    check_spark()
    try:
        import pyarrow  # noqa: F401 - Spark's Python sources need it
    except ImportError as error:
        raise ImportError(
            "Spark needs pyarrow for sources in Python: pip install 'pybroker-kafka[spark]'"
        ) from error
    from .data_source import KafkaDataSource

    _use_this_python(session)
    session.dataSource.register(KafkaDataSource)


def check_spark() -> None:
    """Check that the installed Spark has sources in Python. Raises ImportError."""
    from pyspark import __version__

    if int(__version__.partition(".")[0]) < 4:
        raise ImportError(
            f'format("pybroker") needs Spark 4.0 or later, and this is Spark {__version__}, which '
            "has no sources in Python: install 'pyspark>=4.0,<5', or read with Spark's own "
            'format("kafka")'
        )


def _use_this_python(session: SparkSession) -> None:
    """On one machine workers run this Python: the `python3` of the PATH may not have pybroker."""
    if "PYSPARK_PYTHON" in os.environ or session.conf.get("spark.pyspark.python", None):
        return
    context = getattr(session, "sparkContext", None)  # Spark Connect has none
    if context is not None and context.master.startswith("local"):
        context.pythonExec = sys.executable
