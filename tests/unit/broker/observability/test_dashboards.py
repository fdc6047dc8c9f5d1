"""Queries of dashboards and alerts: PromQL that names metrics and labels that are exported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from click.testing import CliRunner

from pybroker_kafka.broker.observability.alerts import ALERTS, rules_file
from pybroker_kafka.broker.observability.dashboards import dashboards
from pybroker_kafka.cli.main import main
from tests.support.processes import ROOT

# What Prometheus adds, and prometheus_client exports of each process.
FREE = {"instance", "job"}
OF_PROCESSES = {
    "up", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds",
    "process_max_fds",
}  # fmt: skip
VARIABLES = {"$__rate_interval": "1m"}


def exported() -> dict[str, set[str]]:
    """Metrics and their labels, as docs/METRICS.md says."""
    page = (ROOT / "docs" / "METRICS.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*) \|", page, re.MULTILINE)
    return {name: set(labels.split(", ")) - {""} for name, _, labels in rows}


def queries() -> dict[str, str]:
    found = {f"alert {alert.name}": alert.expression for alert in ALERTS}
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                place = f"{name}, {panel['title']}, {target['refId']}"
                assert place not in found
                found[place] = target["expr"]
    return found


def selectors(node: Any) -> list[Any]:
    """All vector selectors below a node of the parser's tree."""
    if isinstance(node, promql_parser.VectorSelector):
        return [node]
    below = [getattr(node, part, None) for part in ("lhs", "rhs", "expr", "vector_selector", "vs")]
    below += list(getattr(node, "args", []) or [])
    return [found for part in below if part is not None for found in selectors(part)]


@pytest.mark.parametrize("place", queries())
def test_a_query_names_what_is_there(place: str) -> None:
    text = queries()[place]
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    known = exported()
    found = selectors(promql_parser.parse(text))
    assert found, "a query of no metric"
    for selector in found:
        assert selector.name in known or selector.name in OF_PROCESSES, selector.name
        for matcher in selector.matchers.matchers:
            assert matcher.name in known.get(selector.name, set()) | FREE, matcher.name


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard(name: str) -> None:
    """Its variables are metrics' labels, its panels do not lie on each other, all have a unit."""
    dashboard = dashboards()[name]
    known = exported()
    variables = {"source"}
    for variable in dashboard["templating"]["list"][1:]:
        query = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        assert query is not None
        assert query[2] in known[query[1]] | FREE
        variables.add(variable["name"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used - {"__rate_interval"} == variables
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in dashboard["panels"])


def test_the_files_that_are_written(tmp_path: Path) -> None:
    place = tmp_path / "watch"
    done = CliRunner().invoke(main, ["monitoring", str(place), "-t", "a:1", "-t", "b:2"])
    assert done.exit_code == 0, done.output
    assert [Path(line).name for line in done.output.splitlines()] == [
        "prometheus.yml", "alerts.yml", "provisioning.yml",
        "cluster.json", "topic.json", "group.json", "broker.json",
    ]  # fmt: skip
    config = yaml.safe_load((place / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["a:1", "b:2"]}]
    assert config["rule_files"] == ["alerts.yml"]
    rules = yaml.safe_load((place / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [alert.name for alert in ALERTS]
    assert rules == yaml.safe_load(rules_file())["groups"][0]["rules"]
    assert all(rule["annotations"]["description"] for rule in rules)
    provided = yaml.safe_load((place / "grafana" / "provisioning.yml").read_text())
    assert provided["providers"][0]["options"]["path"] == str(place / "grafana")
    topic = json.loads((place / "grafana" / "topic.json").read_text())
    assert topic["title"] == "Kafka: topics"


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["monitoring", str(tmp_path / "file" / "x"), "-t", "a:1"])
    assert done.exit_code != 0


def test_each_alert_has_its_fault() -> None:
    tests = (ROOT / "tests" / "faults" / "test_alerts.py").read_text()
    assert [alert.name for alert in ALERTS if f'"{alert.name}"' not in tests] == []
