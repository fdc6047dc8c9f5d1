"""The state of share partitions, kept by share coordinators: the interface for leaders and groups.

Job: `Persister`. A leader reads the state of a share partition when it becomes its leader, and
writes each change before it answers; a group coordinator initializes, sums up and deletes states.
Requests and answers are those of the wire: the answer has each partition of the request, with a
code of its own. Invariants: a call returns, in the end, and raises nothing but cancellation: each
failure is a code; only errors that may go away are tried again, as long as
`PersisterStateManager` does.

Mirrors: org.apache.kafka.server.share.persister.Persister.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...protocol.apis.delete_share_group_state import (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
    )
    from ...protocol.apis.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from ...protocol.apis.read_share_group_state import (
        ReadShareGroupStateRequest,
        ReadShareGroupStateResponse,
    )
    from ...protocol.apis.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
    )
    from ...protocol.apis.write_share_group_state import (
        WriteShareGroupStateRequest,
        WriteShareGroupStateResponse,
    )


class Persister(ABC):
    @abstractmethod
    async def initialize_state(
        self, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        """Begin a state: its epoch, and the offset at which delivery starts."""

    @abstractmethod
    async def read_state(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """The state, for the leader of `leader_epoch`, which fences earlier leaders."""

    @abstractmethod
    async def write_state(
        self, request: WriteShareGroupStateRequest
    ) -> WriteShareGroupStateResponse:
        """Change the state by the batches; a start offset of -1 changes none."""

    @abstractmethod
    async def delete_state(
        self, request: DeleteShareGroupStateRequest
    ) -> DeleteShareGroupStateResponse:
        """Forget the state."""

    @abstractmethod
    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest
    ) -> ReadShareGroupStateSummaryResponse:
        """The state without its batches."""
