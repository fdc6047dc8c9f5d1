"""What reads and writes messages is what their definitions ask for."""

from __future__ import annotations

from pathlib import Path

from tests import codecs


def test_the_generated_modules_are_those_of_the_messages(tmp_path: Path) -> None:
    codecs.write(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    kept = {path.name: path.read_text() for path in codecs.ROOM.glob("*.py")}
    assert written == kept, "python -m tests.codecs"
