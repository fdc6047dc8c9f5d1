"""`pybroker doctor`: what is between this machine and a healthy cluster, and the remedy.

The exit status is 1 if something is bad. Mirrors nothing of Kafka.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import click

from ..broker.resources.visible_text import visible
from .options import run_client
from .target import Target, cluster_options

if TYPE_CHECKING:
    from ..client.diagnosis import Finding

MARKS: Final = {"ok": "ok  ", "warning": "warn", "bad": "BAD "}
COLORS: Final = {"ok": "green", "warning": "yellow", "bad": "red"}
EXIT_STATUS_BAD: Final = 1


@click.command(
    epilog="""\b
Examples:
  pybroker doctor
  pybroker doctor --bootstrap-server kafka.example.com:9092
  pybroker doctor --command-config client.properties --json
"""
)
@cluster_options
def doctor(target: Target) -> None:
    """Find out why a client does not get through, or what ails the cluster.

    Goes step by step: names and ports, TLS and logins, the addresses that brokers advertise, the
    controller, leaders and replicas, disks; then this machine's own Python and Java. Nothing is
    changed. The exit status is 1 if something is bad.
    """
    from rich.console import Console
    from rich.text import Text

    from ..client.diagnosis import State, diagnose

    terminal = Console(highlight=False, soft_wrap=True)
    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if target.as_json:
            return
        kind = finding.state.value
        terminal.print(Text.assemble((MARKS[kind], COLORS[kind]), " ", visible(finding.text)))
        if finding.remedy:
            terminal.print(Text(f"     -> {visible(finding.remedy)}"))

    run_client(lambda: diagnose(target.bootstrap, target.security, report))
    report(_own_python())
    report(_own_java())
    if target.as_json:
        target.show(
            [{"state": f.state.value, "text": f.text, "remedy": f.remedy} for f in findings]
        )
    if any(finding.state is State.BAD for finding in findings):
        raise click.exceptions.Exit(EXIT_STATUS_BAD)


def _own_python() -> Finding:
    from importlib.metadata import version

    from ..client.diagnosis import Finding, State
    from ..compiled import described

    return Finding(
        State.OK,
        f"pybroker {version('pybroker-kafka')} ({described()}), Python "
        f"{platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores",
    )


def _own_java() -> Finding:
    """Asked of the module that Spark's jobs use, in a process: commands do not know Spark."""
    from ..client.diagnosis import Finding, State

    command = [sys.executable, "-P", "-m", "pybroker_kafka.spark_jobs.java"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Finding(State.WARNING, "there is no Java 17 or newer, which only Spark needs")
    return Finding(State.OK, f"Java for Spark: {done.stdout.strip()}")
