"""The garbage collector, kept from holding the event loop.

Almost everything dies by its reference count; the collector only has to find cycles. Young objects
are scanned a few thousand at a time, twice. Objects that outlive this are frozen: they are not
scanned again until there are twice as many as after the last pass over all of them. A pass takes
longer the more objects there are (0.1 s for 2,000 partitions). So there is at most as much garbage
among the frozen objects as there were objects after the last pass; measured beside clients that
come, produce and leave, and topics that are made and deleted, there was none. No pass begins while
a large request is under way: it would scan the hundred thousands of objects of such a request in
vain.
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
OLD = 2  # the generation of what has outlived them

FREEZE_SECONDS = 60.0
BUSY_POLL_SECONDS = 1.0
MAX_BUSY_POLLS = 300


def freeze_startup() -> None:
    """Freeze the objects of the start-up, which live as long as the broker: they are not scanned.

    Without a collection first: the little garbage of a start is not worth a full pass over it.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)


async def freeze_now_and_then(turns: Sized) -> None:
    """Freeze old objects, and find cycles in them once they have doubled, for ever; large requests
    under way are in `turns`."""
    after_last_pass, since = gc.get_freeze_count(), 0
    while True:
        await trio.sleep(FREEZE_SECONDS)
        for _ in range(MAX_BUSY_POLLS):
            if not len(turns):
                break
            await trio.sleep(BUSY_POLL_SECONDS)
        since += len(gc.get_objects(generation=OLD))
        gc.freeze()
        if since > after_last_pass:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            after_last_pass, since = gc.get_freeze_count(), 0
