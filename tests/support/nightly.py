"""Which cases of a test run in `make test`, and which in `make nightly` alone.

Job: `make test` runs each promise once, to stay short; a case that has a sibling there
and takes long is marked `nightly`. A test that is nightly as a whole has the mark itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def chosen(values: Iterable[Any], in_every_run: Container[Any]) -> list[Any]:
    """The values as parameters of a test; those that are not in every run are nightly."""
    return [value if value in in_every_run else nightly(value) for value in values]


def nightly(*values: Any) -> Any:
    """The values of one case of a test, which is nightly."""
    return pytest.param(*values, marks=pytest.mark.nightly)
