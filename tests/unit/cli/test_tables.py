"""Tables: 80 columns on a terminal, whole lines in a pipe."""

from __future__ import annotations

import contextlib
import io
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.cli.options import UserError, echo, escape, show, table
from pybroker_kafka.cli.target import (
    Target,
    bytes_text,
    end_with_errors,
    report,
    show_rows,
    text_of,
)

LONG = "a-long-name-" * 12
ROWS: list[dict[str, object]] = [
    {"group": LONG, "partition": "t-0", "offset": 17, "lag": None, "size_bytes": 74_001_526_784},
    {"group": "b", "partition": "t-[red]1", "offset": None, "lag": None, "size_bytes": 999},
]


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def shown(file: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    show_rows(ROWS)
    return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(Terminal(), monkeypatch)
    assert max(map(len, lines)) <= 80
    assert "".join(line.split()[0] for line in lines[2:-1]) in LONG + "b"
    assert "74.0 GB" in lines[2]
    assert "t-[red]1" in lines[-1]
    assert "lag" not in lines[0]  # nobody has one


def test_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(io.StringIO(), monkeypatch)
    assert len(lines) == 4
    assert LONG in lines[2]


@given(st.integers(0, 2**63))
def test_sizes_are_rounded(size: int) -> None:
    number, unit = bytes_text(size).split()
    value = float(number.replace(",", "")) * 1000 ** ("B", "kB", "MB", "GB", "TB").index(unit)
    assert value == pytest.approx(size, rel=0.06)
    assert len(number) < 6 or unit == "TB"


def test_times_are_dates_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show_rows([{"partition": "t-0", "newest_ms": 1_700_000_000_000}])
    head, row = (line.split() for line in out.getvalue().splitlines() if "t" in line)
    assert head == ["partition", "newest"]
    assert row == ["t-0", "2023-11-14", "22:13:20", "UTC"]


def test_cells() -> None:
    found = [text_of(value) for value in (None, "", True, False, 1.25, [1, 2], [], "x")]
    assert found == ["-", "-", "yes", "no", "1.2", "1,2", "-", "x"]


FORGED = "x\n\x1b[2J\x9b31m\x85\u2028\u202eevil"


def test_names_move_no_cursor_and_begin_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    rows: list[dict[str, object]] = [{"group": FORGED, "members": [FORGED]}]
    for file in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", file)
        show_rows(rows)
        made = table("user")
        made.add_row(escape(FORGED))
        show(made)
        echo(FORGED)
        report(FORGED)
        with click.Context(click.Command("any")) as context:
            Target("", {}, as_json=False).report(FORGED, None)
            with contextlib.suppress(click.exceptions.Exit):
                end_with_errors({FORGED: RuntimeError(FORGED)})
            assert context
        UserError(FORGED).show()
        text = file.getvalue() + capsys.readouterr().err
        assert text.count("evil") == 8
        assert text.replace("\n", "").isprintable()
        assert not any(line.startswith("evil") for line in text.splitlines())
