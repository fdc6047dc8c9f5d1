"""As much of PromQL as our alerts need, over scrapes that a test has made: dumb and exact.

A range (`[5m]`) is the whole recording. Mirrors Prometheus' engine for vector selectors, rate and
increase without extrapolation, sum and max, comparisons, division, `or`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Recording:
    """Scrapes in their order; by metric and labels, the values seen."""

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, list[float]]] = {}
        self._latest: dict[str, Vector] = {}

    def add(self, scrapes: Mapping[str, str | None]) -> None:
        """By instance, what it exported just now; None if it did not answer."""
        latest: dict[str, Vector] = {}
        for instance, text in scrapes.items():
            own = {("instance", instance), ("job", "kafka")}
            latest.setdefault("up", {})[frozenset(own)] = float(text is not None)
            for family in text_string_to_metric_families(text or ""):
                for sample in family.samples:
                    labels = frozenset({*own, *((k, v) for k, v in sample.labels.items() if v)})
                    latest.setdefault(sample.name, {})[labels] = sample.value
        for name, vector in latest.items():
            for labels, value in vector.items():
                self._series.setdefault(name, {}).setdefault(labels, []).append(value)
        self._latest = latest

    def evaluate(self, query: str) -> Vector:
        """The samples that `query` has now: an alert fires for each of them."""
        found = self._of(promql_parser.parse(query))
        assert isinstance(found, dict)
        return found

    def _of(self, node: Any) -> Vector | float:
        match node:
            case promql_parser.NumberLiteral():
                return float(node.val)
            case promql_parser.ParenExpr():
                return self._of(node.expr)
            case promql_parser.VectorSelector():
                return _matching(node, self._latest.get(node.name or "", {}))
            case promql_parser.Call():
                (argument,) = node.args
                assert node.func.name == "increase", node.func.name
                series = self._series.get(argument.vector_selector.name, {})
                return {
                    labels: sum(max(0.0, b - a) for a, b in itertools.pairwise(seen))
                    for labels, seen in _matching(argument.vector_selector, series).items()
                }
            case promql_parser.AggregateExpr():
                return self._aggregate(node)
            case promql_parser.BinaryExpr():
                return _combine(str(node.op), self._of(node.lhs), self._of(node.rhs))
        raise AssertionError(f"not known here: {type(node).__name__}")

    def _aggregate(self, node: Any) -> Vector:
        combine = max if str(node.op) == "max" else sum
        assert str(node.op) in ("max", "sum")
        by = set(node.modifier.labels) if node.modifier else set()
        groups: dict[Labels, list[float]] = {}
        vector = self._of(node.expr)
        assert isinstance(vector, dict)
        for labels, value in vector.items():
            kept = frozenset(pair for pair in labels if pair[0] in by)
            groups.setdefault(kept, []).append(value)
        return {labels: float(combine(values)) for labels, values in groups.items()}


def _matching(selector: Any, series: dict[Labels, Any]) -> dict[Labels, Any]:
    wanted = {(matcher.name, matcher.value) for matcher in selector.matchers.matchers}
    assert all(m.op == promql_parser.MatchOp.Equal for m in selector.matchers.matchers)
    return {labels: value for labels, value in series.items() if wanted <= labels}


def _combine(operation: str, left: Vector | float, right: Vector | float) -> Vector:
    assert isinstance(left, dict)
    if operation == "or":
        assert isinstance(right, dict)
        return right | left
    if operation == "/":
        assert isinstance(right, dict)
        return {labels: left[labels] / right[labels] for labels in left.keys() & right.keys()}
    assert isinstance(right, float)
    is_so = COMPARISONS[operation]
    return {labels: value for labels, value in left.items() if is_so(value, right)}
