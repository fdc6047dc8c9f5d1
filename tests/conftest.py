"""Fixtures of all tests, limits of time that know how busy the machine is, hypothesis' profile (no
deadline, since machines are noisy), and when garbage is looked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from types import FunctionType

import pytest
from hypothesis import HealthCheck, settings

from tests.support import examples
from tests.support.patience import (
    pytest_runtest_protocol,
    pytest_timeout_set_timer,
    stretch_limits,
)
from tests.support.processes import BrokerProcess, hear_signals, running_broker
from tests.support.short_lived_java import use_for_spark

__all__ = ["pytest_runtest_protocol", "pytest_timeout_set_timer", "shared_broker"]

os.environ.setdefault("PYBROKER_INVARIANTS", "all")  # for the brokers that tests start, too
stretch_limits()
hear_signals()
use_for_spark()
settings.register_profile(
    "pybroker", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("pybroker")

gc.disable()  # until tests are collected

HYPOTHESIS_SETTINGS = "_hypothesis_internal_use_settings"

# Of objects made and not yet given back; Python's own is 700, and 10 for older ones.
GARBAGE_THRESHOLDS = (20_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    properties = {
        test
        for item in items
        if isinstance(test := getattr(item, "obj", None), FunctionType)
        and hasattr(test, HYPOTHESIS_SETTINGS)
    }
    for test in properties:
        found: settings = getattr(test, HYPOTHESIS_SETTINGS)
        tried = examples.of(found.max_examples)
        setattr(test, HYPOTHESIS_SETTINGS, settings(found, max_examples=tried))


def pytest_collection_finish() -> None:
    """What is there once tests are collected stays: going through it again and again took a third
    of a property test's time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker process over an embedded ZooKeeper process, shared by a module's tests."""
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker
