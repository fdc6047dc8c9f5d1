"""RESULTS.md and its plots from a stored run.

The page says what was promised and what came of it, then gives every figure with its spread. What
people have to say about the figures is in NOTES.md and is taken over as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.brokers import TITLES
from benchmarks.loads import LOADS
from benchmarks.loads.base import Figure, Load
from benchmarks.plots import PLOTS, draw
from benchmarks.results import Results, Summary
from benchmarks.targets import KAFKA, OURS, TARGETS, Bound, Client, Flat, Target

HERE = Path(__file__).resolve().parent

CHAPTERS = {
    "small-produce": "Small produce requests",
    "small-fetch": "Small fetches",
    "bulk": "Bulk produce and consume",
    "packed": "Bulk produce, packed beforehand",
    "lone-records": "Consuming batches of one record",
    "tls": "Over TLS 1.3",
    "latency": "From producer to consumer",
    "connections": "Many connections",
    "partitions": "Many partitions: what a request costs",
    "groups": "Consumer groups",
    "clients-produce": "Python's clients, producing",
    "clients-consume": "Python's clients, consuming",
    "transactions": "Transactions",
    "cold-reads": "Cold reads while producing",
    "three-brokers": "Three brokers",
    "failover": "Failover",
    "start-up": "Start-up",
    "restart": "Many partitions: start-up after a clean stop, and memory",
    "memory": "Memory, and CPU when idle",
}

HOW = """\
Both brokers run at once on this machine, on directories of the same file system, with equal
settings, and are loaded in turn, round by round (ABAB); the client shares the cores with them.
Before the rounds of a load it is run against each broker until twice in a row its figure is not 5 %
better than ever before: those runs are at the end of this page. A figure is the median of its
rounds with the least and the most in brackets.
Broker CPU is the user and system time of the broker processes over the measured time, from `/proc`;
it is steadier than rates. Apache Kafka runs in ZooKeeper mode with its own JVM flags and a heap of
1 GB (`-Xms1G -Xmx1G`), and logs warnings only; pybroker logs as it always does. Nothing is tuned to
either. `python -m benchmarks.run --loads NAME` repeats any load; README.md here says more.
"""

LIMITS = """\
On the path of a produced batch pybroker does what Apache Kafka does: it checks each record of each
batch, unpacked if need be. `record.validation=batch` leaves that out: "record.validation=batch" in
the tables. The C server checks a batch's length and CRC-32C and writes it, and does nothing else
that a broker does. tansu keeps its data in memory only here, so its figures are without a disk.
"""

PURE = "pybroker-pure"


def write(results: Results) -> Path:
    """Write the page beside the stored run, and its plots under it; returns the page."""
    plots = results.path.parent / "plots"
    draw(results, plots)
    page = results.path.with_name("RESULTS.md")
    notes = HERE / "NOTES.md"
    page.write_text(render(results, notes.read_text() if notes.exists() else "", plots))
    return page


def render(results: Results, notes: str = "", plots: Path | None = None) -> str:
    parts = ["# Beside Apache Kafka, measured", "", f"{results.date}. {_headline(results)}", ""]
    parts += [_plot("overview", plots), "## Targets", "", *_targets(results), ""]
    if notes:
        parts += ["## What the figures say", "", notes.strip(), ""]
    parts += ["## How it is measured", "", HOW, *_facts(results), ""]
    parts += ["## Figures", "", *_chapters(results, plots)]
    parts += ["## Compiled, and interpreted", "", *both_ways(results), ""]
    parts += ["## What is done on the path", "", LIMITS]
    parts += _warm_ups(results)
    parts += _missing(results)
    return "\n".join(part for part in parts if part is not None).rstrip() + "\n"


def _headline(results: Results) -> str:
    verdicts = [target.judge(results) for target in TARGETS]
    met = sum(verdict.met is True for verdict in verdicts)
    missed = sum(verdict.met is False for verdict in verdicts)
    rest = len(verdicts) - met - missed
    unmeasured = f", {rest} not measured" if rest else ""
    return f"Of {len(verdicts)} targets {met} are met and {missed} missed{unmeasured}."


def _targets(results: Results) -> Iterable[str]:
    yield f"| | pybroker | {TITLES[KAFKA]} | ratio | target | |"
    yield "|---|---:|---:|---:|---|---|"
    for target in TARGETS:
        verdict = target.judge(results)
        ratio = "not measured" if verdict.ratio is None else _number(verdict.ratio)
        word = {True: "met", False: "**missed**", None: ""}[verdict.met]
        ours, theirs = _both_sides(target, results)
        yield f"| {target.title} | {ours} | {theirs} | {ratio} | {target.demand} | {word} |"


def _both_sides(target: Target | Bound | Flat | Client, results: Results) -> tuple[str, str]:
    if isinstance(target, Client):
        us, they = (f"{_number(one)} us" if one else "-" for one in target.sides(results))
        return us, f"{they} ({' or '.join(target.beside)})"
    if isinstance(target, Flat):
        medians = [results.summary(load, OURS, target.figure) for load in target.loads]
        shown = ", ".join("-" if found is None else _number(found.median) for found in medians)
        return f"{shown} us", ""
    brokers = (OURS, target.beside)
    sides = [results.summary(target.load, broker, target.figure) for broker in brokers]
    ours, theirs = ("-" if found is None else _number(found.median) for found in sides)
    return ours, theirs if target.beside == KAFKA else f"{theirs} ({TITLES[target.beside]})"


def both_ways(results: Results) -> Iterable[str]:
    """What was measured with compiled modules and without, side by side with Apache Kafka."""
    yield f"| load | figure | compiled | interpreted | {TITLES[KAFKA]} |"
    yield "|---|---|---:|---:|---:|"
    for load in LOADS.values():
        for figure in load.figures:
            if results.summary(load.name, PURE, figure.name) is None or "client" in figure.name:
                continue
            found = [results.summary(load.name, each, figure.name) for each in (OURS, PURE, KAFKA)]
            shown = " | ".join("-" if one is None else _number(one.median) for one in found)
            yield f"| `{load.name}` | {_marked(figure)} | {shown} |"


def _warm_ups(results: Results) -> Iterable[str]:
    if not results.warm_ups:
        return
    yield "## Warming up"
    yield ""
    yield "The first figure of a load in each short run before its rounds, in order."
    yield ""
    yield "| load | figure | broker | runs |"
    yield "|---|---|---|---|"
    for key, found in results.warm_ups.items():
        name, _, broker = key.partition(" ")
        if name in LOADS and broker in TITLES:
            runs = ", ".join(_number(value) for value in found)
            yield f"| `{name}` | {LOADS[name].figures[0].name} | {TITLES[broker]} | {runs} |"
    yield ""


def _facts(results: Results) -> Iterable[str]:
    yield "| | |"
    yield "|---|---|"
    for name, value in results.machine.items():
        yield f"| {name} | {value} |"
    for command in results.commands:
        yield f"| command | `{command}` |"


def _chapters(results: Results, plots: Path | None) -> Iterable[str]:
    for family, title in CHAPTERS.items():
        loads = [load for load in LOADS.values() if load.family == family]
        measured = [load for load in loads if any(cell.load == load.name for cell in results.cells)]
        if not measured:
            continue
        yield f"### {title}"
        yield ""
        yield _doc(measured[0])
        yield ""
        if family in PLOTS:
            yield _plot(family, plots)
        yield from _table(results, measured)
        yield ""


def _doc(load: Load) -> str:
    """What the load's module says of itself."""
    module = __import__(load.run.__module__, fromlist=["__doc__"])
    return (module.__doc__ or "").strip()


