"""The election of a leader: votes go around until a quorum has the same one.

Mirrors `FastLeaderElection` of 3.9. A vote is a server with the epoch and zxid of its log; the
highest (epoch, zxid, id) wins, so that the winner has every committed transaction. Each election
has a number, its round; a member that sees a higher round joins it. A member that looks while the
others already follow learns the leader from their answers, but only from a quorum of them and from
the leader itself.

Rules and invariants:
- a vote of a quorum counts after FINALIZE_MS without a better vote, at once if it is the vote of
  all voters, but for those whose process is gone: no better one can come. ZooKeeper waits for the
  dead, too;
- a worse vote is answered with ours: its sender may have begun to look after it got ours. In
  ZooKeeper it waits until we repeat it;
- `decided` is set once in an election, and only while LOOKING;
- an observer has no vote of its own (its id and zxid are below all), it only learns.

Leaves out: weights, groups, the oracle of two members, and a change of members by notifications.
"""

from typing import NamedTuple

from .election_messages import Notification, PeerState, encode_notification

FINALIZE_MS = 200
RESEND_MS = 200
MAX_RESEND_MS = 1600  # ZooKeeper's is a minute
NOBODY = -(1 << 63)


class Vote(NamedTuple):
    """A server as leader, with the epoch and zxid of its log, in a round of the election."""

    leader: int
    zxid: int
    round: int
    peer_epoch: int
    state: PeerState = PeerState.LOOKING
    version: int = 2

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.peer_epoch, self.zxid, self.leader

    def agrees(self, other: "Vote") -> bool:
        """As `Vote.equals`: members that are not looking may report other zxids and rounds."""
        if PeerState.LOOKING in (self.state, other.state):
            return self[:4] == other[:4]
        if (self.version > 0) != (other.version > 0):
            return self.leader == other.leader
        return self.leader == other.leader and self.peer_epoch == other.peer_epoch


