"""What happens between readable and answered, as a picture: `python -m benchmarks.between`.

One producer sends small requests and waits for each answer (`small-1x1`), while perf (Linux)
notes when the broker's loop enters and leaves each system call. Of all requests that took the usual
calls and no others, the median time of each call, and of what is ours between two, is drawn to
scale: docs/pictures/between.png.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.loads import chosen
from benchmarks.machine import ROOT
from benchmarks.perf import recorded

PICTURE = ROOT / "docs" / "pictures" / "between.png"
LOAD = "small-1x1"
SECONDS = 1.0
EVENTS = "raw_syscalls:sys_enter,raw_syscalls:sys_exit"
_SCRIPT = ["--ns", "-F", "tid,time,event,trace"]
_EVENT = re.compile(r"^\s*(\d+)\s+([\d.]+):\s+raw_syscalls:sys_(enter|exit): NR (\d+)")
# x86-64 and arm64 number them differently; the names are what strace says.
_NAMES = {
    "x86_64": {232: "epoll_wait", 281: "epoll_wait", 45: "recvfrom", 18: "pwrite64", 44: "sendto"},
    "aarch64": {22: "epoll_wait", 207: "recvfrom", 68: "pwrite64", 206: "sendto"},
}
# Behind the epoll_wait that says that a request is there.
USUAL = ("recvfrom", "pwrite64", "sendto", "epoll_wait")
OURS = {
    "recvfrom": "whose turn it is",
    "pwrite64": "which request, checks, offset",
    "sendto": "indexes, answer",
    "epoll_wait": "metrics, who is next",
}


class Call(NamedTuple):
    """Of one thread; seconds."""

    name: str
    entered: float
    left: float


class Step(NamedTuple):
    name: str
    is_ours: bool
    microseconds: float


def read_calls(lines: Iterable[str], names: dict[int, str]) -> Iterator[tuple[int, Call]]:
    """(thread, call) in the order in which they end, out of what perf script writes."""
    entered: dict[int, float] = {}
    for line in lines:
        if (found := _EVENT.match(line)) is None:
            continue
        thread, at, number = int(found[1]), float(found[2]), int(found[4])
        if found[3] == "enter":
            entered[thread] = at
        elif thread in entered:
            name = names.get(number, f"call {number}")
            yield thread, Call(name, entered.pop(thread), at)


def requests_of(calls: Sequence[Call]) -> Iterator[Sequence[Call]]:
    """The calls of each usual request: the epoll_wait before it, and USUAL."""
    for first in range(len(calls) - len(USUAL)):
        found = calls[first : first + 1 + len(USUAL)]
        if tuple(call.name for call in found) == ("epoll_wait", *USUAL):
            yield found


def steps_of(requests: Sequence[Sequence[Call]]) -> list[Step]:
    """From readable until the next request is waited for: the medians."""
    steps: list[Step] = []
    for place, name in enumerate(USUAL, 1):
        ours = median(found[place].entered - found[place - 1].left for found in requests)
        steps.append(Step(OURS[name], True, ours * 1e6))
        if name != USUAL[-1]:
            call = median(found[place].left - found[place].entered for found in requests)
            steps.append(Step(name, False, call * 1e6))
    return steps


def measured() -> tuple[list[Step], int]:
    """The steps, and of how many requests they are."""
    names = _NAMES[platform.machine()]
    _, told = recorded(chosen([LOAD])[0], SECONDS, ["-e", EVENTS], _SCRIPT)
    by_thread: dict[int, list[Call]] = {}
    for thread, call in read_calls(told, names):
        by_thread.setdefault(thread, []).append(call)
    requests = [found for calls in by_thread.values() for found in requests_of(calls)]
    return steps_of(requests), len(requests)


def draw(steps: Sequence[Step], count: int, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(11, 2.6))
    at = 0.0
    for number, step in enumerate(steps):
        colour = "#8fc7a4" if step.is_ours else "#d9d3c3"
        axis.barh(0, step.microseconds, left=at, color=colour, edgecolor="white", height=0.8)
        middle = at + step.microseconds / 2
        axis.text(middle, 0, f"{step.microseconds:.1f}", ha="center", va="center", fontsize=10)
        # In two rows: names are wider than what takes a microsecond.
        above = 0.5 + 0.3 * (number // 2 % 2)
        height, side = (above, "bottom") if step.is_ours else (-0.5, "top")
        axis.text(middle, height, step.name, ha="center", va=side, fontsize=9)
        at += step.microseconds
    ours = sum(step.microseconds for step in steps if step.is_ours)
    axis.set_title(
        f"From readable to the next wait: {at:.1f} us, {ours:.1f} of them ours "
        f"(green; medians of {count:,} requests under {LOAD})",
        loc="left",
        fontsize=11,
        pad=18,
    )
    axis.set_ylim(-1, 1)
    axis.set_yticks([])
    axis.set_xlabel("us")
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    pyplot.close(figure)


def main() -> int:
    if shutil.which("perf") is None:
        print("system calls are noted by perf: install linux-perf")
        return 1
    steps, count = measured()
    for step in steps:
        print(f"{step.microseconds:7.2f} us  {'ours: ' if step.is_ours else ''}{step.name}")
    draw(steps, count, PICTURE)
    print(f"{count} requests; picture: {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
