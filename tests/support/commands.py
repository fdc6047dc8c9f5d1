"""Commands of pybroker in this process, against a cluster that is there."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from pybroker.broker.cli.main import main


class Commands:
    """`pybroker WORDS --bootstrap-server ...`, without a process of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, text: str = "") -> Result:
        arguments = [*words, "--bootstrap-server", self.bootstrap]
        return CliRunner().invoke(main, arguments, input=text)

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
