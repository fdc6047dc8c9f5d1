"""How many examples of a property are tried: all of them, or one in so many.

`make test` tries few of each property, to stay short, and `make properties` all: a run with
PYBROKER_ONE_EXAMPLE_IN=12 has a twelfth, but no fewer than FEWEST.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "PYBROKER_ONE_EXAMPLE_IN"
FEWEST: Final = 10


def of(examples: int) -> int:
    """The number of examples in this run, of those that there are."""
    return min(examples, max(examples // int(os.environ.get(VARIABLE, "1")), FEWEST))
