"""How a Java of the tests runs: its life is short, and the processor shared.

The compiler that compiles well costs more than it saves in half a minute, and so do threads that
collect garbage: a PySpark program of a few batches takes 16 instead of 25 CPU seconds.
"""

from __future__ import annotations

import os

JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def use_for_spark() -> None:
    """For the JVMs that PySpark starts in this process, and in those that it starts."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(JVM_OPTIONS))
