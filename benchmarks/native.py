"""The two load generators in C: compiled when first needed, run as processes of their own.

`load` sends small requests from one epoll loop, `bulk` drives librdkafka. Both report what they
cost themselves, so that a reader sees whether the client or the broker was the limit.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

COMPILE_SECONDS = 60
# On top of what a run is asked to last: connecting, draining, ending.
SPARE_SECONDS = 45.0
BULK_SECONDS = 150.0
SOURCES = Path(__file__).resolve().parent


class LeftOut(Exception):
    """This machine lacks something that a load needs; the message says what."""


class LoadError(Exception):
    """A load generator gave up; the message is its own."""


class Answered(NamedTuple):
    """What `load` reports; costs are of the measured time, without the warm-up."""

    requests: float
    seconds: float
    client_cpu: float
    broker_cpu: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    unanswered: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def broker_us(self) -> float:
        return self.broker_cpu / max(self.requests, 1) * 1e6

    @property
    def client_us(self) -> float:
        return self.client_cpu / max(self.requests, 1) * 1e6


class Moved(NamedTuple):
    """What `bulk` reports."""

    seconds: float
    client_cpu: float
    megabytes: float

    @property
    def rate(self) -> float:
        return self.megabytes / self.seconds

    def cost(self, cpu: float) -> float:
        """CPU seconds a gigabyte."""
        return cpu / (self.megabytes / 1e3)


@functools.cache
def program(name: str, *, tls: bool = False) -> Path:
    """The compiled `name`.c, with OpenSSL if it is to speak `tls`. Raises LeftOut where that
    cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise LeftOut("the load generator is in C, and there is no C compiler (cc) on PATH")
    source = SOURCES / f"{name}.c"
    libraries = _librdkafka() if name == "bulk" else []
    if tls:
        libraries = ["-DWITH_TLS", "-lssl", "-lcrypto"]
    digest = hashlib.sha256(source.read_bytes() + repr(libraries).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    made = cache / f"{name}-{digest}"
    if made.exists():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    staged = made.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-o", str(staged), str(source), *libraries]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
    )
    if done.returncode:
        raise LeftOut(f"{source.name} cannot be compiled here: {done.stderr[-500:]}")
    staged.replace(made)
    return made


def _librdkafka() -> list[str]:
    """The library that the wheel of confluent-kafka brings along."""
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        raise LeftOut("confluent-kafka is not installed")
    libraries = Path(found.origin).parent.parent / "confluent_kafka.libs"
    library = next(iter(libraries.glob("librdkafka-*.so*")), None)
    if library is None:
        raise LeftOut("this confluent-kafka has no librdkafka of its own")
    return [str(library), f"-Wl,-rpath,{libraries}"]


class Lines(NamedTuple):
    """Frames for one broker of a cluster, to be sent in turn."""

    address: tuple[str, int]
    frames: Sequence[bytes]


def load_command(
    place: Path,
    lines: Sequence[Lines],
    *,
    connections: int = 1,
    in_flight: int = 1,
    warm_up: float = 1.0,
    seconds: float = 3.0,
    rate: float = 0.0,
    idle: int = 0,
    error_at: int = -1,
    pids: Sequence[int] = (),
    fetch: tuple[bytes, int] | None = None,
    tls: bool = False,
) -> list[str]:
    """The command for `load`; its frames are written to files in `place`."""
    command = [str(program("load", tls=tls)), *(["-t"] if tls else [])]
    for flag, value in (("-c", connections), ("-i", in_flight), ("-w", warm_up), ("-s", seconds),
                        ("-r", rate), ("-n", idle), ("-e", error_at)):  # fmt: skip
        command += [flag, str(value)]
    for pid in pids:
        command += ["-p", str(pid)]
    if fetch is not None:
        (place / "fetch").write_bytes(fetch[0])
        command += ["-f", str(place / "fetch"), "-o", str(fetch[1])]
    for number, ((host, port), frames) in enumerate(lines):
        path = place / f"frames-{number}"
        path.write_bytes(b"".join(frames))
        command.append(f"{host}:{port}:{path}")
    return command


def run_load(lines: Sequence[Lines], **options: object) -> Answered:
    with started_load(lines, **options) as process:
        return finish_load(process, _duration(options))


@contextmanager
def started_load(lines: Sequence[Lines], **options: object) -> Iterator[subprocess.Popen[str]]:
    """A running `load`, killed at the end of the block if it still runs."""
    with tempfile.TemporaryDirectory(prefix="load-") as place:
        command = load_command(Path(place), lines, **options)  # type: ignore[arg-type]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def finish_load(process: subprocess.Popen[str], seconds: float) -> Answered:
    return Answered(**_outcome(process, seconds + SPARE_SECONDS))


def _duration(options: Mapping[str, object]) -> float:
    return float(str(options.get("warm_up", 1.0))) + float(str(options.get("seconds", 3.0)))


def bulk_produce(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str]
) -> Moved:
    return _bulk(["produce", bootstrap, topic, str(records), str(record_bytes)], settings)


def bulk_consume(
    bootstrap: str,
    topic: str,
    records: int,
    record_bytes: int,
    partitions: int,
    settings: Mapping[str, str],
) -> Moved:
    words = ["consume", bootstrap, topic, str(records), str(record_bytes), str(partitions)]
    return _bulk(words, settings)


def _bulk(words: list[str], settings: Mapping[str, str]) -> Moved:
    command = [str(program("bulk")), *words, *(f"{key}={text}" for key, text in settings.items())]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            return Moved(**_outcome(process, BULK_SECONDS))
        finally:
            process.kill()


def _outcome(process: subprocess.Popen[str], limit: float) -> dict[str, float]:
    try:
        output, complaints = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise LoadError(f"the load generator does not end within {limit:.0f} s") from None
    if process.returncode:
        raise LoadError(complaints.strip()[-500:] or f"it ends with {process.returncode}")
    outcome: dict[str, float] = json.loads(output)
    return outcome
