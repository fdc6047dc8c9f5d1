"""The course on a living cluster: one chapter is open, and its steps are done in order.

Job: drives the machine of `learn/progress.py` with what really happens: blocks are run
(`learn/programs.py`), answers are compared with the cluster (`learn/facts.py`), and the progress is
kept in the data directory after each step. The terminal and the console are thin shells of one and
the same object, so they are always at the same step; both are notified of changes (`follow`).

A chapter begins on clean ground: its topics and groups are deleted, and all nodes run. When it is
resumed by another process, the blocks that its reader has passed are run again first: the cluster
keeps records, but nothing keeps the programs in the background.

Invariants: one thing is done at a time, and a caller who comes meanwhile gets CourseError; the
progress is written before it is shown; after a step that fails the reader is at the same step.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import trio

from ..client.admin.groups import ListedGroup
from ..client.admin.topics import delete_topic
from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..local import cluster_state
from ..local.cluster_control import command_node
from ..local.cluster_state import ClusterError, NodeStatus
from .answers import Answer
from .chapter import Ask, Chapter, Part, Run, Step, parse
from .facts import answer
from .living import Living, NoAnswer
from .programs import Place, Programs, Ran, opened, placeholders, prepared
from .progress import BadProgress, Event, Progress, Reached, WrongStep, from_json, to_json

PROGRESS_FILE: Final = "learn.json"
LOCK_FILE: Final = "learn.lock"
POLL_SECONDS: Final = 0.1
PREPARE_SECONDS: Final = 90.0
# What the chapters on retention and compaction want: a broker that looks often, and files that go.
CLUSTER_CONFIG: Final[Mapping[str, str]] = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "2000",
}


_T = TypeVar("_T")
_S = TypeVar("_S", Run, Ask)


class CourseError(Exception):
    """A step cannot be done now; the text says why."""


class Verdict(NamedTuple):
    """Whether an answer is right; what the cluster says, where the reader may know it now."""

    is_right: bool
    says: str


def chapters() -> tuple[Chapter, ...]:
    """All chapters, in their order."""
    folder = files(__package__).joinpath("chapters")
    found = []
    for page in sorted(folder.iterdir(), key=lambda one: one.name):
        number, _, name = page.name.removesuffix(".md").partition("-")
        if number.isdecimal():
            found.append(parse(int(number), name, page.read_text(encoding="utf-8")))
    return tuple(found)


def named(known: Iterable[Chapter], name: str) -> Chapter:
    """A chapter by its number or its name. Raises CourseError."""
    for one in known:
        if name in (str(one.number), one.name):
            return one
    raise CourseError(f"there is no chapter {name!r}; pybroker learn lists them")


def load_progress(data_dir: Path) -> Progress:
    """That of the reader whose cluster is there; none if there is none. Raises CourseError."""
    path = data_dir / PROGRESS_FILE
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Progress()
    except (OSError, UnicodeDecodeError, BadProgress) as error:
        raise CourseError(f"{path}: {error}; pybroker learn --reset begins anew") from None


def save_progress(data_dir: Path, progress: Progress) -> None:
    """Raises OSError."""
    path = data_dir / PROGRESS_FILE
    staged = path.with_suffix(".tmp")
    staged.write_text(to_json(progress), encoding="utf-8")
    os.replace(staged, path)


def place_of(data_dir: Path) -> Place:
    """Raises ClusterError, CourseError."""
    state = cluster_state.load(data_dir)
    if state.secured:
        raise CourseError(f"the cluster on {data_dir} is secured; the course needs an open one")
    return Place(state.bootstrap, state.zookeeper_connect, data_dir)


@contextlib.asynccontextmanager
async def opened_course(data_dir: Path) -> AsyncIterator[Course]:
    """The course on the local cluster that runs there. Raises ClusterError, CourseError."""
    place = await trio.to_thread.run_sync(place_of, data_dir)
    progress = load_progress(data_dir)
    with _alone_on(data_dir):
        async with _opened(place, progress) as course:
            yield course


@contextlib.contextmanager
def _alone_on(data_dir: Path) -> Iterator[None]:
    """Two readers on one cluster would break each other's chapters. Raises CourseError."""
    with (data_dir / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError(
                f"the course on {data_dir} is open in another terminal; name another directory "
                "with --data-dir"
            ) from None
        yield


@contextlib.asynccontextmanager
async def _opened(place: Place, progress: Progress) -> AsyncIterator[Course]:
    async with (
        Cluster(place.bootstrap) as cluster,
        opened(place) as programs,
        trio.open_nursery() as nursery,
    ):
        yield Course(place, progress, cluster, programs, nursery)
        nursery.cancel_scope.cancel()


class Course:
    """Made by `opened_course`."""

    def __init__(
        self,
        place: Place,
        progress: Progress,
        cluster: Cluster,
        programs: Programs,
        nursery: trio.Nursery,
    ) -> None:
        self.chapters = chapters()
        self.place = place
        self.progress = progress
        self.chapter: Chapter | None = None  # the one that is open
        self.doing = ""  # the work of this moment
        self.problem = ""  # why the last work was not done
        self.outputs: dict[int, Ran] = {}  # of the open chapter's steps, in this process
        self.verdicts: dict[int, Verdict] = {}
        self._cluster = cluster
        self._programs = programs
        self._nursery = nursery
        self._living = Living(cluster, self._ports)
        self._codes: dict[int, str] = {}
        self._listeners: set[Callable[[], None]] = set()

    # State

    @property
    def reached(self) -> Reached:
        """The progress in the open chapter."""
        return self.progress.reached(self._open_chapter)

    @property
    def step(self) -> Step | None:
        """The present step of the open chapter; None at its end."""
        return self.progress.step(self._open_chapter)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The prose up to the present step, and the step."""
        return self._open_chapter.parts_of(self.reached.passed)

    def code(self, step: int) -> str:
        """The code of a block as it was run, or as it will be."""
        block = self._open_chapter.steps[step]
        assert isinstance(block, Run)
        return self._codes.get(step) or prepared(block, self.place, {})

    @contextlib.contextmanager
    def follow(self, listener: Callable[[], None]) -> Iterator[None]:
        """Inside the block `listener` is called at each change."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    # Events

    def carry_out(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do one of the following in a task of its own; an error is the course's `problem`."""

        async def run() -> None:
            with contextlib.suppress(CourseError):
                await work()

        self._nursery.start_soon(run)

    async def open(self, chapter: Chapter) -> None:
        """Begin a chapter, or resume it; of one that is done, only the end is shown. Raises
        CourseError.
        """
        with self._alone("the stage is made ready"):
            if self.progress.step(chapter) is not None:
                await self._expected(lambda: self._prepare(chapter))
            self.chapter = chapter
            self.outputs.clear()
            self.verdicts.clear()
            self._codes.clear()
            is_done = self.step is None
            for step, block in enumerate(chapter.steps[: self.reached.passed]):
                if isinstance(block, Run) and not is_done:
                    self._say(f"your step {step + 1} is done again")
                    self.outputs[step] = await self._run(step, block)
                    if not self.outputs[step].is_well:
                        self.problem = f"step {step + 1} did not succeed this time"
            await self._resolve()

    async def run(self, step: int) -> Ran:
        """Run the block of the present step. Raises CourseError."""
        with self._alone("the block runs"):
            block = self._present(step, Run)
            ran = await self._run(step, block)
            self.outputs[step] = ran
            if ran.is_well:
                self._keep(self.progress.after(self._open_chapter, Event.RAN))
                await self._resolve()
            return ran

    async def skip(self, step: int) -> None:
        """Pass the block of the present step without a run: the reader has done it. Raises
        CourseError."""
        with self._alone("the step is passed"):
            self._present(step, Run)
            self._keep(self.progress.after(self._open_chapter, Event.RAN))
            await self._resolve()

    async def answer(self, step: int, given: str) -> Verdict:
        """Compare a reader's answer with the cluster's. Raises CourseError."""
        with self._alone("the cluster is asked"):
            question = self._present(step, Ask)
            found = await self._ask(question)
            is_right = found.matches(given)
            event = Event.RIGHT if is_right else Event.WRONG
            self.verdicts[step] = Verdict(is_right, found.text if is_right else "")
            self._keep(self.progress.after(self._open_chapter, event, given))
            if is_right:
                await self._resolve()
            return self.verdicts[step]

    async def show(self, step: int) -> Verdict:
        """What the cluster says; the reader goes on. Raises CourseError."""
        with self._alone("the cluster is asked"):
            question = self._present(step, Ask)
            found = await self._ask(question)
            self.verdicts[step] = Verdict(False, found.text)
            self._keep(self.progress.after(self._open_chapter, Event.SHOWN))
            await self._resolve()
            return self.verdicts[step]

    async def restart(self, chapter: Chapter) -> None:
        """Begin a chapter anew. Raises CourseError."""
        with self._alone("the chapter begins anew"):
            self._keep(self.progress.reset(chapter.name))
        await self.open(chapter)

    # Parts of them

    @property
    def _open_chapter(self) -> Chapter:
        if self.chapter is None:
            raise CourseError("no chapter is open")
        return self.chapter

    def _present(self, step: int, kind: type[_S]) -> _S:
        if step != self.reached.passed:
            raise CourseError(f"step {step + 1} is not the present one")
        present = self.step
        if not isinstance(present, kind):
            raise CourseError(f"step {step + 1} is another kind of step")
        return present

    @contextlib.contextmanager
    def _alone(self, doing: str) -> Iterator[None]:
        if self.doing:
            raise CourseError(f"wait: {self.doing}")
        self.problem = ""
        self._say(doing)
        try:
            yield
        except CourseError as error:
            self.problem = str(error)
            raise
        except WrongStep as error:
            self.problem = str(error)
            raise CourseError(self.problem) from None
        finally:
            self._say("")

    def _say(self, doing: str) -> None:
        self.doing = doing
        for listener in list(self._listeners):
            listener()

    def _keep(self, progress: Progress) -> None:
        try:
            save_progress(self.place.data_dir, progress)
        except OSError as error:
            raise CourseError(f"the progress cannot be written: {error.strerror}") from None
        self.progress = progress

    async def _expected(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Raises CourseError instead of the errors of a cluster."""
        try:
            with trio.fail_after(PREPARE_SECONDS):
                return await work()
        except (NoAnswer, ClientError, ClusterError) as error:
            raise CourseError(str(error)) from None
        except trio.TooSlowError:
            raise CourseError(f"the cluster did not do it in {PREPARE_SECONDS:.0f} s") from None

    async def _ask(self, question: Ask) -> Answer:
        return await self._expected(lambda: answer(self._living, question.fact))

    async def _resolve(self) -> None:
        """Put the present facts into the block that comes next, if it names some."""
        step, block = self.reached.passed, self.step
        if not isinstance(block, Run):
            return
        facts = {}
        for name in placeholders(block):
            words = tuple(name.split())
            with contextlib.suppress(CourseError):
                facts[name] = (await self._expected(lambda: answer(self._living, words))).text  # noqa: B023
        self._codes[step] = prepared(block, self.place, facts)

    async def _run(self, step: int, block: Run) -> Ran:
        if placeholders(block):
            self.place = await trio.to_thread.run_sync(place_of, self.place.data_dir)
        code = self._codes.setdefault(step, prepared(block, self.place, {}))
        return await self._programs.run(block, code)

    def _ports(self) -> dict[int, tuple[str, int]]:
        with contextlib.suppress(ClusterError):
            return {
                node.node_id: (node.host, node.metrics_port)
                for node in cluster_state.load(self.place.data_dir).brokers
                if node.metrics_port and node.status == NodeStatus.RUNNING
            }
        return {}

    async def _prepare(self, chapter: Chapter) -> None:
        """Nodes run, and the chapter's topics and groups are gone."""
        await self._programs.end()
        await trio.to_thread.run_sync(_start_nodes, self.place.data_dir)
        count = len(cluster_state.load(self.place.data_dir).brokers)
        while len((await self._cluster.metadata([])).brokers) < count:  # noqa: ASYNC110
            await trio.sleep(POLL_SECONDS)
        there = {one.name for one in (await self._cluster.metadata(None)).topics}
        for topic in chapter.topics:
            if topic in there:
                await delete_topic(self._cluster, topic)
        for group in chapter.groups:
            await self._delete_group(group)

    async def _delete_group(self, group: str) -> None:
        """A member that was killed stays until its session ends: it is removed."""
        groups = self._living.admin.groups
        while any(group == one.group_id for one in await self._groups()):
            found = (await groups.describe([group])).values.get(group)
            if found is not None and found.members:
                gone = {one.member_id: one.instance_id for one in found.members}
                await groups.remove_members(group, gone)
            await groups.delete([group])
            await trio.sleep(POLL_SECONDS)

    async def _groups(self) -> list[ListedGroup]:
        listed = (await self._living.admin.groups.list()).values
        return [one for found in listed.values() for one in found]


def _start_nodes(data_dir: Path) -> None:
    """Raises ClusterError."""
    for node in cluster_state.load(data_dir).nodes:
        name = str(node.node_id) if node.kind == "broker" else node.kind
        if node.status == NodeStatus.PAUSED:
            command_node(data_dir, "resume", name)
        elif node.status != NodeStatus.RUNNING:
            command_node(data_dir, "restart", name)
