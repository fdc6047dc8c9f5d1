"""Two brokers for many abuses, one with TLS and logins; the table of what the good client saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.abuse.beside import TABLE, WATCHED, Bystander, bystander, format_table
from tests.abuse.secured import Secured, secured_bystander
from tests.support.processes import free_port


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    """A broker with its metrics port, and the good client beside it."""
    port = free_port()
    program = ["sh", "-c", f'exec "$@" --metrics-port {port}', "sh", *WATCHED]
    with bystander(tmp_path_factory.mktemp("abuse"), program=program) as beside:
        beside.metrics_port = port
        yield beside


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with TLS and logins, and the good client that comes by both."""
    with secured_bystander(tmp_path_factory.mktemp("secured")) as running:
        yield running


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TABLE:
        terminalreporter.section("a good client beside each abuse (ms)")
        terminalreporter.write_line(format_table(TABLE))
