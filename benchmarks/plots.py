"""The pictures of RESULTS.md, drawn with matplotlib: few words, each bar with its number.

One colour a broker everywhere. Bars stand for medians, thin lines for the least and the most of the
rounds. The overview shows each target's ratio on one scale on which longer is always better.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.brokers import TITLES
from benchmarks.results import Results, Summary
from benchmarks.targets import TARGETS, Bound

COLOURS = {
    "pybroker": "#0b7a75",
    "kafka": "#c8c5bd",
    "pybroker-pure": "#7fbfb3",
    "pybroker-batch": "#b5d9d2",
    "c-server": "#5c6b73",
    "tansu": "#d9a441",
}
INK, FAINT, MISSED = "#22262a", "#8b9096", "#c8553d"
BAR_AREA = 0.8


class Panel(NamedTuple):
    """One figure of several loads: a group of bars a load, a bar a broker."""

    title: str
    figure: str
    loads: Sequence[str]
    ticks: Sequence[str]
    lines: bool = False  # over an ordered axis instead of groups of bars
    leave_out: str = ""  # a broker so far off that the others would look the same


class Plot(NamedTuple):
    title: str
    panels: Sequence[Panel]


_SMALL = (("small-1x1", "small-8x1", "small-64x5"), ("1 x 1", "8 x 1", "64 x 5"))
_BULK = (
    ("bulk-none", "bulk-100-bytes", "bulk-lz4", "bulk-zstd"),
    ("none", "100 bytes", "lz4", "zstd"),
)
_PACKED = (("packed-none", "packed-lz4", "packed-zstd"), ("none", "lz4", "zstd"))
_FETCH = (("fetch-1x1", "fetch-64x5"), ("1 x 1", "64 x 5"))
_COMMIT = (
    (
        "offset-commits",
        "offset-commits-16x4",
        "offset-commits-one-group",
        "offset-commits-one-group-16x4",
    ),
    ("8 x 1", "16 x 4", "one group, 8 x 1", "one group, 16 x 4"),
)
_TLS = (("tls-1x1", "tls-8x1", "tls-64x5"), ("1 x 1", "8 x 1", "64 x 5"))
_CONNECTIONS = (("connections-1", "connections-100", "connections-1000"), ("1", "100", "1 000"))
_PARTITIONS = ("1", "100", "1 000", "5 000")
_COST = tuple(f"partitions-{n}" for n in (1, 100, 1000, 5000))
_RESTART = tuple(f"restart-{n}" for n in (1, 100, 1000, 5000))

PLOTS = {
    "small-produce": Plot(
        "Small produce requests, 1 KiB: connections x in flight",
        (
            Panel("requests a second", "requests/s", *_SMALL),
            Panel("broker CPU, microseconds a request", "broker CPU us/request", *_SMALL),
        ),
    ),
    "bulk": Plot(
        "Bulk through librdkafka, one partition",
        (
            Panel("produce, MB/s", "produce MB/s", *_BULK),
            Panel("consume, MB/s", "consume MB/s", *_BULK),
            Panel("produce, broker CPU seconds a GB", "produce broker CPU s/GB", *_BULK),
        ),
    ),
    "small-fetch": Plot(
        "Small fetches: connections x in flight",
        (
            Panel("requests a second", "requests/s", *_FETCH),
            Panel("broker CPU, microseconds a request", "broker CPU us/request", *_FETCH),
        ),
    ),
    "packed": Plot(
        "Bulk produce of batches that were packed beforehand",
        (
            Panel("produce, MB/s", "produce MB/s", *_PACKED),
            Panel("broker CPU seconds a GB", "broker CPU s/GB", *_PACKED),
        ),
    ),
    "tls": Plot(
        "Over TLS 1.3: small requests, connections x in flight, and bulk",
        (
            Panel("requests a second", "requests/s", *_TLS),
            Panel("produce, MB/s", "produce MB/s", ("tls-bulk",), ("",)),
            Panel("consume, MB/s", "consume MB/s", ("tls-bulk",), ("",)),
        ),
    ),
    "latency": Plot(
        "Producer to consumer at 2 000 records a second, milliseconds",
        (
            Panel("p50", "p50 ms", ("latency",), ("",), leave_out="tansu"),
            Panel("p99", "p99 ms", ("latency",), ("",), leave_out="tansu"),
            Panel("p99.9", "p99.9 ms", ("latency",), ("",), leave_out="tansu"),
        ),
    ),
    "connections": Plot(
        "Ten connections at work among idle ones",
        (
            Panel("broker CPU, us a request", "broker CPU us/request", *_CONNECTIONS, lines=True),
            Panel("requests a second", "requests/s", *_CONNECTIONS, lines=True),
        ),
    ),
    "partitions": Plot(
        "Requests that go round the partitions of a topic",
        (
            Panel(
                "broker CPU, us a request", "broker CPU us/request", _COST, _PARTITIONS, lines=True
            ),
            Panel("requests a second", "requests/s", _COST, _PARTITIONS, lines=True),
        ),
    ),
    "groups": Plot(
        "Consumer groups",
        (
            Panel(
                "one member more: rebalance, ms",
                "rebalance ms",
                ("groups-10", "groups-100", "groups-1000"),
                ("10 members", "100 members", "1 000 members"),
            ),
            Panel("offset commits a second", "commits/s", *_COMMIT),
        ),
    ),
    "three-brokers": Plot(
        "Three brokers, replication factor 3, acks=all",
        (
            Panel("bulk produce, MB/s", "produce MB/s", ("three-bulk",), ("",)),
            Panel("p50 at 2 000/s, ms", "p50 ms", ("three-latency",), ("",)),
            Panel("p99 at 2 000/s, ms", "p99 ms", ("three-latency",), ("",)),
        ),
    ),
    "transactions": Plot(
        "Transactions of one record to each of five partitions",
        (
            Panel(
                "transactions a second",
                "transactions/s",
                ("transactions-1", "transactions-8"),
                ("one producer", "eight producers"),
            ),
        ),
    ),
    "failover": Plot(
        "A broker that leads 5 000 partitions is killed",
        (
            Panel("first led again, s", "first led s", ("failover-5000",), ("",)),
            Panel("last led again, s", "last led s", ("failover-5000",), ("",)),
        ),
    ),
    "start-up": Plot(
        "From the command to the first acknowledged record",
        (
            Panel("seconds", "seconds", ("start-1", "start-3"), ("one broker", "three brokers")),
            Panel(
                "CPU seconds of all processes",
                "CPU s, all processes",
                ("start-1", "start-3"),
                ("one broker", "three brokers"),
            ),
        ),
    ),
    "restart": Plot(
        "One broker by its partitions",
        (
            Panel(
                "start-up after a clean stop, s", "start-up s", _RESTART, _PARTITIONS, lines=True
            ),
            Panel("broker memory, MB", "broker memory MB", _RESTART, _PARTITIONS, lines=True),
        ),
    ),
    "memory": Plot(
        "Memory of one broker and its ZooKeeper, MB",
        (
            Panel("idle", "idle MB, all", ("memory",), ("",)),
            Panel("loaded", "loaded MB, all", ("memory",), ("",)),
        ),
    ),
}


def draw(results: Results, directory: Path) -> list[Path]:
    """Every picture that the run has figures for."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "font.family": "sans-serif",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": FAINT,
            "axes.edgecolor": "#d5d7da",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "grid.color": "#ecedef",
            "ytick.left": False,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
        }
    )
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    if any(target.judge(results).ratio for target in TARGETS):
        made.append(_save(_overview(results), directory / "overview.png"))
    for name, plot in PLOTS.items():
        path = directory / f"{name}.png"
        path.unlink(missing_ok=True)
        if any(_brokers_of(results, panel) for panel in plot.panels):
            made.append(_save(_draw_plot(results, plot), path))
    return made


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.2)
    pyplot.close(figure)
    return path


