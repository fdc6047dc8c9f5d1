"""What benchmarks make of their measurements: medians, ratios, verdicts, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.loads import LOADS
from benchmarks.plots import PLOTS, draw
from benchmarks.results import Cell, Results, summarise
from benchmarks.targets import TARGETS, Bound, Client, Flat, Target, Verdict, client_figure

FASTER = Target("faster", "small-1x1", "requests/s", 1.2, at_least=True)
SMALLER = Target("smaller", "small-1x1", "p99 ms", 0.5, at_least=False)


def results_of(path: Path, *cells: tuple[str, str, dict[str, float]]) -> Results:
    results = Results(path / "results.json", date="today", machine={"cores": "2"})
    for load, broker, figures in cells:
        round_ = sum((cell.load, cell.broker) == (load, broker) for cell in results.cells) + 1
        results.add(Cell(load, broker, round_, figures))
    return results


def test_a_summary_is_the_median_with_its_ends() -> None:
    assert summarise([3.0, 1.0, 8.0]) == (3.0, 1.0, 8.0, 3)
    assert summarise([]) is None


def test_a_ratio_is_of_medians(tmp_path: Path) -> None:
    rates = [("pybroker", 10.0), ("kafka", 4.0), ("pybroker", 30.0), ("kafka", 6.0),
             ("pybroker", 12.0), ("kafka", 5.0)]  # fmt: skip
    results = results_of(tmp_path, *(("a", who, {"requests/s": rate}) for who, rate in rates))
    assert results.ratio("a", "requests/s", "pybroker", "kafka") == 12 / 5
    assert results.ratio("a", "requests/s", "pybroker", "tansu") is None
    assert results.ratio("a", "other", "pybroker", "kafka") is None


def test_a_ratio_to_nothing_is_none(tmp_path: Path) -> None:
    results = results_of(tmp_path, ("a", "pybroker", {"x": 1.0}), ("a", "kafka", {"x": 0.0}))
    assert results.ratio("a", "x", "pybroker", "kafka") is None


@pytest.mark.parametrize(
    ("target", "ours", "met"),
    [(FASTER, 120, True), (FASTER, 119, False), (SMALLER, 50, True), (SMALLER, 51, False)],
)
def test_a_target_is_met_at_its_limit(tmp_path: Path, target: Target, ours: int, met: bool) -> None:
    figures = {"requests/s": float(ours), "p99 ms": float(ours)}
    kafkas = dict.fromkeys(figures, 100.0)
    results = results_of(
        tmp_path, ("small-1x1", "pybroker", figures), ("small-1x1", "kafka", kafkas)
    )
    assert target.judge(results).met is met


def test_what_is_not_measured_is_neither_met_nor_missed(tmp_path: Path) -> None:
    results = results_of(tmp_path, ("small-1x1", "pybroker", {"requests/s": 1.0}))
    assert all(target.judge(results).met is None for target in TARGETS)


@pytest.mark.parametrize(("last", "met"), [(12.5, True), (12.6, False), (2.0, True)])
def test_flat_is_the_largest_to_the_first(tmp_path: Path, last: float, met: bool) -> None:
    flat = Flat("flat", ("a", "b", "c"), "us", 1.25)
    results = results_of(tmp_path, ("a", "pybroker", {"us": 10.0}), ("b", "pybroker", {"us": 9.0}))
    assert flat.judge(results).met is None
    results.add(Cell("c", "pybroker", 1, {"us": last}))
    assert flat.judge(results).met is met


@pytest.mark.parametrize(("ours", "met"), [(10.0, True), (10.1, False)])
def test_a_bound_is_about_ours_alone(tmp_path: Path, ours: float, met: bool) -> None:
    results = results_of(tmp_path, ("a", "pybroker", {"p99 ms": ours}))
    assert Bound("bound", "a", "p99 ms", 10.0).judge(results) == Verdict(None, met)
    assert Bound("bound", "b", "p99 ms", 10.0).judge(results) == Verdict(None, None)


def test_a_target_may_be_beside_another_than_kafka(tmp_path: Path) -> None:
    results = results_of(tmp_path, ("a", "pybroker", {"us": 14.0}), ("a", "c-server", {"us": 7.0}))
    cost = Target("cost", "a", "us", 2.0, at_least=False, beside="c-server")
    assert cost.judge(results) == Verdict(2.0, True)


def test_compiled_and_interpreted_stand_side_by_side(tmp_path: Path) -> None:
    rates = {"pybroker": 9.0, "pybroker-pure": 6.0, "kafka": 8.0}
    cells = [("small-8x1", broker, {"requests/s": rate}) for broker, rate in rates.items()]
    shown = list(report.both_ways(results_of(tmp_path, *cells)))
    assert shown[2:] == ["| `small-8x1` | requests/s (more is better) | 9.00 | 6.00 | 8.00 |"]


def test_a_client_is_compared_with_the_best_of_others(tmp_path: Path) -> None:
    figures = {"pybroker": 2.0, "aiokafka": 6.0, "kafka-python": 9.0, "confluent-kafka": 1.0}
    costs = {client_figure(name): cost for name, cost in figures.items()}
    results = results_of(tmp_path, ("a", "pybroker", costs))
    assert Client("c", "a", ("aiokafka", "kafka-python"), 3.0).judge(results) == Verdict(3.0, True)
    assert Client("c", "a", ("confluent-kafka",), 1.0).judge(results) == Verdict(0.5, False)
    other = Client("c", "a", ("aiokafka",), 1.0, "pybroker-pure")
    assert other.judge(results) == Verdict(None, None)


def test_every_target_and_plot_names_figures_that_exist() -> None:
    for target in TARGETS:
        loads = target.loads if isinstance(target, Flat) else [target.load]
        for load in loads:
            assert target.figure in [figure.name for figure in LOADS[load].figures]
    for plot in PLOTS.values():
        for panel in plot.panels:
            assert len(panel.loads) == len(panel.ticks)
            for load in panel.loads:
                assert panel.figure in [figure.name for figure in LOADS[load].figures]
    assert {load.family for load in LOADS.values()} == set(report.CHAPTERS)


def test_a_stored_run_is_read_again(tmp_path: Path) -> None:
    results = results_of(tmp_path, ("a", "pybroker", {"x": 1.5}))
    results.add(Cell("a", "kafka", 1, failure="it broke"))
    again = Results.load(results.path)
    assert again == results
    assert again.has("a", "pybroker", 1)
    assert not again.has("a", "kafka", 1)


def test_a_repeated_measurement_takes_the_place_of_the_first(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    results.add(Cell("a", "kafka", 1, failure="it broke"))
    results.add(Cell("a", "kafka", 1, {"x": 2.0}))
    assert results.cells == [Cell("a", "kafka", 1, {"x": 2.0})]
    assert not results.failures()


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"format": 0}')
    with pytest.raises(ValueError, match="another format"):
        Results.load(path)


def test_the_page_says_what_was_missed(tmp_path: Path) -> None:
    ours = {"requests/s": 9.0, "p99 ms": 1.0}
    results = results_of(
        tmp_path,
        ("small-1x1", "pybroker", ours),
        ("small-1x1", "kafka", {"requests/s": 10.0, "p99 ms": 2.0}),
    )
    results.left_out["tansu"] = "no wheel"
    results.add(Cell("latency", "kafka", 1, failure="LoadError:\nit broke"))
    page = report.render(results, "People say so.")
    count = len(TARGETS)
    assert f"Of {count} targets 0 are met and 1 missed, {count - 1} not measured." in page
    assert (
        "| small produce 1x1, requests/s | 9.00 | 10.0 | 0.90 | at least 1.1 | **missed** |" in page
    )
    assert "| `small-1x1` | p99 ms | 1.00 | 2.00 | 0.50 |" in page
    assert "People say so." in page
    assert "tansu, memory engine: no wheel" in page
    assert "`latency`, Apache Kafka 3.9.1, round 1: LoadError: it broke" in page


@pytest.mark.nightly
def test_what_was_measured_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the spark extra")
    figures = {figure.name: 2.0 for figure in LOADS["restart-5000"].figures}
    loads = ["restart-1", "restart-5000"]
    cells = [(name, broker, figures) for name in loads for broker in ("pybroker", "kafka")]
    made = draw(results_of(tmp_path, *cells), tmp_path / "plots")
    assert {path.stem for path in made} == {"overview", "restart"}
    assert all(path.stat().st_size > 5_000 for path in made)
