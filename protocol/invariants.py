"""Invariants that run: a state that must not exist ends the work that would build upon it.

A file's head states its invariants. Each transition that changes the state checks them, and raises
`BrokenInvariant` with the facts in its text if one does not hold. No input may cause that: bad
requests are answered with error codes, bad files are repaired or refused by loading and recovery.

- Cheap checks, of a few numbers, are always on, under `python -O` too: they are an `if` and a
  `raise`, not an `assert`.
- Expensive checks, which walk over the whole state, run if `THOROUGH` is True: the environment has
  `PYBROKER_INVARIANTS=all`. Our tests set it, and so do the broker processes that they start.

The effect of a broken invariant: docs/decisions/invariants.md.
"""

from __future__ import annotations

import os

VARIABLE = "PYBROKER_INVARIANTS"
# Expensive checks read it as `invariants.THOROUGH`.
THOROUGH: bool = os.environ.get(VARIABLE) == "all"


class BrokenInvariant(AssertionError):
    """A state that the broker shares is wrong: it ends, rather than build upon that."""


class BrokenConnection(AssertionError):
    """The state of one connection is wrong: it is closed, and others live."""
