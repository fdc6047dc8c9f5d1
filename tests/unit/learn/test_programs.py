"""Blocks run as processes: what they print, how they end, and what goes on in the background."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from pybroker_kafka.learn import programs
from pybroker_kafka.learn.chapter import Run
from pybroker_kafka.learn.programs import Place, Ran, opened, placeholders, prepared

PLACE = Place("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:3", Path("/nowhere"))
ENDLESS = "import time\nprint('here')\nwhile True: time.sleep(1)\n"


def block(language: str, code: str, background: str = "") -> Run:
    return Run(language, code, does_break=False, background=background, watch="")


async def test_what_a_block_prints_and_how_it_ends() -> None:
    async with opened(PLACE) as found:
        shell = block("sh", "")
        assert await found.run(shell, "echo out; echo err >&2") == Ran(True, "out\nerr\n")
        assert await found.run(shell, "echo one; false; echo two") == Ran(False, "one\n")
        assert await found.run(shell, 'echo "$PYBROKER_DATA_DIR"') == Ran(True, "/nowhere\n")
        assert await found.run(shell, "cat") == Ran(True, "")
        python = block("python", "")
        ran = await found.run(python, "import os; print(os.environ['PYBROKER_BOOTSTRAP'])")
        assert ran == Ran(True, f"{PLACE.bootstrap}\n")


async def test_the_command_is_ours() -> None:
    async with opened(PLACE) as found:
        ran = await found.run(block("sh", ""), "pybroker --version")
        assert ran.is_well
        assert ran.output.startswith("pybroker, version ")


async def test_a_program_in_the_background() -> None:
    async with opened(PLACE) as found:
        assert await found.run(block("python", "", "ANN"), ENDLESS) == Ran(True, "ANN: here\n")
        shell = block("sh", "")
        pid = int((await found.run(shell, "echo $ANN")).output)
        os.kill(pid, 0)
        assert (await found.run(shell, "kill -9 $ANN")).is_well
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_in_the_background_ends_with_the_course() -> None:
    async with opened(PLACE) as found:
        await found.run(block("python", "", "ANN"), ENDLESS)
        ann = int((await found.run(block("sh", ""), "echo $ANN")).output)
        await found.run(block("python", "", "ANN"), ENDLESS)  # one that is started again
        with pytest.raises(ProcessLookupError):
            os.kill(ann, 0)
        stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS
        await found.run(block("python", "", "BOB"), stubborn)
        bob = int((await found.run(block("sh", ""), "echo $BOB")).output)
    with pytest.raises(ProcessLookupError):
        os.kill(bob, 0)


async def test_one_that_ends_before_it_says_a_word() -> None:
    async with opened(PLACE) as found:
        assert await found.run(block("python", "", "ANN"), "raise SystemExit(3)") == Ran(False, "")


async def test_a_block_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RUN_SECONDS", 0.2)
    async with opened(PLACE) as found:
        ran = await found.run(block("sh", ""), "sleep 1000")
    assert not ran.is_well
    assert "ended after" in ran.output


async def test_a_cancelled_block_is_ended() -> None:
    async with opened(PLACE) as found:
        with trio.move_on_after(0.2) as scope:
            await found.run(block("sh", ""), "sleep 1000")
        assert scope.cancelled_caught


async def test_long_outputs_are_cut_in_the_middle() -> None:
    async with opened(PLACE) as found:
        ran = await found.run(block("sh", ""), "echo first; seq 1 20000; echo last")
    assert ran.output.startswith("first\n")
    assert ran.output.endswith("last\n")
    assert len(ran.output) < programs.OUTPUT_MAX_CHARACTERS + 10


def test_addresses_and_facts_are_put_into_a_block() -> None:
    shell = block("sh", "kill {controller} {leader a 0} 127.0.0.1:9092 127.0.0.1:2181 '{x}'")
    assert placeholders(shell) == ["controller", "leader a 0", "x"]
    code = prepared(shell, PLACE, {"controller": "2", "leader a 0": "1"})
    assert code == "kill 2 1 127.0.0.1:1,127.0.0.1:2 127.0.0.1:3 '{x}'"
    python = block("python", 'f"{number}"; "127.0.0.1:9092"')
    assert placeholders(python) == []
    assert prepared(python, PLACE, {}) == f'f"{{number}}"; "{PLACE.bootstrap}"'