def _draw_plot(results: Results, plot: Plot) -> Any:
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    figure, axes = pyplot.subplots(
        1, len(plot.panels), figsize=(5.2 * len(plot.panels), 4.2), squeeze=False
    )
    seen: dict[str, None] = {}
    for panel, axis in zip(plot.panels, axes[0], strict=True):
        brokers = _brokers_of(results, panel)
        seen |= dict.fromkeys(brokers)
        (_draw_lines if panel.lines else _draw_bars)(results, panel, brokers, axis)
        axis.set_title(panel.title, loc="left", fontsize=10, color=FAINT)
    figure.suptitle(plot.title, x=0.01, y=0.99, ha="left", va="top", fontsize=14, fontweight="bold")
    figure.legend(
        [Patch(color=COLOURS[broker]) for broker in seen],
        [TITLES[broker] for broker in seen],
        loc="upper left",
        bbox_to_anchor=(0.0, 0.925),
        borderaxespad=0.2,
        frameon=False,
        ncols=4,
        handlelength=1,
        handleheight=1,
    )
    figure.subplots_adjust(left=0.06, right=0.99, top=0.75, bottom=0.1, wspace=0.16)
    return figure


def _draw_bars(results: Results, panel: Panel, brokers: Sequence[str], axis: Any) -> None:
    width = BAR_AREA / max(len(brokers), 1)
    for number, broker in enumerate(brokers):
        for place, load in enumerate(panel.loads):
            found = results.summary(load, broker, panel.figure)
            if found is None:
                continue
            x = place + (number - (len(brokers) - 1) / 2) * width
            axis.bar(x, found.median, width * 0.92, color=COLOURS[broker])
            axis.errorbar(x, found.median, _spread(found), color=INK, lw=0.8, alpha=0.5)
            axis.annotate(
                _short(found.median),
                (x, found.most),
                (0, 3),
                ha="center",
                fontsize=8,
                textcoords="offset points",
            )
    axis.set_xticks(range(len(panel.loads)), panel.ticks)
    axis.tick_params(axis="x", length=0)
    axis.set_ylim(bottom=0)
    axis.margins(y=0.12)


