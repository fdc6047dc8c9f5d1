"""Administration under asyncio.

    async with AsyncioAdmin("localhost:9092") as admin:
        await admin.topics.list()

It has the subjects of `Admin`, with the same methods; they run in the trio thread, with a `Cluster`
of its own. A cancelled call is cancelled there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..admin.admin import Admin
from ..cluster import Cluster
from .asyncio_calls import Hosted, result_of
from .host import Host
from .hosted_admin import Subject, subject_of

if TYPE_CHECKING:
    _Subjects = Admin  # for type checkers: methods of subjects are awaited here as there
else:
    _Subjects = object


class AsyncioAdmin(Hosted[Cluster], _Subjects):
    """`Admin` for asyncio: with the arguments of `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Cluster(bootstrap, **options))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Subject:
            return subject_of(self, self._host, result_of, name)
