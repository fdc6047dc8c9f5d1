"""Apache Kafka's command line tools, run by one JVM for as long as the tests last.

A tool's own `main` is called with the arguments of its script, as often as it is wanted: that costs
a tenth of a second instead of a JVM's start. A tool may leave a client running, which goes on to
log: that is kept out of what the next one prints. Skipped where Java, its compiler or Maven is
missing.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import threading

from tests.support.apache_kafka import java_command

TIMEOUT_SECONDS = 180.0
END_OF_ANSWER = "\x04"


class KafkaTools:
    """The process: it ends with its input, so also when the tests are killed."""

    def __init__(self) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            java_command("KafkaTools", source="KafkaTools.java"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
            errors="replace",
        )
        atexit.register(self._process.kill)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def run(self, main_class: str, *arguments: str) -> tuple[str, str]:
        """What the tool printed, and what it complained of."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = self._complaints.seek(0, 2)
        self._process.stdin.write("\t".join((main_class, *arguments)) + "\n")
        self._process.stdin.flush()
        patience = threading.Timer(TIMEOUT_SECONDS, self._process.kill)
        patience.start()
        printed, status = "", ""
        try:
            for line in self._process.stdout:
                text, is_end, status = line.partition(END_OF_ANSWER)
                printed += text
                if is_end:
                    break
        finally:
            patience.cancel()
        self._complaints.seek(mark)
        complaints = self._complaints.read()
        told = f"{main_class} {arguments}:\n{printed}\n{complaints}"
        assert self.is_running, f"no answer within {TIMEOUT_SECONDS:.0f} s, or its end: {told}"
        assert int(status) == 0, told
        return printed, complaints

    def close(self) -> None:
        atexit.unregister(self._process.kill)
        self._process.kill()
        self._process.communicate()
        self._complaints.close()


_running: list[KafkaTools] = []


def kafka_tool(main_class: str, *arguments: str) -> str:
    """Run one of Kafka's command line tools; returns what it printed."""
    if not _running or not _running[-1].is_running:
        _running.append(KafkaTools())
    return _running[-1].run(main_class, *arguments)[0]