class Election:
    __slots__ = (
        "_config",
        "_final_at_ms",
        "_gone",
        "_my_id",
        "_outgoing",
        "_outside",
        "_own",
        "_proposal",
        "_received",
        "_repeated",
        "_resend_at_ms",
        "_resend_ms",
        "_voters",
        "decided",
        "is_observer",
        "round",
        "state",
        "vote",
    )

    def __init__(
        self, my_id: int, voters: frozenset[int], *, is_observer: bool, config: bytes = b""
    ) -> None:
        self._my_id = my_id
        self._voters = voters
        self.is_observer = is_observer
        self._config = config
        self.state = PeerState.LOOKING
        self.round = 0
        # The vote that we report while we do not look.
        self.vote = Vote(NOBODY, NOBODY, 0, NOBODY)
        self.decided: Vote | None = None
        self._own = self._proposal = self.vote
        self._received: dict[int, Vote] = {}
        self._outside: dict[int, Vote] = {}
        # Voters without a process, as far as this election has seen.
        self._gone: set[int] = set()
        # Those that got our vote again, because their connection had ended.
        self._repeated: set[int] = set()
        self._outgoing: list[tuple[int, bytes]] = []
        self._final_at_ms: int | None = None
        self._resend_at_ms: int | None = None
        self._resend_ms = RESEND_MS

    def start(self, zxid: int, current_epoch: int, now_ms: int) -> None:
        """Look for a leader: a new round, with a vote for ourselves."""
        self.state = PeerState.LOOKING
        self.decided = None
        self.round += 1
        self._received, self._outside = {}, {}
        self._gone, self._repeated = set(), set()
        self._final_at_ms = None
        self._resend_ms = RESEND_MS
        self._resend_at_ms = now_ms + self._resend_ms
        if self.is_observer:
            self._own = Vote(NOBODY, NOBODY, self.round, NOBODY)
        else:
            self._own = Vote(self._my_id, zxid, self.round, current_epoch)
        self._propose(self._own, now_ms)

    @property
    def is_paused(self) -> bool:
        """Whether no election runs until `start`."""
        return self.state is PeerState.LOOKING and self.next_deadline_ms() is None

    def pause(self) -> None:
        """The last election is over, the next one has not begun."""
        self.state = PeerState.LOOKING
        self.decided = None
        self._final_at_ms = self._resend_at_ms = None
        self._outgoing.clear()

    def established(self, epoch: int) -> None:
        """The ensemble is in sync in `epoch`: from now on all its members report the same vote."""
        self.vote = self.vote._replace(peer_epoch=epoch)

    def receive(self, sender: int, notification: Notification, now_ms: int) -> None:
        if sender not in self._voters:
            if notification.state is PeerState.LOOKING:
                is_looking = self.state is PeerState.LOOKING
                self._send(sender, self._proposal if is_looking else self.vote)
            return
        self._gone.discard(sender)
        if self.state is not PeerState.LOOKING:
            if notification.state is PeerState.LOOKING:
                self._send(sender, self.vote)
            return
        if notification.leader in self._voters or notification.state is PeerState.LOOKING:
            self._consider(sender, notification, now_ms)
        is_looking = self.state is notification.state is PeerState.LOOKING
        if is_looking and not self.is_observer and self._is_worse(notification):
            self._send(sender, self._proposal)

    def refused(self, voter: int, now_ms: int) -> None:
        """Nothing listens at the election port of this voter."""
        if self.state is PeerState.LOOKING and not self.is_paused and voter in self._voters:
            self._gone.add(voter)
            self._count(now_ms)

    def disconnected(self, voter: int) -> None:
        """The connection with this voter has ended, and our last message to it may be lost: it is
        sent again, once in an election.
        """
        if self.state is not PeerState.LOOKING or self.is_paused or voter not in self._voters:
            return
        if voter not in self._repeated:
            self._repeated.add(voter)
            self._send(voter, self._proposal)

    def tick(self, now_ms: int) -> None:
        if self.state is not PeerState.LOOKING:
            return
        if self._final_at_ms is not None and self._final_at_ms <= now_ms:
            self._decide(self._proposal)
        elif self._resend_at_ms is not None and self._resend_at_ms <= now_ms:
            self._send_all()
            self._resend_ms = min(2 * self._resend_ms, MAX_RESEND_MS)
            self._resend_at_ms = now_ms + self._resend_ms

    def next_deadline_ms(self) -> int | None:
        if self.state is not PeerState.LOOKING:
            return None
        if self._final_at_ms is not None:
            return self._final_at_ms
        return self._resend_at_ms

    def take_outgoing(self) -> list[tuple[int, bytes]]:
        """Messages to send, by receiver; a later one replaces one that has not been sent."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    # Votes

    def _is_worse(self, other: Notification) -> bool:
        rank = other.peer_epoch, other.zxid, other.leader
        return (other.round, rank) < (self.round, self._proposal.rank)

    def _consider(self, sender: int, notification: Notification, now_ms: int) -> None:
        state, leader, zxid, number, peer_epoch, version, _ = notification
        vote = Vote(leader, zxid, number, peer_epoch)
        if state is PeerState.LOOKING:
            if leader not in self._voters or number < self.round:
                return
            if number > self.round:
                self.round = number
                self._received.clear()
                self._own = self._own._replace(round=number)
                better = vote if vote.rank > self._own.rank else self._own
                self._propose(better, now_ms)
            elif vote.rank > self._proposal.rank:
                self._propose(vote, now_ms)
            self._received[sender] = vote
            self._count(now_ms)
        elif state is not PeerState.OBSERVING:
            vote = vote._replace(state=state, version=version)
            if number == self.round:
                self._received[sender] = vote
                if self._is_led(self._received, vote):
                    self._decide(vote)
                    return
            self._outside[sender] = vote
            if self._is_led(self._outside, vote):
                self.round = number
                self._decide(vote)

    def _propose(self, vote: Vote, now_ms: int) -> None:
        self._proposal = vote._replace(round=self.round)
        if self._my_id in self._voters:
            self._received[self._my_id] = self._proposal
        self._final_at_ms = None
        self._send_all()
        self._count(now_ms)

    def _count(self, now_ms: int) -> None:
        """Whether a quorum has our proposal as its vote."""
        proposal = self._proposal
        voted = {voter for voter, vote in self._received.items() if vote.agrees(proposal)}
        if 2 * len(voted) <= len(self._voters):
            self._final_at_ms = None
        elif voted | self._gone == self._voters and proposal.leader not in self._gone:
            self._decide(proposal)
        elif self._final_at_ms is None:
            self._final_at_ms = now_ms + FINALIZE_MS

    def _supporters(self, votes: dict[int, Vote], vote: Vote) -> int:
        return sum(1 for other in votes.values() if other.agrees(vote))

    def _is_led(self, votes: dict[int, Vote], vote: Vote) -> bool:
        """Whether a quorum follows this leader, and it leads (not one that has crashed)."""
        if 2 * self._supporters(votes, vote) <= len(self._voters):
            return False
        if vote.leader == self._my_id:
            return vote.round == self.round
        leader = votes.get(vote.leader)
        return leader is not None and leader.state is PeerState.LEADING

    def _decide(self, vote: Vote) -> None:
        if vote.leader == self._my_id:
            self.state = PeerState.LEADING
        else:
            self.state = PeerState.OBSERVING if self.is_observer else PeerState.FOLLOWING
        self.vote = self.decided = vote._replace(state=PeerState.LOOKING)

    # Output

    def _send_all(self) -> None:
        for voter in sorted(self._voters):
            if voter != self._my_id:
                self._send(voter, self._proposal)

    def _send(self, receiver: int, vote: Vote) -> None:
        number = self.round if self.state is PeerState.LOOKING else vote.round
        notification = Notification(
            self.state, vote.leader, vote.zxid, number, vote.peer_epoch, config=self._config
        )
        self._outgoing.append((receiver, encode_notification(notification)))