def _draw_lines(results: Results, panel: Panel, brokers: Sequence[str], axis: Any) -> None:
    for number, broker in enumerate(brokers):
        above = 10 if number == 0 else -10  # so that two lines that meet keep their numbers apart
        found = [
            (place, summary)
            for place, load in enumerate(panel.loads)
            if (summary := results.summary(load, broker, panel.figure)) is not None
        ]
        places = [place for place, _ in found]
        axis.fill_between(
            places,
            [s.least for _, s in found],
            [s.most for _, s in found],
            color=COLOURS[broker],
            alpha=0.25,
            lw=0,
        )
        axis.plot(places, [s.median for _, s in found], "o-", color=COLOURS[broker], lw=2.2)
        for place, summary in found:
            axis.annotate(
                _short(summary.median),
                (place, summary.median),
                (0, above),
                ha="center",
                va="center",
                fontsize=8,
                textcoords="offset points",
            )
    axis.set_xticks(range(len(panel.loads)), panel.ticks)
    axis.set_ylim(bottom=0)
    axis.margins(x=0.08, y=0.15)


def _overview(results: Results) -> Any:
    """Each target as a bar of how many times better than Kafka (or than flat) we are."""
    from matplotlib import pyplot

    rows = [(one, one.judge(results)) for one in TARGETS if not isinstance(one, Bound)]
    rows = [(target, verdict) for target, verdict in reversed(rows) if verdict.ratio]
    figure, axis = pyplot.subplots(figsize=(10, 0.42 * len(rows) + 1.2))
    for place, (target, verdict) in enumerate(rows):
        assert verdict.ratio is not None
        better = verdict.ratio if target.at_least else 1 / verdict.ratio
        wanted = target.limit if target.at_least else 1 / target.limit
        colour = COLOURS["pybroker"] if verdict.met else MISSED
        axis.barh(place, better - 1, 0.62, left=1, color=colour)
        axis.plot([wanted, wanted], [place - 0.4, place + 0.4], color=INK, lw=2)
        outside = max(better, wanted, 1.0)
        axis.annotate(
            _short(verdict.ratio),
            (outside, place),
            (6, 0),
            va="center",
            fontsize=9,
            textcoords="offset points",
        )
    axis.axvline(1, color=FAINT, lw=1)
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), [target.title for target, _ in rows])
    axis.tick_params(axis="y", colors=INK)
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x")
    ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
    axis.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axis.minorticks_off()
    axis.margins(x=0.12)
    axis.set_title(
        "Beside Apache Kafka: to the right is better for pybroker\n",
        loc="left",
        fontsize=14,
        fontweight="bold",
    )
    axis.text(
        0,
        1.01,
        "bar: measured, with its ratio (red: missed); black mark: target",
        transform=axis.transAxes,
        color=FAINT,
        va="bottom",
    )
    return figure


def _brokers_of(results: Results, panel: Panel) -> list[str]:
    return [
        broker
        for broker in COLOURS
        if broker != panel.leave_out
        and any(results.summary(load, broker, panel.figure) for load in panel.loads)
    ]


def _spread(found: Summary) -> list[list[float]]:
    return [[found.median - found.least], [found.most - found.median]]


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"
