"""Which files of this folder are begun first: those that take long.

Workers get whole files, so that a long one that is begun last has the others wait for its end.
"""

from __future__ import annotations

import pytest

# By the seconds that they take, the longest first.
LONG = (
    "test_spark_sources",
    "test_spark",
    "test_examples",
    "test_console",
    "test_cli",
    "test_testing_faults",
    "test_client_producer",
    "test_sasl_clients",
    "test_transactions",
    "test_consumer",
    "test_mirror",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(LONG)))
