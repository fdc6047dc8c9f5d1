"""The course in a terminal, with the console beside it: prose, a block or a question, a line.

Reads lines from standard input without a thread, so that the terminal goes on by itself when the
reader has gone on in the console.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.markdown import Markdown

from ..broker.resources.visible_text import visible
from ..console.server import ConsoleOptions, serve_console
from ..learn.chapter import Chapter, Run, Text
from ..learn.course import Course, CourseError, Verdict, opened_course

WIDTH: Final = 92
CHUNK_BYTES: Final = 4096
LEAVE: Final = "q"
SKIP: Final = "s"
SHOW: Final = "?"


async def take_course(chapter: Chapter, data_dir: Path, console_port: int) -> None:
    """Go through a chapter until its end, or until the reader leaves. Raises CourseError,
    CannotServe, ClusterError, ClientError.
    """
    async with opened_course(data_dir) as course, trio.open_nursery() as nursery:
        nursery.start_soon(_end_with_signal, nursery.cancel_scope.cancel)
        options = ConsoleOptions(
            bootstrap=course.place.bootstrap,
            security={},
            port=console_port,
            data_dir=data_dir,
            may_write=True,
            course=course,
        )
        address: str = await nursery.start(_serve, options)
        await _Terminal(course, address).take(chapter)
        nursery.cancel_scope.cancel()


async def _serve(options: ConsoleOptions, *, task_status: trio.TaskStatus[str]) -> None:
    await serve_console(options, task_status.started)


async def _end_with_signal(end: Callable[[], None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            end()


class _Lines:
    """The lines of standard input; None at its end."""

    def __init__(self) -> None:
        self._received = b""

    async def next(self) -> str | None:
        while b"\n" not in self._received:
            try:
                await trio.lowlevel.wait_readable(0)
            except PermissionError:  # a file is always ready
                await trio.lowlevel.checkpoint()
            chunk = os.read(0, CHUNK_BYTES)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace").strip()


class _Terminal:
    def __init__(self, course: Course, address: str) -> None:
        self._course = course
        self._address = address
        self._lines = _Lines()
        self._changed = trio.Event()
        width = WIDTH if not sys.stdout.isatty() else min(WIDTH, Console().width)
        self._screen = Console(highlight=False, width=width)

    async def take(self, chapter: Chapter) -> None:
        course = self._course
        self._say(
            f"[dim]{course.place.data_dir}; for commands of your own, in another terminal:[/]"
        )
        self._say(f"  export PYBROKER_DATA_DIR={course.place.data_dir}")
        self._say(
            f"Beside the text, in a browser: [bold]{self._address}#/learn/{chapter.number}[/]"
        )
        passed = course.progress.reached(chapter).passed
        if 0 < passed < len(chapter.steps):
            self._say(f"You have passed {passed} steps; their blocks run once more first ...")
        with course.follow(self._note):
            await course.open(chapter)
            if course.problem:
                self._say(f"[yellow]{course.problem}[/]")
            while True:
                self._show_parts()
                go_on = self._do_step if course.step is not None else self._end
                if not await go_on():
                    self._say(f"\nGo on with: pybroker learn {self._open.number}")
                    return

    @property
    def _open(self) -> Chapter:
        assert self._course.chapter is not None
        return self._course.chapter

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _place(self) -> tuple[str, int]:
        return self._open.name, self._course.reached.passed

    def _say(self, line: str) -> None:
        self._screen.print(line, soft_wrap=True)

    def _show_parts(self) -> None:
        course, step = self._course, self._course.reached.passed
        if step == 0:
            self._screen.rule(f"{self._open.number}  {self._open.title}")
        for part in course.parts:
            self._screen.print()
            if isinstance(part, Text):
                self._screen.print(Markdown(part.source))
            elif isinstance(part, Run):
                title = "breaks something" if part.does_break else f"step {step + 1}"
                self._screen.rule(title, align="left", style="red" if part.does_break else "cyan")
                self._screen.print(course.code(step).rstrip(), markup=False, soft_wrap=True)
                self._screen.rule(style="red" if part.does_break else "cyan")
            else:
                self._screen.print(Markdown(f"> **Question.** {part.source}"))

    async def _do_step(self) -> bool:
        """Until the step is passed, here or in the console; false if the reader leaves."""
        place = self._place()
        while self._place() == place:
            is_block = isinstance(self._course.step, Run)
            self._say(
                "[cyan]Enter[/] runs it, [cyan]s[/] if you have run it, [cyan]q[/] leaves"
                if is_block
                else "Your answer, [cyan]?[/] to see the cluster's, [cyan]q[/] leaves"
            )
            line = await self._line_or_move(place)
            if line is None or line == LEAVE:
                return False
            if self._place() == place:
                try:
                    await (self._run(line) if is_block else self._answer(line))
                except CourseError as error:
                    self._say(f"[red]{visible(str(error))}[/]")
        return True

    async def _line_or_move(self, place: tuple[str, int]) -> str | None:
        """The next line; "" if the reader has gone on in the console; None at the end of input."""
        found: str | None = ""

        async def read() -> None:
            nonlocal found
            found = await self._lines.next()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            while self._place() == place or self._course.doing:
                await self._changed.wait()
            nursery.cancel_scope.cancel()
        return found

    async def _run(self, line: str) -> None:
        step = self._course.reached.passed
        if line == SKIP:
            await self._course.skip(step)
            return
        ran = await self._course.run(step)
        for said in ran.output.splitlines():
            self._screen.print(f"  {visible(said)}", markup=False, soft_wrap=True)
        if not ran.is_well:
            self._say("[red]It ended with an error; the step is not passed.[/]")

    async def _answer(self, line: str) -> None:
        if not line:
            return
        step = self._course.reached.passed
        question = self._course.step
        if line == SHOW:
            self._tell(await self._course.show(step))
            return
        verdict = await self._course.answer(step, line)
        self._tell(verdict)
        if not verdict.is_right and question is not None and not isinstance(question, Run):
            self._screen.print(Markdown(question.hint))

    def _tell(self, verdict: Verdict) -> None:
        if verdict.is_right:
            self._say(f"[green]Right: the cluster says {visible(verdict.says)}.[/]")
        elif verdict.says:
            self._say(f"The cluster says {visible(verdict.says)}.")
        else:
            self._say("[yellow]The cluster says something else.[/]")

    async def _end(self) -> bool:
        """Go on to the next chapter, here or in the console; false if the reader leaves."""
        place, chapters = self._place(), self._course.chapters
        later = [one for one in chapters if one.number > self._open.number]
        self._screen.rule("the end of this chapter")
        if later:
            self._say(f"[cyan]Enter[/] begins the next one, [cyan]q[/] leaves: {later[0].title}")
        else:
            self._say("It was the last one. [cyan]Enter[/] leaves")
        line = await self._line_or_move(place)
        if self._place() == place:
            if line is None or line == LEAVE or not later:
                return False
            await self._course.open(later[0])
        return True
