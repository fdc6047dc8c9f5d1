"""A SparkSession that can read and write Kafka topics, or one clear error with the remedy.

Topics are read by `format("pybroker")`, which needs no jar. For `format("kafka")` the official
connector comes from Maven Central through Spark's own Ivy resolution and is cached
in ~/.ivy2*. Of all pairs of pyspark and connector 4.0.0 is the newest whose parts all resolve;
`PYBROKER_SPARK_CONNECTOR` names another. Hadoop's artifacts are left out: pyspark ships them.

Spark 4.0 makes a folder `artifacts` in its JVM's own directory. So a JVM started here runs in a
temporary directory; its `user.dir` is then set to the directory that relative paths refer to.

Under `spark-submit` its own session is used unchanged (give it `--packages`).
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING

from .java import cache_directory, find_java_home
from .source import check_spark, register

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

SCALA_VERSION = "2.13"
DELTA_PACKAGE = "io.delta:delta-spark_2.13:4.0.0"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
EXCLUDED = "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"

LONGEST_FETCH_SECONDS = 300.0

_CONNECTOR_ADVICE = (
    " It looked for the Kafka connector {} in its Ivy cache (~/.ivy2*) and on Maven Central; the "
    "lines above say what it did not find. Check the network once (afterwards the cache serves), "
    'set PYBROKER_SPARK_CONNECTOR to a version that you have, or use format("pybroker").'
)


class SparkUnavailableError(RuntimeError):
    """Spark or its Kafka connector is not available; the message says what was looked for."""


def connector_coordinates() -> str:
    """Maven coordinates of the connector, at pyspark's own version unless overridden."""
    override = os.environ.get("PYBROKER_SPARK_CONNECTOR")
    if override:
        return override
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA_VERSION}:{pyspark.__version__}"


def _quiet_logging() -> Path:
    """A log4j2 configuration that shows errors only, so that a job's own output stays readable."""
    path = cache_directory() / "spark-log4j2.properties"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "rootLogger.level = error\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        "appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n\n"
        "logger.admin.name = org.apache.kafka\n"
        "logger.admin.level = off\n"
    )
    return path


def kafka_session(
    name: str,
    *,
    master: str = "local[*]",
    shuffle_partitions: int = 4,
    official_connector: bool = False,
    packages: tuple[str, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start (or join) a session that supports `format("pybroker")`.

    With `official_connector` it supports `format("kafka")` as well; its jar is fetched once, and so
    are `packages` (Maven coordinates). `settings` are Spark's own. Raises JavaNotFoundError,
    SparkUnavailableError.
    """
    os.environ.setdefault("JAVA_HOME", str(find_java_home()))
    if master.startswith(("local", "spark://127.0.0.1:")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark import SparkConf
        from pyspark.errors.exceptions.base import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailableError(
            "pyspark is not installed; install it with: pip install 'pybroker-kafka[spark]'"
        ) from error
    try:
        check_spark()
    except ImportError as error:
        raise SparkUnavailableError(str(error)) from error
    config = {
        "spark.app.name": name,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        # Otherwise, `availableNow` is a single batch for a source in Python: after a kill it runs
        # the unfinished batch alone, and newer records are not read.
        "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
    }
    starts_java = "SPARK_ENV_LOADED" not in os.environ and SparkSession.getActiveSession() is None
    if starts_java:
        logging = f"-Dlog4j2.configurationFile={_quiet_logging()}"
        config |= {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": logging,
            "spark.executor.extraJavaOptions": logging,
        }
        if official_connector:
            packages = (connector_coordinates(), *packages)
        if packages:
            config["spark.jars.packages"] = ",".join(packages)
            config["spark.jars.excludes"] = EXCLUDED
    config |= settings or {}
    with _captured_standard_error() as captured:
        try:
            if starts_java:
                _start_java(SparkConf().setAll(list(config.items())))
            session: SparkSession = SparkSession.builder.config(map=dict(config)).getOrCreate()
        except PySparkRuntimeError as error:
            captured.seek(0)
            said = captured.read().decode(errors="replace").strip()
            raise SparkUnavailableError(
                f"{said[-4000:]}\n\nSpark did not start."
                + (_CONNECTOR_ADVICE.format(connector_coordinates()) if official_connector else "")
            ) from error
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session


def _start_java(config: SparkConf) -> None:
    """Start Spark's JVM and its context, in a directory of their own; see above."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # from a session that was stopped
        return
    directory = tempfile.mkdtemp(prefix="pybroker-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    link_pyspark(Path(directory))
    fetches = config.get("spark.jars.packages") is not None
    with alone(cache_directory() / "ivy.lock") if fetches else nullcontext():
        gateway = launch_gateway(config, {"cwd": directory})  # type: ignore[no-untyped-call]
    gateway.jvm.System.setProperty("user.dir", os.getcwd())
    # Ivy has opened file systems before, which use the old directory.
    gateway.jvm.org.apache.hadoop.fs.FileSystem.closeAll()
    SparkContext(conf=config, gateway=gateway)


def link_pyspark(directory: Path) -> None:
    """Let the Python processes of a JVM that is started in this directory find pyspark there.

    Spark starts them with `-m`, so they search there before its pyspark.zip. The zip has the same
    files without compiled bytecode: each process would compile them again.
    """
    if "SPARK_HOME" in os.environ:  # it may be another Spark than the package
        return
    import pyspark

    (directory / "pyspark").symlink_to(Path(pyspark.__file__).parent)


@contextmanager
def alone(path: Path, limit_seconds: float = LONGEST_FETCH_SECONDS) -> Iterator[None]:
    """Hold a lock on `path`: other processes and threads of this user wait, at most
    `limit_seconds`.

    Ivy needs it: if two processes fetch the same jar into its cache, one fails with "download
    failed". After the limit the block runs without the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = monotonic() + limit_seconds
    with path.open("ab") as file:
        while not _is_locked(file) and monotonic() < ends:
            sleep(0.1)
        yield


def _is_locked(file: IO[bytes]) -> bool:
    """Take the lock without waiting; whether this process has it now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _captured_standard_error() -> Iterator[IO[bytes]]:
    """Capture the output of Spark's launcher and Ivy while they start, in case they fail."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield captured
        finally:
            os.dup2(kept, 2)
            os.close(kept)
