"""Changes of a group on their way to the log, and the answers that wait for them.

An edit is applied as it is made. `Writer.commit` writes it as one batch; if that does not get into
the log the edit is undone, and if it is in the log but not replicated in time its changes stand.
Then no request is answered from them until a later record of the group is replicated.

Mirrors CoordinatorRuntime's handling of a write, for which Kafka has snapshots of all state.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from ....protocol.errors import ErrorCode
from ...append_errors import IN_THE_LOG, store_error
from ..changing_group import ChangingGroup
from ..core import Core, Effect
from ..group import Group
from ..rebalance import Rebalance
from ..records import group_metadata_key
from .changes import SetMember, SetProgress, SetTarget
from .consumer_group import ConsumerGroup
from .sessions import Sessions

logger = logging.getLogger("pybroker.coordinator.group.consumer")

GroupT = TypeVar("GroupT", bound=ChangingGroup)

# The response of an error, for a request that waits; None: that of the group's own heartbeats.
Failed = Callable[[ErrorCode], Any]


class GroupEdit(Generic[GroupT]):
    """Changes of one group that go to the log together, each applied at once."""

    __slots__ = ("changes", "group", "undo")

    def __init__(self, group: GroupT) -> None:
        self.group = group
        self.changes: list[Any] = []  # of its kind of groups
        self.undo: list[Any] = []

    def apply(self, change: Any) -> None:
        self.undo.append(self.group.apply(change))
        self.changes.append(change)

    def take_back(self) -> None:
        for change in self.undo[::-1]:
            self.group.apply(change)
        if self.changes:
            self.group.forget_what_was_seen()

    def remove(self, member_id: str) -> None:
        self.apply(SetProgress(member_id, None))
        self.apply(SetTarget(member_id, None))
        self.apply(SetMember(member_id, None))


Edit = GroupEdit[ConsumerGroup]


class Writer:
    """Writes the edits of all groups of one kind."""

    __slots__ = ("_after", "_core", "_rebalance", "_sessions", "_waiting", "on_lost")

    def __init__(self, core: Core, sessions: Sessions, rebalance: Rebalance) -> None:
        self._core = core
        self._sessions = sessions
        self._rebalance = rebalance
        # Called with a group, after changes of it were undone.
        self.on_lost: Callable[[Any, int], None] = lambda group, now_ms: None
        # By the id of an append: what comes after it, and the answers that wait for it.
        self._after: dict[int, Effect] = {}
        self._waiting: dict[int, list[tuple[object, Any, Failed]]] = {}

    def commit(
        self,
        edit: GroupEdit[Any],
        now_ms: int,
        token: object = None,
        response: object = None,
        failed: Failed | None = None,
        after: Effect | None = None,
    ) -> None:
        """Write the changes, and answer when they are written; `after` that comes another effect,
        if they are."""
        group = edit.group
        if not edit.changes:
            if token is not None:
                self.answer(group, token, response, failed)
            return
        core, group_id = self._core, group.group_id
        records: list[tuple[bytes, bytes | None]] = []
        holder = core.groups.get(group_id)
        if holder is None:
            holder = core.create_group(group_id, now_ms)
        if holder.modern is None:
            if holder.generation_id > 0 or holder.members:
                records.append((group_metadata_key(group_id), None))
            self._rebalance.stop_classic(holder)
            holder.modern = group
        records += [group.record(change) for change in edit.changes]
        completion = partial(self._appended, holder, group)
        append_id = core.append_values(holder.partition, records, now_ms, completion)
        group.sent(append_id, edit.changes, edit.undo)
        self._waiting[append_id] = (
            [] if token is None else [(token, response, failed or group.refusal)]
        )
        if after is not None:
            self._after[append_id] = after

    def answer(
        self,
        group: ChangingGroup,
        token: object,
        response: object,
        failed: Failed | None = None,
    ) -> None:
        """Answer when the group's changes that are on their way are written."""
        append_id = group.last_append_id
        if append_id is None and group.is_unproven:
            append_id = self._prove(group)
        if append_id is None:
            self._core.reply(token, response)
        else:
            self._waiting[append_id].append((token, response, failed or group.refusal))

    def _prove(self, group: ChangingGroup) -> int:
        """Write the group's epoch again: with it, all that was written before is replicated."""
        core, holder = self._core, self._core.groups[group.group_id]
        records = [group.record(group.epoch_change)]
        completion = partial(self._appended, holder, group)
        append_id = core.append_values(holder.partition, records, group.unproven_ms, completion)
        group.sent(append_id, [], [])
        self._waiting[append_id] = []
        return append_id

    def _appended(
        self,
        holder: Group,
        group: ChangingGroup,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        waiting = self._waiting.pop(append_id)
        after = self._after.pop(append_id, None)
        is_current = self._core.is_current(holder) and holder.modern is group
        if error in IN_THE_LOG:
            group.stored(append_id)
            group.is_unproven = error is not ErrorCode.NONE
            group.unproven_ms = now_ms
            if is_current:
                holder.end_classic()
        else:
            logger.warning(
                "append %d of group %r failed: %s", append_id, group.group_id, error.name
            )
            group.lost(append_id)
            if is_current and not group.is_persisted:
                self._forget(holder, now_ms)
            elif is_current:
                self.on_lost(group, now_ms)
        answer_error = store_error(error)
        if error is ErrorCode.NONE and not is_current:
            answer_error = ErrorCode.NOT_COORDINATOR
        for token, response, failed in waiting:
            if answer_error is not ErrorCode.NONE:
                response = failed(answer_error)
            self._core.reply(token, response)
        if after is not None and answer_error is ErrorCode.NONE:
            self._core.emit(after)

    def _forget(self, holder: Group, now_ms: int) -> None:
        """A group whose first records did not get into the log: it is what it was before."""
        self._sessions.stop_timers(holder.modern)
        holder.modern = None
        self._rebalance.resume_classic(holder, now_ms)
        if holder.offsets.is_empty and holder.protocol_type is None:
            self._core.forget_group(holder)
