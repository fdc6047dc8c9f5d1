"""The garbage collector, kept from holding the event loop.

Almost everything dies by its reference count; the collector only has to find cycles. Objects of the
start-up are frozen, young objects are scanned a few thousand at a time, and the pass over all
objects, which takes longer the more there are, runs when it is due and no large request is under
way: it would scan the hundred thousands of objects of such a request in vain.
"""

from __future__ import annotations

import gc
from collections.abc import Sized

import trio

# A collection of the youngest, and of those that have outlived so many of them, takes a few
# milliseconds; with ten it took up to 20, beside hundreds of requests that wait. Full ones are ours
# to call.
YOUNG_OBJECTS = 2_000
YOUNG_COLLECTIONS = 2
NEVER = 1_000_000_000

FULL_COLLECTION_SECONDS = 60.0
BUSY_POLL_SECONDS = 1.0
MAX_BUSY_POLLS = 300


def freeze_startup() -> None:
    """Freeze the objects of the start-up, which live as long as the broker: they are not scanned.

    Without a collection first: the little garbage of a start is not worth a full pass over it.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)


async def collect_now_and_then(turns: Sized) -> None:
    """Find old cycles, for ever; large requests under way are in `turns`."""
    while True:
        await trio.sleep(FULL_COLLECTION_SECONDS)
        for _ in range(MAX_BUSY_POLLS):
            if not len(turns):
                break
            await trio.sleep(BUSY_POLL_SECONDS)
        gc.collect()