def _table(results: Results, loads: Sequence[Load]) -> Iterable[str]:
    brokers = [
        broker
        for broker in results.brokers()
        if broker in TITLES  # an older run may have one that is no longer measured
        and any(cell.broker == broker and cell.load in {load.name for load in loads}
                for cell in results.cells)
    ]  # fmt: skip
    heads = " | ".join(TITLES[broker] for broker in brokers)
    with_ratio = OURS in brokers and KAFKA in brokers
    yield f"| load | figure | {heads} |" + (" pybroker / Kafka |" if with_ratio else "")
    yield "|---|---|" + "---:|" * (len(brokers) + with_ratio)
    for load in loads:
        for figure in load.figures:
            cells = [_spread(results.summary(load.name, each, figure.name)) for each in brokers]
            line = f"| `{load.name}` | {_marked(figure)} | {' | '.join(cells)} |"
            if with_ratio:
                ratio = results.ratio(load.name, figure.name, OURS, KAFKA)
                line += f" {'' if ratio is None else _number(ratio)} |"
            yield line


def _marked(figure: Figure) -> str:
    return f"{figure.name} (more is better)" if figure.more_is_better else figure.name


def _missing(results: Results) -> Iterable[str]:
    if results.left_out:
        yield "## Left out"
        yield ""
        for broker, reason in results.left_out.items():
            yield f"- {TITLES[broker]}: {reason}"
        yield ""
    if failures := results.failures():
        yield "## Failed"
        yield ""
        for cell in failures:
            reason = " ".join(cell.failure.split())
            yield f"- `{cell.load}`, {TITLES[cell.broker]}, round {cell.round}: {reason}"


def _plot(name: str, plots: Path | None) -> str:
    if plots is None or not (plots / f"{name}.png").exists():
        return ""
    return f"![{CHAPTERS.get(name, 'Ratios to Apache Kafka')}]({plots.name}/{name}.png)\n"


def _spread(summary: Summary | None) -> str:
    if summary is None:
        return ""
    if summary.rounds == 1:
        return _number(summary.median)
    return f"{_number(summary.median)} ({_number(summary.least)} .. {_number(summary.most)})"


def _number(value: float) -> str:
    """Three digits that count, and thousands kept apart."""
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.3f}"
