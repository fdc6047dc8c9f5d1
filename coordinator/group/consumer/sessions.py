"""The timers of members: their sessions, and the time to give up partitions.

Each runs out in the coordinator (`heartbeats.py`), unless it is begun anew or stopped before.
"""

from ....protocol.timer_wheel import TimerWheel
from ..changing_group import ChangingGroup
from ..timers import Timer, TimerKind
from .consumer_group import ConsumerGroup


class Sessions:
    """The timers of all members."""

    __slots__ = ("_rebalance", "_session", "_timers")

    def __init__(
        self,
        timers: TimerWheel[Timer],
        session: TimerKind = TimerKind.CONSUMER_SESSION,
        rebalance: TimerKind = TimerKind.CONSUMER_REBALANCE,
    ) -> None:
        self._timers = timers
        self._session = session
        self._rebalance = rebalance

    def restart_session(
        self, group: ChangingGroup, member_id: str, now_ms: int, session_timeout_ms: int
    ) -> None:
        timer = group.session_timers.get(member_id)
        if timer is None:
            timer = Timer(self._session, group, member_id)
            group.session_timers[member_id] = timer
        self._timers.reschedule(timer, now_ms + session_timeout_ms)

    def stop_session(self, group: ChangingGroup, member_id: str) -> None:
        timer = group.session_timers.pop(member_id, None)
        if timer is not None:
            self._timers.cancel(timer)

    def start_rebalance(self, group: ChangingGroup, member_id: str, now_ms: int) -> None:
        self.stop_rebalance(group, member_id)
        member = group.members[member_id]
        timer = Timer(self._rebalance, group, member_id)
        group.rebalance_timers[member_id] = timer, member.progress.epoch
        self._timers.reschedule(timer, now_ms + member.metadata.rebalance_timeout_ms)

    def stop_rebalance(self, group: ChangingGroup, member_id: str) -> None:
        timer, _ = group.rebalance_timers.pop(member_id, (None, 0))
        if timer is not None:
            self._timers.cancel(timer)

    def start(
        self, group: ConsumerGroup, member_id: str, kind: TimerKind, deadline_ms: int
    ) -> None:
        """Until a classic member has to join, or to sync."""
        timer = group.classic_timers.get((member_id, kind))
        if timer is None:
            timer = group.classic_timers[member_id, kind] = Timer(kind, group, member_id)
        self._timers.reschedule(timer, deadline_ms)

    def stop(self, group: ConsumerGroup, member_id: str, kind: TimerKind) -> None:
        timer = group.classic_timers.pop((member_id, kind), None)
        if timer is not None:
            self._timers.cancel(timer)

    def stop_all(self, group: ConsumerGroup, member_id: str) -> None:
        """All timers of a member that is removed."""
        self.stop_session(group, member_id)
        self.stop_rebalance(group, member_id)
        self.stop(group, member_id, TimerKind.CONSUMER_JOIN)
        self.stop(group, member_id, TimerKind.CONSUMER_SYNC)

    def stop_timers(self, group: ChangingGroup | None) -> None:
        if group is not None:
            for member_id in list(group.session_timers):
                self.stop_session(group, member_id)
            for member_id in list(group.rebalance_timers):
                self.stop_rebalance(group, member_id)
        if isinstance(group, ConsumerGroup):
            for member_id, kind in list(group.classic_timers):
                self.stop(group, member_id, kind)
