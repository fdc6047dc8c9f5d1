"""`pybroker learn`: the course, in the terminal and in the console.

Without a chapter it lists them. With one it finds the cluster on --data-dir, or starts one that
ends with the command, serves the console beside it, and goes through the chapter's steps. The
terminal and the console show the same `Course`: a step that is done in one is done in the other.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..local import cluster_state
from ..local.cluster_state import ClusterError, ClusterState
from .options import UserError, user_errors

if TYPE_CHECKING:
    from ..learn.chapter import Chapter
    from ..learn.progress import Progress

BROKERS: Final = 3
LINE_MAX_BYTES: Final = 1 << 16


def _default_directory() -> Path:
    """The course has a cluster of its own, which it may break."""
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else cluster_state.home_directory() / ".local" / "state"
    return home / "pybroker" / "learn"


@click.command(
    epilog="""\b
Examples:
  pybroker learn
  pybroker learn 3
  pybroker learn rebalance --reset
"""
)
@click.argument("chapter", required=False, metavar="[CHAPTER]")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=_default_directory,
    show_default="$XDG_STATE_HOME/pybroker/learn",
    help="Directory of the course's cluster and of your progress. If a cluster runs there, the "
    "course uses it: its topics begin with learn-, and it stops and kills brokers.",
)
@click.option(
    "--console-port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the console on 127.0.0.1. 0: any free port.",
)
@click.option("--reset", is_flag=True, help="Forget your progress in CHAPTER, or in all.")
@user_errors
def learn(chapter: str | None, data_dir: Path, console_port: int, reset: bool) -> None:
    """Learn Kafka on a living cluster; list the chapters, or begin or resume CHAPTER.

    CHAPTER is a number or a name of the list. Each chapter takes five minutes: commands to run,
    something to break, and questions that the cluster itself answers.
    """
    from ..learn import course

    directory = data_dir.absolute()
    try:
        known = course.chapters()
        wanted = None if chapter is None else course.named(known, chapter)
        if reset:
            _reset(directory, wanted)
        progress = course.load_progress(directory)
    except course.CourseError as error:
        raise UserError(str(error)) from None
    if wanted is None:
        _list(known, progress)
        return
    with _cluster_on(directory):
        _run(wanted, directory, console_port)


def _reset(directory: Path, chapter: Chapter | None) -> None:
    from ..learn import course

    if chapter is None:
        (directory / course.PROGRESS_FILE).unlink(missing_ok=True)
    elif (progress := course.load_progress(directory)).chapters:
        course.save_progress(directory, progress.reset(chapter.name))


def _list(known: tuple[Chapter, ...], progress: Progress) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for one in known:
        reached = progress.reached(one)
        state = f"{reached.passed} of {reached.steps} steps"
        if reached.passed == reached.steps:
            state = "[green]done[/]"
        elif not reached.passed:
            state = "[dim]not begun[/]"
        console.print(f"{one.number:2}  {one.name:<13} {one.title}  {state}", soft_wrap=True)
    console.print("\nBegin, or go on, with: pybroker learn NUMBER")


@contextlib.contextmanager
def _cluster_on(directory: Path) -> Iterator[None]:
    """The cluster that runs there, or one that ends with the block and with this process.

    It is forked before any loop or thread begins. Raises ClusterError.
    """
    if cluster_state.is_claimed(directory):
        yield
        return
    click.echo("a cluster of three brokers starts ...", err=True)
    owner, mine = os.pipe()
    heard, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(mine)
        os.close(heard)
        _supervise(directory, owner, tells)
    os.close(owner)
    os.close(tells)
    try:
        with os.fdopen(heard, "rb") as pipe:
            line = pipe.readline(LINE_MAX_BYTES)
        said = json.loads(line) if line else {"error": "the supervisor died while starting"}
        if "error" in said:
            raise ClusterError(said["error"])
        yield
    finally:
        os.close(mine)
        os.waitpid(pid, 0)


def _supervise(directory: Path, owner: int, tells: int) -> None:
    """Run the cluster in the forked process until its owner's end; never returns."""
    from ..broker.resources import descriptors
    from ..learn.course import CLUSTER_CONFIG
    from ..local.cluster_spec import ClusterSpec
    from ..local.supervisor import Supervisor

    code = 1
    try:
        os.setsid()
        descriptors.raise_descriptor_limit()
        record = cluster_state.SupervisorLog(directory)
        spec = ClusterSpec(
            data_dir=directory,
            broker_count=BROKERS,
            first_port=0,
            zookeeper_port=0,
            overrides=CLUSTER_CONFIG,
            first_metrics_port=0,
        )

        def ready(_state: ClusterState) -> None:
            os.write(tells, b"{}\n")
            os.close(tells)

        code = Supervisor(spec, record.add, owner).run(ready)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(tells, json.dumps({"error": str(error)}).encode() + b"\n")
    finally:
        os._exit(code)


def _run(chapter: Chapter, directory: Path, console_port: int) -> None:
    from ..console.server import CannotServe
    from ..learn.course import CourseError
    from .learn_terminal import take_course
    from .options import run_client

    try:
        run_client(lambda: take_course(chapter, directory, console_port))
    except (CourseError, CannotServe) as error:
        raise UserError(str(error)) from None
