"""docs/COMMANDS.md, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from pybroker_kafka.cli.main import main

# They stand once, at the top.
COMMON = ("bootstrap", "security", "as_json", "local_user", "profile", "help")
INTRODUCTION = """# Commands

Written from the commands by `python -m tests.pages`. What other tools have for each:
[TOOLS](TOOLS.md).

`pybroker start` and the commands that manage a local cluster take `--data-dir`. The commands that
connect to a cluster work with any Kafka cluster, and take these options:

| option | |
|---|---|
| `--bootstrap-server HOST:PORT` | one or more brokers, separated by commas |
| `--profile NAME` | address and login from `~/.config/pybroker/NAME.properties` |
| `--command-config FILE` | client properties for TLS and logins, as for Kafka's tools |
| `--as admin\\|user` | log in to the local secured cluster as this user |
| `--json` | print JSON, for programs, instead of tables |

The default address is the first of these that exists: the profile in `$PYBROKER_PROFILE`,
`$PYBROKER_BOOTSTRAP`, the running cluster in `$PYBROKER_DATA_DIR` or `~/.pybroker`, the only
ephemeral cluster that runs on this machine, `127.0.0.1:9092`.

The exit status is 0 for success and 2 for an error or wrong use, with one line that says what to
do. After `Ctrl-C` `produce`, `consume` and `perf` print a summary and exit with 0; other commands
print nothing and exit with 130.
Partitions are `TOPIC`, `TOPIC:0` or `TOPIC:0,2,5-7`. Completion: `pybroker completion
bash|zsh|fish`.
"""


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """All commands by their words, groups before what is in them."""
    root = click.Context(main, info_name="pybroker")
    for name in main.list_commands(root):
        command = main.get_command(root, name)
        assert command is not None
        yield [name], command
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=root)
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield [name, inner], found


def commands_page() -> str:
    parts = [INTRODUCTION]
    for words, command in commands():
        level = "##" if len(words) == 1 else "###"
        parts.append(f"\n{level} pybroker {' '.join(words)}\n")
        parts.append(_help(command.help))
        if not isinstance(command, click.Group):
            context = click.Context(command, info_name=" ".join(words))
            usage = " ".join(command.collect_usage_pieces(context))
            parts.append(f"```text\npybroker {' '.join(words)} {usage}\n```\n")
            parts.append(_options(command, context))
        if command.epilog:
            parts.append(_help(command.epilog))
    return "\n".join(part for part in parts if part)


def _help(text: str | None) -> str:
    """Click's paragraphs; what begins with a `\\b` stays as it is."""
    blocks = inspect.cleandoc(text or "").split("\n\n")
    made = []
    for block in blocks:
        if block.startswith("\b"):
            lines = block[1:].strip("\n")
            made.append(f"```text\n{lines}\n```")
        else:
            made.append(_escaped(block))
    return "\n\n".join(made) + "\n"


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for one in command.params:
        if not isinstance(one, click.Option) or one.name in COMMON or one.hidden:
            continue
        record = one.get_help_record(context)
        assert record is not None
        head, text = (re.sub(r"\s+", " ", part).replace("|", "\\|") for part in record)
        rows.append(f"| `{head}` | {_escaped(text)} |")
    if not rows:
        return ""
    return "| option | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
