"""Log files on a full disk: lines are lost and counted, and nothing is written elsewhere."""

import json
import logging
from datetime import datetime
from pathlib import Path

import pytest

from pybroker_kafka.broker.observability.log_file import KEPT_FILES, LogFile
from pybroker_kafka.broker.observability.log_format import LogFormat, configure_logging
from pybroker_kafka.broker.observability.log_lines import JsonLines
from pybroker_kafka.console.node_logs import parsed


def test_lines_that_could_not_be_written_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.log"
    handler = LogFile(path)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info("first")
    assert handler.stream is not None
    handler.stream.close()
    handler.stream = open("/dev/full", "a")  # noqa: SIM115
    handler.baseFilename = "/dev/full"
    logger.info("lost")
    logger.info("lost, too")
    handler.baseFilename = str(path)
    logger.info("written")
    logger.info("last")
    handler.close()
    assert path.read_text().splitlines() == [
        "first",
        "(2 lines before this one could not be written)",
        "written",
        "last",
    ]
    assert capsys.readouterr().err == ""


def test_files_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    handler = LogFile(path, max_bytes=1000)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for number in range(1000):
        logger.info("line %d", number)
    handler.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["node.log"] + [
        f"node.log.{number}" for number in range(1, KEPT_FILES)
    ]
    assert all(file.stat().st_size <= 1000 for file in files)
    newest = [line for file in reversed(files) for line in file.read_text().splitlines()]
    assert newest == [f"line {number}" for number in range(1000 - len(newest), 1000)]


def test_lines_as_json(tmp_path: Path) -> None:
    """One line each, whatever is in it, the lost ones told of as well."""
    path = tmp_path / "node.log"
    handler = LogFile(path)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info('two\nlines, "quoted" %s', "\x00")
    try:
        raise ValueError("oh")
    except ValueError:
        logger.exception("failed")
    handler._lost = 3
    logger.warning("again")
    handler.close()
    first, second, lost, third = map(json.loads, path.read_text().splitlines())
    assert first["message"] == 'two\nlines, "quoted" \x00'
    assert (first["level"], first["logger"]) == ("INFO", "test")
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert second["error"].endswith("ValueError: oh")
    assert lost["message"] == "3 lines before this one could not be written"
    assert third["message"] == "again"


FORGED = "x\n[2026-01-01 00:00:00,000] ERROR forged (pybroker)\r\x1b[2J\x85\u2028\udc80"


class Failure(Exception):
    pass


def fail_within() -> None:
    try:
        raise Failure(FORGED)
    except Failure as inner:
        inner.add_note(FORGED)
        raise ExceptionGroup(FORGED, [inner]) from inner


@pytest.mark.parametrize("log_format", LogFormat)
def test_nobody_forges_a_line(tmp_path: Path, log_format: LogFormat) -> None:
    """Two entries with names and errors from outside: two lines that begin one."""
    path = tmp_path / "node.log"
    before = logging.getLogger().handlers[:]
    level = logging.getLogger().level
    try:
        configure_logging(path, log_format=log_format)
        logger = logging.getLogger("pybroker.test")
        logger.warning("client %s", FORGED)
        try:
            fail_within()
        except ExceptionGroup:
            logger.exception("it failed: %s", FORGED, stack_info=True)
    finally:
        for handler in logging.getLogger().handlers[:]:
            handler.close()
            logging.getLogger().removeHandler(handler)
        for handler in before:
            logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(level)
    text = path.read_text()
    entries = [line for line in text.split("\n") if line[:1] not in ("", " ")]
    assert len(entries) == 2, text
    assert all(parsed(line) for line in entries)
    assert text.replace("\n", "").isprintable()
    assert "forged" in text
    assert "fail_within" in text
