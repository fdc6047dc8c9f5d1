"""Tests that patch classes which may be compiled, or put doubles in their place: then in vain."""

import pytest

from pybroker_kafka.compiled import REQUEST_PATH, is_compiled

needs_sources = pytest.mark.skipif(
    is_compiled(REQUEST_PATH), reason="it changes what is compiled here"
)
