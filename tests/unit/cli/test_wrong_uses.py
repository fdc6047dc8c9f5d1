"""Each wrong use of a command that is noticed before any broker is asked: one helpful line.

Of what commands check themselves there is a table; of what all have in common (options and values
that are none, what is missing) every option of every command is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from pybroker_kafka.cli.main import main

NOBODY = "127.0.0.1:1"

WRONG_USES = {
    "partitions elect": "name the partitions, as TOPIC or TOPIC:0,1; or give --all",
    "partitions elect flights --all": "name the partitions, as TOPIC or TOPIC:0,1; or give --all",
    "partitions elect flights:": "'flights:' is not TOPIC, TOPIC:PARTITION or TOPIC:0,2,5-7",
    "partitions elect flights:0-x": "'flights:0-x' is not TOPIC, TOPIC:PARTITION or TOPIC:0,2,5-7",
    "partitions elect flights:0-999999": "'0-999999' is too long a range",
    "partitions reassign": "name what to move, as TOPIC:0=1,2; or give --file",
    "partitions reassign flights": "say where flights goes: flights:0=1,2, or give --to-brokers",
    "partitions reassign flights=1": "'flights=1' names no partition; write flights:0=1",
    "partitions reassign flights:0=a": "'flights:0=a': 'a' is not a list of broker ids, as 1,2,3",
    "partitions reassign flights:0=1,1": "'flights:0=1,1' names a broker twice",
    "partitions reassign flights:0=1 --throttle 1 --no-wait": "a throttle is taken off at the end",
    "tier verify": "name the store: --tier DIR|URL, or --broker-config FILE",
    "tier verify --tier s3://b --tier-config region": "'region' is not KEY=VALUE",
    "tier verify --tier ftp://b": "python:pybroker_kafka.storage.remote.object_store."
    "ObjectStore could not be made: GenericError: Generic URL error: Unable to",
    "groups describe": "name the groups, or give --all; see: pybroker groups list",
    "groups describe g --all": "name the groups, or give --all; see: pybroker groups list",
    "groups reset g": "say where to: --to earliest, latest, current, OFFSET, +N, -N, @TIME,",
    "groups reset g --to latest --to-group h": "say where to: --to earliest, latest, current,",
    "groups reset g --to soon --topic t": "--to 'soon' is not earliest, latest, current, OFFSET,",
    "groups reset g --to @soon --topic t": "'soon' is no time: write ms since 1970, 2026-11-",
    "groups reset g --to latest": "name the partitions, with --topic TOPIC or TOPIC:0,1; or give",
    "groups reset g --to latest --topic t --all-topics": "name the partitions, with --topic TOPIC",
    "configs describe": "name what it is about: --topic, --broker, --broker-defaults, --broker-",
    "configs alter --topic t": "say what to change, with --set KEY=VALUE or --delete KEY",
    "configs alter --topic t --set x": "'x' is not KEY=VALUE",
    "topics describe": "name the topics; see: pybroker topics list",
    "topics alter t": "say what to change, with --set KEY=VALUE or --delete KEY",
    "topics create t --replicas 1/x": "--replicas '1/x' is not a list of broker ids a partition",
    "topics create t --replicas 1/2 -p 2": "--replicas says how many partitions and replicas;",
    "records delete t": "say up to where: --before OFFSET, --before-time @TIME, or --all",
    "records delete t --all --before 3": "say up to where: --before OFFSET, --before-time @TIME,",
    "transactions abort t --first-offset 1": "'t' is not TOPIC:PARTITION",
    "topic list": "No such command 'topic'. Did you mean 'topics'? See: pybroker --help",
    "frobnicate": "No such command 'frobnicate'; see: pybroker --help",
    "consume t -o @-1x": "'-1x' is no time: write ms since 1970, 2026-11-23T04:00:00, or -1h for",
    "consume t -o soon": "-o 'soon' is not beginning, end, OFFSET, -N (the last N of",
    "consume t -o end --from-beginning": "--from-beginning and --offset say where to start; give",
    "consume t --until 7": "--until '7' is not end or @TIME",
    "consume t --partition x": "'_:x' is not TOPIC, TOPIC:PARTITION or TOPIC:0,2,5-7",
    "consume t --group g -o 7": "with --group it begins at what is committed, else at -o beginning",
    "consume t --group g --partition 0": "a group divides the partitions itself; leave out",
    "consume t --format %q": "--format has no %q; see pybroker consume --help",
    "consume ^( -o end": "'^(' is no pattern: ",
    "produce t --input whole": "--input whole takes files: each of them is a record",
    "produce t --acks 1 --transactional-id x": "a transaction takes --acks all",
    "produce t --schema 1": "--registry and --schema go together",
    "consume t --registry here:8081": "--registry 'here:8081' is not http://HOST:PORT",
    "produce t --header =x": "--header '=x' is not NAME=VALUE",
    "perf produce t --acks 0 --transactional-id x": "a transaction takes --acks all",
    "tokens list -q": "No such option '-q'; see: pybroker tokens list --help",
    "tokens renew -qSIU": "No such option '-q'; a name that begins with a dash comes last, ",
    "features upgrade f": "'f' is not FEATURE=LEVEL",
    "features upgrade f=x": "the level of f is a number, not 'x'",
    "features upgrade": "name levels, as group.version=1, or a release, as --release 4.3",
}


class Leaf(NamedTuple):
    """A command that does something, by the words that call it."""

    path: tuple[str, ...]
    command: click.Command


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    if not isinstance(command, click.Group):
        yield Leaf(path, command)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, (*path, name))


def wrong_value(kind: click.ParamType[Any]) -> str | None:
    """What no option of this type takes; None: it takes any text."""
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return "many"
    if isinstance(kind, click.Choice):
        return "neither"
    if isinstance(kind, click.Path) and kind.exists:
        return "/there/is/no/such/file"
    if isinstance(kind, click.Path) and kind.writable:
        return "/"
    return None


LEAVES = {" ".join(leaf.path): leaf for leaf in leaves(main)}


@pytest.mark.parametrize("words", LEAVES)
def test_no_command_takes_what_it_does_not_know(words: str) -> None:
    """An option that is none, a value of the wrong type, and nothing where something is needed."""
    path, command = LEAVES[words]
    status, (line,) = run(*path, "--colour", "red")
    assert status == 2
    assert line.startswith("Error: No such option '--colour'"), line
    assert line.endswith(f"ee: pybroker {words} --help"), line
    needed = [one for one in command.params if one.required]
    if needed:
        status, (line,) = run(*path)
        assert status == 2
        assert line.startswith("Error: Missing "), line
        assert line.endswith(f"see: pybroker {words} --help")
    for one in command.params:
        wrong = wrong_value(one.type)
        if not isinstance(one, click.Option) or one.is_flag or wrong is None:
            continue
        status, (line,) = run(*path, one.opts[-1], wrong)
        assert status == 2, (words, one.opts)
        assert line.startswith(f"Error: Invalid value for {one.opts[0]!r}"), line
        assert line.endswith(f"see: pybroker {words} --help")


def test_every_kind_of_option_was_tried() -> None:
    kinds = {
        type(one.type) for leaf in LEAVES.values() for one in leaf.command.params
    }  # fmt: skip
    known = {click.Choice, click.Path, click.IntRange, click.FloatRange}
    simple = {type(kind) for kind in (click.STRING, click.INT, click.FLOAT, click.BOOL)}
    assert kinds <= known | simple
    assert len(LEAVES) > 50


def run(*words: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(main, words, prog_name="pybroker")
    assert done.stdout == ""
    return done.exit_code, done.stderr.splitlines()


@pytest.mark.parametrize("words", WRONG_USES)
def test_wrong_use(words: str) -> None:
    status, lines = run(*words.split(), "--bootstrap-server", NOBODY)
    assert status == 2
    (line,) = lines
    assert line.startswith(f"Error: {WRONG_USES[words]}"), line


def test_files_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for text, told in (
        ("", "has no lines of TOPIC,PARTITION,OFFSET"),
        ("t,0", "line 1: 't,0' is not TOPIC,PARTITION,OFFSET"),
        ("t,0,1\nt,x,1", "line 2: 't,x,1' is not TOPIC,PARTITION,OFFSET"),
    ):
        file.write_text(text)
        status, (line,) = run(
            *("groups", "reset", "g", "--from-file", str(file), "--bootstrap-server", NOBODY)
        )
        assert status == 2
        assert told in line
    for text in ("", "[]", '{"partitions": [{"topic": "t"}]}', '{"partitions": 7}'):
        file.write_text(text)
        status, (line,) = run(
            *("partitions", "reassign", "--file", str(file), "--bootstrap-server", NOBODY)
        )
        assert status == 2
        assert f'{file} is not a reassignment, as {{"partitions": [' in line


@pytest.mark.parametrize(
    "words", ["topics list", "groups list", "cluster info", "logdirs", "transactions list"]
)
def test_nobody_answers(words: str) -> None:
    status, (line,) = run(*words.split(), "--bootstrap-server", NOBODY)
    assert (status, line) == (
        2,
        f"Error: no broker answers at {NOBODY}; is one running? start one with: pybroker start",
    )
