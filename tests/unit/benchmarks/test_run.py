"""The order of a run, and that one failing load costs the others nothing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.brokers import BROKERS, Cluster
from benchmarks.loads import LOADS, chosen
from benchmarks.loads.base import QUICK, Bench, Figure, Figures, Load
from benchmarks.results import Cell, Results
from benchmarks.run import Budget, Harness, limit, parse, plan, run_all


class Sleeper(Cluster):
    """A broker that only sleeps."""

    name = "pybroker"
    made: list[Sleeper] = []

    def launch(self) -> None:
        self._spawn(["sleep", "60"], "sleep.log")
        Sleeper.made.append(self)

    def wait(self) -> None:
        self.check_alive()

    @property
    def broker_pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    all_pids = broker_pids

    @property
    def data_directories(self) -> list[Path]:
        return []


@pytest.fixture
def _sleepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Sleeper.made = []
    monkeypatch.setattr(run, "BROKERS", {"pybroker": Sleeper})
    monkeypatch.setattr(run, "WARM_UP_ROUNDS", 0)
    yield
    assert all(not cluster.broker_pids for cluster in Sleeper.made)


def load_of(action: Callable[[Bench], Figures], *, nodes: int = 1, name: str = "a") -> Load:
    return Load(name, "bulk", (), action, nodes)


def run_loads(path: Path, *loads: Load) -> Results:
    results = Results(path / "results.json")
    run_all(results, list(plan(loads, ["pybroker"], 1)), QUICK, path)
    return results


def test_rounds_go_from_broker_to_broker() -> None:
    load = LOADS["small-1x1"]
    order = [(broker, round_) for _, broker, round_ in plan([load], ["pybroker", "kafka"], 2)]
    assert order == [("pybroker", 1), ("kafka", 1), ("pybroker", 2), ("kafka", 2)]


def test_loads_of_a_family_take_their_rounds_together() -> None:
    loads = chosen(["connections", "latency"])
    order = [(load.name, round_) for load, _, round_ in plan(loads, ["pybroker"], 2)]
    assert order == [
        (name, round_)
        for family in (
            ["latency", "latency-20000"],
            ["connections-1", "connections-100", "connections-1000"],
        )
        for round_ in (1, 2)
        for name in family
    ]


def test_a_broker_is_spared_what_it_cannot_do() -> None:
    three = [broker for _, broker, _ in plan([LOADS["three-bulk"]], list(BROKERS), 1)]
    assert three == ["pybroker", "kafka"]


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("small_produce", ["small-1x1", "small-8x1", "small-64x5"]),
        ("small-8x1", ["small-8x1"]),
        ("three", ["three-bulk", "three-latency", "three-latency-5000"]),
        ("latency", ["latency", "latency-20000"]),
    ],
)
def test_loads_go_by_name_or_family(word: str, names: list[str]) -> None:
    assert [load.name for load in chosen([word])] == names


def test_without_a_word_all_loads_run() -> None:
    assert [load.name for load in chosen([])] == list(LOADS)


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ([], run.RESULTS),
        (["--continue", "--loads", "latency"], run.RESULTS),
        (["--report-only"], run.RESULTS),
        (["--loads", "latency"], run.SCRATCH),
        (["--brokers", "pybroker"], run.SCRATCH),
        (["--quick"], run.SCRATCH),
        (["--quick", "--results", "here"], Path("here")),
    ],
)
def test_only_a_whole_run_replaces_the_published_page(words: list[str], path: Path) -> None:
    assert parse(words).results == path


@pytest.mark.parametrize("words", [["--loads", "nonsense"], ["--brokers", "rabbit"]])
def test_unknown_names_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(words)
    assert words[1] in capsys.readouterr().err


@pytest.mark.usefixtures("_sleepers")
def test_a_failing_load_is_noted_and_the_next_gets_a_new_cluster(tmp_path: Path) -> None:
    def breaks(bench: Bench) -> Figures:
        raise ValueError("it broke")

    def works(bench: Bench) -> Figures:
        return {"x": float(len(Sleeper.made))}

    results = run_loads(
        tmp_path, load_of(works, name="a"), load_of(breaks, name="b"), load_of(works, name="c")
    )
    assert [(cell.load, cell.figures, cell.failure) for cell in results.cells] == [
        ("a", {"x": 1.0}, ""),
        ("b", {}, "ValueError: it broke"),
        ("c", {"x": 2.0}, ""),
    ]
    assert Results.load(results.path).cells == results.cells


@pytest.mark.parametrize(
    ("more_is_better", "given", "taken"),
    [
        (True, [1.0, 2.0, 3.0, 3.1, 3.1, 9.0], 5),
        (True, [3.0, 3.0, 3.0, 9.0], 3),
        (False, [9.0, 5.0, 4.9, 4.9, 1.0], 4),
        (True, [2.0**n for n in range(20)], run.MOST_WARM_UPS),
    ],
)
def test_a_load_runs_until_its_figure_grows_no_more(
    more_is_better: bool, given: list[float], taken: int
) -> None:
    rest = iter(given)
    load = Load("a", "bulk", (Figure("x", more_is_better),), lambda _: {"x": next(rest)})
    bench = Bench(QUICK, lambda _: pytest.fail("it has a cluster"))
    assert run.until_it_grows_no_more(load, bench) == given[:taken]


def test_first_rounds_have_their_time_before_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr("benchmarks.run.time.monotonic", lambda: clock)
    monkeypatch.setattr(run, "RESULTS", Path("nowhere"))
    one, other = (load_of(lambda _: {}, name=name) for name in ("one", "other"))
    budget = Budget(list(plan([one, other], ["pybroker"], 3)), 3 * one.about_seconds)
    assert budget.allows(one, "pybroker", 1)
    assert not budget.allows(one, "pybroker", 2), "this would not leave it to both first rounds"
    budget.note(Cell("one", "pybroker", 1, took_seconds=1.0))
    assert budget.allows(one, "pybroker", 2)
    budget.note(Cell("other", "pybroker", 1, took_seconds=1.0))
    clock += 3 * one.about_seconds - 1
    assert not budget.allows(one, "pybroker", 2)
    budget.note(Cell("one", "pybroker", 2, took_seconds=0.5))
    assert budget.allows(one, "pybroker", 3)
    assert budget.allows(other, "pybroker", 1)
    clock += 1
    assert not budget.allows(other, "pybroker", 1)


@pytest.mark.usefixtures("_sleepers")
def test_what_has_no_time_left_is_noted(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    work = list(plan([load_of(lambda _: {"x": 1.0})], ["pybroker"], 2))
    run_all(results, work, QUICK, tmp_path, minutes=0.0)
    assert [cell.failure for cell in results.cells] == ["the minutes of the run were over"]


@pytest.mark.usefixtures("_sleepers")
def test_a_broker_that_died_is_a_failure(tmp_path: Path) -> None:
    def kills(bench: Bench) -> Figures:
        for pid in bench.cluster.broker_pids:
            os.kill(pid, 9)
        while os.path.exists(f"/proc/{pid}/fd/0"):
            time.sleep(0.01)
        return {}

    def works(bench: Bench) -> Figures:
        return {"x": 1.0}

    results = run_loads(tmp_path, load_of(kills, name="a"), load_of(works, name="b"))
    assert "ended with -9" in results.cells[1].failure


@pytest.mark.usefixtures("_sleepers")
def test_loads_with_their_own_cluster_get_it_killed(tmp_path: Path) -> None:
    def starts(bench: Bench) -> Figures:
        bench.new_cluster(3).start()
        raise OSError("it broke")

    results = run_loads(tmp_path, load_of(starts, nodes=0))
    assert results.cells[0].failure == "OSError: it broke"
    assert len(Sleeper.made) == 1


@pytest.mark.usefixtures("_sleepers")
def test_clusters_are_killed_when_the_run_is_stopped(tmp_path: Path) -> None:
    def stops(bench: Bench) -> Figures:
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        Harness(Results(tmp_path / "r"), QUICK, tmp_path) as harness,
    ):
        harness.measure(load_of(stops), "pybroker", 1)
    assert len(Sleeper.made) == 1


def test_no_measurement_takes_for_ever() -> None:
    with pytest.raises(run.Overdue), limit(1):
        subprocess.run(["sleep", "30"], check=False)
