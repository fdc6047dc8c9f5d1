"""A stored run: what each load gave in each round, and the medians of it.

The file is written after every single measurement, so that whatever stops a run loses nothing; a
later run of other loads or brokers can be added to it, and the page is made from it alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

FORMAT = 1


@dataclass(slots=True)
class Cell:
    """One load against one broker in one round: its figures, or why there are none."""

    load: str
    broker: str
    round: int
    figures: dict[str, float] = field(default_factory=dict)
    failure: str = ""
    took_seconds: float = 0.0


class Summary(NamedTuple):
    median: float
    least: float
    most: float
    rounds: int


@dataclass(slots=True)
class Results:
    path: Path
    date: str = ""
    commands: list[str] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    # By load and broker, the load's first figure of each run before the first that counts.
    warm_ups: dict[str, list[float]] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)

    @staticmethod
    def load(path: Path) -> Results:
        raw = json.loads(path.read_text())
        if raw.pop("format") != FORMAT:
            raise ValueError(f"{path} is of another format; measure again")
        cells = [Cell(**cell) for cell in raw.pop("cells")]
        return Results(path=path, cells=cells, **raw)

    def save(self) -> None:
        raw = asdict(self)
        del raw["path"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        staged = self.path.with_suffix(".tmp")
        staged.write_text(json.dumps({"format": FORMAT, **raw}, indent=1) + "\n")
        staged.replace(self.path)

    def add(self, cell: Cell) -> None:
        """Keep it in place of an earlier measurement of the same, and write the file."""
        self.cells = [other for other in self.cells if _key(other) != _key(cell)]
        self.cells.append(cell)
        self.save()

    def has(self, load: str, broker: str, round_: int) -> bool:
        return any(_key(cell) == (load, broker, round_) and not cell.failure for cell in self.cells)

    def brokers(self) -> list[str]:
        return list(dict.fromkeys(cell.broker for cell in self.cells if cell.figures))

    def failures(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.failure]

    def summary(self, load: str, broker: str, figure: str) -> Summary | None:
        """Median, least and most of all rounds; None if it was never measured."""
        return summarise(
            cell.figures[figure]
            for cell in self.cells
            if cell.load == load and cell.broker == broker and figure in cell.figures
        )

    def ratio(self, load: str, figure: str, broker: str, base: str) -> float | None:
        """The median of one broker to that of another; None if either is missing or nothing."""
        ours, theirs = self.summary(load, broker, figure), self.summary(load, base, figure)
        if ours is None or theirs is None or not theirs.median:
            return None
        return ours.median / theirs.median


def summarise(values: Iterable[float]) -> Summary | None:
    collected = list(values)
    if not collected:
        return None
    return Summary(median(collected), min(collected), max(collected), len(collected))


def _key(cell: Cell) -> tuple[str, str, int]:
    return cell.load, cell.broker, cell.round
