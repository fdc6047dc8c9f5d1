"""Invariants that run: how a state that must not exist ends what would build upon it.

A file's head says what always holds. The transition that changes it checks that, and raises
`BrokenInvariant` with the facts in its text if it does not hold. No input may lead there: bad
requests are answered with error codes, bad files are mended or refused by loading and recovery.

- Cheap checks, of a few numbers, are always on, under `python -O` too: they are an `if` and a
  `raise`, not an `assert`.
- Dear ones, which walk over what is kept, run where `THOROUGH` is True: the environment has
  `PYBROKER_INVARIANTS=all`. Our tests set it, and so do the broker processes that they start.

What a broken invariant ends: docs/decisions/invariants.md.
"""

from __future__ import annotations

import os

VARIABLE = "PYBROKER_INVARIANTS"
# Read as `invariants.THOROUGH`, by whoever has a dear check.
THOROUGH: bool = os.environ.get(VARIABLE) == "all"


class BrokenInvariant(AssertionError):
    """A state that the broker shares is wrong: it ends, rather than build upon that."""


class BrokenConnection(AssertionError):
    """The state of one connection is wrong: it is closed, and others live."""
