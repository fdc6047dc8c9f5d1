"""Commands of pybroker in this process, against a cluster that is there."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from click.testing import CliRunner, Result

from pybroker_kafka.cli.main import main


@contextlib.contextmanager
def standard_input(text: str) -> Iterator[None]:
    """As a file, which is how a command of ours reads it: by its descriptor."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


class Commands:
    """`pybroker WORDS --bootstrap-server ...`, without a process of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, text: str = "") -> Result:
        arguments = [*words, "--bootstrap-server", self.bootstrap]
        with standard_input(text):
            return CliRunner().invoke(main, arguments)

    def text(self, *words: str, stdin: str = "") -> str:
        """What it prints on standard output; it succeeds."""
        done = self.run(*words, text=stdin)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.stdout

    def json(self, *words: str) -> Any:
        """What it prints for programs; it succeeds."""
        return json.loads(self.text(*words, "--json"))

    def refused(self, *words: str) -> str:
        """The one line that it says, with exit status 2."""
        done = self.run(*words)
        assert done.exit_code == 2, (words, done.output, done.exception)
        return done.stderr.splitlines()[-1]
