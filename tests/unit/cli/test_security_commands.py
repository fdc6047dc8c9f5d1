"""What users, acls, quotas and tokens refuse before they speak to anybody."""

import os
import pty
from pathlib import Path

import click.testing
import pytest

from pybroker_kafka.cli.main import main
from tests.support.processes import PYBROKER

NOBODY = ["--bootstrap-server", "127.0.0.1:1"]  # reached by no command that is wrong
ACLS = ["acls", "add", *NOBODY]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([*ACLS, "--topic", "t"], "name the user"),
        ([*ACLS, "--allow", "alice"], "name the resource"),
        ([*ACLS, "--allow", "a", "--producer", "--operation", "read", "--topic", "t"], "leave out"),
        ([*ACLS, "--allow", "a", "--producer", "--group", "g"], "need --topic"),
        ([*ACLS, "--allow", "a", "--consumer", "--topic", "t"], "give both"),
        ([*ACLS, "--allow", "a", "--producer", "--topic", "t", "--cluster"], "--producer takes"),
        (["acls", "remove", *NOBODY], "name the users"),
        (["topics", "list", "--as", "user", *NOBODY], "127.0.0.1:1 is not it"),
        (["users", "add", "alice", *NOBODY], "no terminal to ask at"),
        (
            ["users", "add", "alice", "--password-file", "-", *NOBODY],
            "the password is empty; give one",
        ),
        (
            ["users", "add", "alice", "--generate", "--password-file", "-", *NOBODY],
            "not both",
        ),
        (["quotas", "set", "producer_byte_rate=1", *NOBODY], "name the entity"),
        (["quotas", "set", "speed=1", "--user", "a", *NOBODY], "there is no quota 'speed'"),
        (["quotas", "set", "request_percentage=x", "--user", "a", *NOBODY], "=NUMBER"),
        (
            ["quotas", "set", "request_percentage=1", "--user", "a", "--user-default", *NOBODY],
            "not both",
        ),
        (["quotas", "describe", "--user", "a", "--ip", "::1", *NOBODY], "quotas of its own"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], told: str) -> None:
    done = click.testing.CliRunner().invoke(main, words, input="")
    assert done.exit_code == 2, done.output
    assert told in done.stderr


def test_a_password_file_must_be_text(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"\xff\xfe")
    words = ["users", "add", "alice", "--password-file", str(file), *NOBODY]
    done = click.testing.CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "cannot be read as text" in done.stderr


def test_a_password_is_asked_for_without_an_echo() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(PYBROKER[0], [*PYBROKER, "users", "add", "alice", *NOBODY])
    shown = b""
    for asked in (b"password of alice: ", b"once more: "):
        while not shown.endswith(asked):
            shown += os.read(terminal, 1024)
        os.write(terminal, b"not-to-be-seen\n")
    try:
        while chunk := os.read(terminal, 1024):
            shown += chunk
    except OSError:  # its other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    assert b"no broker answers at 127.0.0.1:1" in shown
    assert b"not-to-be-seen" not in shown


@pytest.mark.parametrize("group", ["users", "acls", "quotas", "tokens"])
def test_help_teaches_with_examples(group: str) -> None:
    done = click.testing.CliRunner().invoke(main, [group, "--help"])
    assert f"pybroker {group} " in done.output
