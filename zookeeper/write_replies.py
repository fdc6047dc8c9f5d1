"""The bodies of replies to writes, made of their transactions and of the nodes right after them.

Mirrors the part of `FinalRequestProcessor` that answers create, setData and multi.
"""

from collections.abc import Sequence

from ..protocol.zookeeper.constants import Op
from ..protocol.zookeeper.jute import Create2Response, PathResponse, Stat, StatResponse
from .transactions import Body, CreateTxn, ErrorTxn


def result_of(op: int, txn: Body, stat: Stat | None) -> list[object]:
    """The body of the reply to one write: its node as it was right after it."""
    if op == Op.CREATE:
        assert isinstance(txn, CreateTxn)
        return [PathResponse(txn.path)]
    if stat is None:
        return []
    return [Create2Response(txn.path, stat) if isinstance(txn, CreateTxn) else StatResponse(stat)]


def has_failed(parts: Sequence[tuple[Op, Body]]) -> bool:
    return any(op is Op.ERROR for op, _ in parts)


def multi_results(
    parts: Sequence[tuple[Op, Body]], stats: Sequence[Stat | None]
) -> list[tuple[int, list[object], int]]:
    """The type, body and error of each part in the reply to a multi."""
    results: list[tuple[int, list[object], int]] = []
    for index, (op, part) in enumerate(parts):
        if isinstance(part, ErrorTxn):
            results.append((Op.ERROR, [], part.code))
        else:
            is_create2 = op in (Op.CREATE_CONTAINER, Op.CREATE_TTL)
            body = result_of(op, part, stats[index])
            results.append((Op.CREATE2 if is_create2 else op, body, 0))
    return results
