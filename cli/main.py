"""The `pybroker` command: a click group whose subcommands are imported only when they are used.

Expected failures (wrong use, a config error, a cluster that does not answer) end with one line
on the standard error output and exit status 2; a traceback means a defect of ours. Ctrl-C ends a
command without a handler of its own silently, with exit status 130.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import click

# name -> (module, attribute, one line for `pybroker --help`), so that help imports none of them
COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "start": (".cluster", "start", "Start a local cluster with its own ZooKeeper."),
    "status": (".nodes", "status", "Show nodes and partitions of a local cluster."),
    "stop": (".nodes", "stop", "Stop a local cluster, or one node of it."),
    "restart": (".nodes", "restart", "Restart one node, or start a dead one."),
    "kill": (".nodes", "kill", "Kill one node, like a crash."),
    "pause": (".nodes", "pause", "Freeze one node, like a hung machine."),
    "resume": (".nodes", "resume", "Continue a frozen node."),
    "zookeepers": (".nodes", "zookeepers", "Change the number of ZooKeepers."),
    "topics": (".topics", "topics", "Create, list, describe, alter and delete topics."),
    "produce": (".produce", "produce", "Write lines of standard input or of files to a topic."),
    "consume": (".consume", "consume", "Print the records of topics."),
    "groups": (".groups", "groups", "Consumer groups: list, describe, reset, delete."),
    "partitions": (".partitions", "partitions", "Leaders and replicas: elect, reassign, move."),
    "records": (".records", "records", "Show offsets; delete the oldest records."),
    "configs": (".configs", "configs", "Configs of topics and brokers: describe, alter."),
    "cluster": (".cluster_info", "cluster", "The cluster: brokers, controller, APIs."),
    "features": (".features", "features", "Protocols of Kafka 4: describe, upgrade, downgrade."),
    "logdirs": (".logdirs", "logdirs", "Show the log directories of brokers."),
    "tier": (".tier", "tier", "The remote tier of topics: list, verify."),
    "tables": (".tables", "tables", "Tables of topics (Iceberg, Delta): list, describe."),
    "transactions": (".transactions", "transactions", "Transactions: list, find hanging, abort."),
    "producers": (".transactions", "producers", "Show the producers of partitions."),
    "users": (".users", "users", "Users who log in with passwords: list, add, alter, remove."),
    "acls": (".acls", "acls", "Permissions (ACLs): list, add, remove."),
    "quotas": (".quotas", "quotas", "Quotas: describe, set, remove."),
    "tokens": (".tokens", "tokens", "Delegation tokens: create, list, renew, expire."),
    "completion": (".completion", "completion", "Shell completion for bash, zsh or fish."),
    "perf": (".perf", "perf", "Measure speed: produce, consume, e2e, groups."),
    "mirror": (".mirror", "mirror", "Copy topics from one cluster to another."),
    "console": (".console", "console", "Serve a web console of a cluster."),
    "registry": (".registry", "registry", "Serve a schema registry of a cluster."),
    "learn": (".learn", "learn", "Learn Kafka on a living cluster, chapter by chapter."),
    "doctor": (
        ".doctor",
        "doctor",
        "Find out why a client does not get through, and what ails it.",
    ),
    "verify": (".verify", "verify", "Write records, and check that each comes back once."),
    "log": (".log", "log", "Inspect the files of a log directory."),
    "monitoring": (
        ".monitoring",
        "monitoring",
        "Write alerts and dashboards for Prometheus, Grafana.",
    ),
    "broker": (".server", "broker", "Run one broker from a server.properties file."),
    "zookeeper": (".server", "zookeeper", "Run the embedded ZooKeeper alone."),
}

ON_WINDOWS: Final = (
    "pybroker needs Linux or macOS (file locks, forked processes); on Windows run it in WSL"
)


class WrongUse(click.ClickException):
    """A command line that is not understood: one line instead of click's four."""

    exit_code = 2


INTERRUPTED: Final = 130  # the status that shells give to a process ended by SIGINT

# Troubles of the machine, which are no defects of ours.
_TROUBLES: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except OSError as error:
        if error.errno not in _TROUBLES:
            raise
        where = f" {error.filename}" if error.filename is not None else " what it prints"
        _drop_output()
        raise WrongUse(f"cannot write{where}: {error.strerror}") from None
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        said = " ".join(error.format_message().split())
        if _may_be_a_name(error):
            said = f"{said.rstrip('.')}; a name that begins with a dash comes last, after --"
        if error.ctx is not None:
            see = f"ee: {error.ctx.command_path} --help"
            said = f"{said} S{see}" if said.endswith("?") else f"{said.rstrip('.')}; s{see}"
        raise WrongUse(said) from None


def _may_be_a_name(error: click.UsageError) -> bool:
    """Whether what is no option may have been meant as an argument of the command."""
    return (
        isinstance(error, click.NoSuchOption)
        and not error.option_name.startswith("--")
        and error.ctx is not None
        and any(isinstance(one, click.Argument) for one in error.ctx.command.params)
    )


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let the system end the process on Ctrl-C while modules are imported: an exception there would
    show in unrelated code. Afterwards Ctrl-C is an exception again.
    """
    is_usual = signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler)
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _drop_output() -> None:
    """Drop unwritten output: the end of the process would try to write it again."""
    with open(os.devnull, "wb") as null:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
                continue
            os.dup2(null.fileno(), stream.fileno())


class LazyGroup(click.Group):
    """A group that knows its commands' names and first lines without importing them."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _told_in_one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_in_one_line():
            found = super().invoke(ctx)
            sys.stdout.flush()
            return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if sys.platform == "win32":
            raise click.ClickException(ON_WINDOWS)
        module, attribute, _ = COMMANDS[cmd_name]
        with _ended_by_ctrl_c():
            command = getattr(importlib.import_module(module, __package__), attribute)
        if not gc.isenabled():  # by `__main__`
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's method, which looks for similar names only among imported commands."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            alike = importlib.import_module("difflib").get_close_matches(name, COMMANDS, 1)
            meant = f" Did you mean {alike[0]!r}?" if alike else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def _tell_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        version = importlib.import_module("importlib.metadata").version("pybroker-kafka")
        how = importlib.import_module("..compiled", __package__).described()
        click.echo(f"{ctx.info_name}, version {version} ({how})")
        ctx.exit()


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: pybroker start --ephemeral",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version and the compiled parts, and exit.",
)
def main() -> None:
    """Apache Kafka 3.9 on your laptop, in Python: no JVM, no Docker.

    \b
    pybroker start                       a cluster on localhost:9092
    pybroker topics create flights -p 4
    echo hello | pybroker produce flights
    pybroker consume flights --from-beginning --max-records 1
    pybroker stop
    """
