"""Lines with figures, shown in every run; pytest-xdist's workers show them on stderr."""

from __future__ import annotations

import sys

import pytest


def report(config: pytest.Config, line: str) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        print(f"\n{line}", file=sys.stderr)
        return
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.stderr)
