"""Call tables and flame graphs from sampled stacks.

A stack is one line, `outermost;...;innermost COUNT`, as py-spy and the flame graph tools write it.
The graph is plain SVG: width is the share of samples, depth goes down, and a box tells its function
and share when the pointer is over it. Functions are merged over their lines, processes have their
number instead of their command.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

WIDTH, ROW, MARGIN = 1400, 17, 12
CHARACTER = 6.4
LEAST_WIDTH = 0.4
_LINE = re.compile(r":\d+\)$")
_COMMAND = re.compile(r'^(process \d+):".*')


class Cost(NamedTuple):
    """Shares of all samples, in percent."""

    function: str
    own: float
    total: float


@dataclass(slots=True)
class Node:
    count: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def read_stacks(lines: Iterable[str]) -> Counter[tuple[str, ...]]:
    """Samples by stack; a function is `name (file)`, whichever its line."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        if stack:
            stacks[tuple(_plain(frame) for frame in stack.split(";"))] += int(count)
    return stacks


def _plain(frame: str) -> str:
    return _COMMAND.sub(r"\1", _LINE.sub(")", frame))


def costs(stacks: Counter[tuple[str, ...]]) -> list[Cost]:
    """What each function takes by itself and with what it calls; a recursion counts once."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for function in set(stack):
            total[function] += count
    share = 100 / max(sum(stacks.values()), 1)
    return [Cost(name, own[name] * share, total[name] * share) for name in total]


def flame_graph(stacks: Counter[tuple[str, ...]], title: str) -> str:
    """The SVG."""
    root = Node()
    for stack, count in stacks.items():
        root.count += count
        node = root
        for function in stack:
            node = node.children.setdefault(function, Node())
            node.count += count
    boxes = list(_boxes(root, 0, float(MARGIN), (WIDTH - 2 * MARGIN) / max(root.count, 1)))
    height = (max((depth for depth, *_ in boxes), default=0) + 1) * ROW + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10.5">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="26" font-size="16" font-family="sans-serif" fill="#22262a" '
        f'font-weight="bold">{escape(title)}</text>',
    ]
    for depth, x, width, function, count in boxes:
        y = 40 + depth * ROW
        told = f"{function}: {count * 100 / root.count:.1f} %"
        parts.append(
            f"<g><title>{escape(told)}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" rx="1.5" '
            f'fill="{_colour(function)}"/>'
        )
        if (room := int((width - 6) / CHARACTER)) > 2:
            shown = function if len(function) <= room else function[: room - 1] + "\u2026"
            parts.append(f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _boxes(
    node: Node, depth: int, x: float, scale: float
) -> Iterator[tuple[int, float, float, str, int]]:
    for function, child in sorted(node.children.items()):
        width = child.count * scale
        if width >= LEAST_WIDTH:
            yield depth, x, width - 0.4, function, child.count
            yield from _boxes(child, depth + 1, x, scale)
        x += width


def _colour(function: str) -> str:
    """One hue a file, so that the layers of the house are seen; ours are greenish, others grey."""
    place = function.partition("(")[2]
    mixed = zlib.crc32(place.encode())
    if re.match(r"(broker|protocol|storage|replication|coordinator|client)/", place):
        return f"hsl({120 + mixed % 90}, 45%, {72 + mixed // 90 % 12}%)"
    return f"hsl(35, {15 + mixed % 40}%, {80 + mixed // 40 % 10}%)"
