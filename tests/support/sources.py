"""Tests that patch classes which may be compiled, or put doubles in their place: then in vain."""

import pytest

from pybroker.compiled import is_request_path_compiled

needs_sources = pytest.mark.skipif(
    is_request_path_compiled(), reason="it changes what is compiled here"
)
