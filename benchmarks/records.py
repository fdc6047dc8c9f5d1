"""CPU time of the loops over records, compiled and interpreted: `python -m benchmarks.records`.

The loops run over batches of 1 MB with records of 1 KiB and of 100 B, uncompressed and in each
codec. A line shows CPU nanoseconds per record and CPU seconds per gigabyte of records, from the
best of several runs, which is stable even on a busy machine.

| row | what is measured |
|---|---|
| header only | `validate` with `record.validation=batch`: header and CRC, no record |
| full | the same with `full`: unpacked if need be, and scanned |
| unpack | the codec's library alone |
| columns, objects, build | `decode_columns`, `decode_records`, `build_batch`; without compression |
| keys | the cleaner's `scan_keys` |

The effect on a whole broker: `benchmarks.run --loads bulk --brokers pybroker,pybroker-batch`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    read_batch_header,
    records_block,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.compression import MAX_DECOMPRESSED_BYTES
from pybroker_kafka.protocol.records.layout import HEADER_SIZE
from pybroker_kafka.protocol.records.loops import COMPILED
from pybroker_kafka.protocol.records.loops.keys import scan_keys
from pybroker_kafka.protocol.records.record import Record, decode_records
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.append_info import Append, AppendRules
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.validation import AppendInput, pre_validate, validate

BATCH_BYTES = 1 << 20
OVERHEAD_BYTES = 24  # of a record here: its key and its numbers
SIZES = (1024, 100)
RUNS, RUN_SECONDS = 7, 0.05
NOW_MS = 1_700_000_000_000


def records_of(size: int) -> list[SimpleRecord]:
    """About 1 MB of records; half of each value can be compressed away."""
    chance = random.Random(1)
    value_bytes = size - OVERHEAD_BYTES
    return [
        SimpleRecord(
            NOW_MS + number // 100,
            b"key-%08d" % number,
            chance.randbytes(value_bytes // 2).ljust(value_bytes, b"v"),
        )
        for number in range(BATCH_BYTES // size)
    ]


def best(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    call()
    started = time.process_time()
    call()
    calls = max(1, int(RUN_SECONDS / max(time.process_time() - started, 1e-6)))
    found = []
    for _ in range(RUNS):
        started = time.process_time()
        for _ in range(calls):
            call()
        found.append((time.process_time() - started) / calls)
    return min(found)


def check(batch: bytearray, sent: bytes, rules: AppendRules) -> None:
    """What a leader does to one batch before it writes it."""
    batch[:HEADER_SIZE] = sent[:HEADER_SIZE]
    given: AppendInput = batch
    append = Append(NOW_MS, 9)
    if rules.validate_fully and read_batch_header(sent).is_compressed:
        given = pre_validate(batch, rules, append)
    validate(given, rules, append, 7, 3)


def objects(block: bytes, count: int) -> list[Record]:
    return list(decode_records(block, count, 0, NOW_MS, -1, None))


def measure() -> dict[str, float]:
    """CPU nanoseconds a record, by size and row."""
    config = LogConfig.from_overrides({}, {})
    by_header, fully = (AppendRules(config, "t-0", full, WallClock()) for full in (False, True))
    found: dict[str, float] = {}
    for size in SIZES:
        records = records_of(size)
        count = len(records)
        calls: dict[str, Callable[[], object]] = {}
        for codec in Compression:
            batch = build_batch(records, compression=codec)
            sent = bytes(batch)
            name = codec.name.lower()
            calls[f"header only, {name}"] = partial(check, batch, sent, by_header)
            calls[f"full, {name}"] = partial(check, batch, sent, fully)
            calls[f"unpack, {name}"] = partial(
                records_block,
                sent,
                0,
                read_batch_header(sent),
                max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
            )
        plain = bytes(build_batch(records))
        calls["columns"] = partial(decode_columns, plain)
        calls["objects"] = partial(objects, plain[HEADER_SIZE:], count)
        calls["build"] = partial(build_batch, records)
        calls["keys"] = partial(scan_keys, plain[HEADER_SIZE:], count, 0)
        for row, call in calls.items():
            found[f"{size} {row}"] = best(call) / count * 1e9
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="print the figures of this process as JSON"
    )
    if parser.parse_args().json:
        print(json.dumps({"compiled": COMPILED, "ns": measure()}))
        return
    runs = []
    for wanted in ("1", "0"):
        command = [sys.executable, "-m", "benchmarks.records", "--json"]
        environment = {**os.environ, "PYBROKER_COMPILED": wanted}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    compiled, interpreted = runs
    if not compiled["compiled"]:
        print("The loops are not compiled here: make compiled.")
    print("CPU ns a record (s/GB)           compiled               interpreted")
    for row, ns in interpreted["ns"].items():
        size = int(row.partition(" ")[0])
        print(
            f"{row:28} {compiled['ns'][row]:9.0f} ({compiled['ns'][row] / size:6.3f}) "
            f"{ns:14.0f} ({ns / size:6.3f})"
        )


if __name__ == "__main__":
    main()
