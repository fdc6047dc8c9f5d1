"""The batches of aborted transactions, which a committed read leaves out.

Mirrors: the aborted transactions of `CompletedFetch` in the Java client. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..protocol.apis.fetch import AbortedTransaction
from ..protocol.primitives import Buffer
from ..protocol.records.batch import iter_batch_headers


def aborted_places(data: Buffer, aborted: Iterable[AbortedTransaction]) -> set[int]:
    """The places in these batches where those begin that a committed read leaves out.

    A producer's aborted transaction goes from its first offset to the producer's next marker.
    """
    starts = sorted((one.first_offset, one.producer_id) for one in aborted)
    open_producers: set[int] = set()
    places: set[int] = set()
    for place, header in iter_batch_headers(data):
        while starts and starts[0][0] <= header.last_offset:
            open_producers.add(starts.pop(0)[1])
        if header.is_control:
            open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            places.add(place)
    return places
