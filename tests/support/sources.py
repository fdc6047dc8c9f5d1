"""Tests whose doubles stand for classes that may be compiled, and then take no doubles."""

import pytest

from pybroker.compiled import is_request_path_compiled

needs_sources = pytest.mark.skipif(
    is_request_path_compiled(), reason="its doubles stand for classes that are compiled here"
)
