"""Log files on a full disk: lines are lost and counted, and nothing is written elsewhere."""

import logging
from pathlib import Path

import pytest

from pybroker.broker.observability.log_format import LogFile


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
