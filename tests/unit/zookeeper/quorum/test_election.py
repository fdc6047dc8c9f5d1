"""The election: rounds, better votes, late joiners, observers."""

from pybroker_kafka.zookeeper.quorum.election import FINALIZE_MS, RESEND_MS, Election
from pybroker_kafka.zookeeper.quorum.election_messages import (
    Notification,
    PeerState,
    decode_notification,
)

VOTERS = frozenset({1, 2, 3})


def looking(leader: int, zxid: int, number: int = 1, epoch: int = 0) -> Notification:
    return Notification(PeerState.LOOKING, leader, zxid, number, epoch)


def started(my_id: int, zxid: int = 0, epoch: int = 0, *, is_observer: bool = False) -> Election:
    election = Election(my_id, VOTERS, is_observer=is_observer)
    election.start(zxid, epoch, 0)
    return election


def sent(election: Election) -> list[tuple[int, Notification]]:
    return [(to, decode_notification(data[4:])) for to, data in election.take_outgoing()]


def test_a_vote_for_oneself_goes_to_all_others() -> None:
    election = started(2, 7, 1)
    assert sent(election) == [(1, looking(2, 7, 1, 1)), (3, looking(2, 7, 1, 1))]


def test_the_higher_epoch_zxid_and_number_win_in_this_order() -> None:
    for better in (looking(1, 5, epoch=2), looking(1, 8, epoch=1), looking(3, 7, epoch=1)):
        election = started(2, 7, 1)
        election.take_outgoing()
        election.receive(better.leader, better, 1)
        assert [vote.leader for _, vote in sent(election)] == [better.leader] * 2
    election = started(2, 7, 1)
    election.take_outgoing()
    election.receive(1, looking(1, 6, epoch=1), 1)
    assert sent(election) == [(1, looking(2, 7, 1, 1))]
    election.receive(1, looking(2, 7, epoch=1), 1)
    assert sent(election) == []


def test_all_voters_decide_at_once_and_a_quorum_after_a_pause() -> None:
    election = started(3, 7)
    election.receive(1, looking(3, 7), 10)
    assert election.decided is None
    assert election.next_deadline_ms() == 10 + FINALIZE_MS
    election.tick(10 + FINALIZE_MS)
    assert election.state is PeerState.LEADING
    election = started(3, 7)
    election.receive(1, looking(3, 7), 10)
    election.receive(2, looking(3, 7), 11)
    assert election.decided is not None
    assert election.decided.leader == 3


def test_a_quorum_waits_for_no_voter_whose_process_is_gone() -> None:
    for refused_first in (True, False):
        election = started(2, 7)
        if refused_first:
            election.refused(3, 9)
        election.receive(1, looking(2, 7), 10)
        assert (election.decided is not None) == refused_first
        election.refused(3, 11)
        assert election.state is PeerState.LEADING


def test_a_voter_that_is_back_is_waited_for() -> None:
    election = started(2, 7)
    election.refused(3, 9)
    election.receive(3, looking(3, 1), 10)
    election.receive(1, looking(2, 7), 11)
    assert election.decided is None
    election.receive(3, looking(2, 7), 12)
    assert election.state is PeerState.LEADING


def test_a_leader_whose_process_is_gone_may_come_back_in_the_pause() -> None:
    election = started(1, 7)
    election.receive(3, looking(3, 9), 10)
    election.refused(3, 11)
    election.receive(2, looking(3, 9), 12)
    assert election.decided is None
    assert election.next_deadline_ms() == 10 + FINALIZE_MS


def test_a_vote_is_sent_again_when_its_connection_has_ended_once_in_an_election() -> None:
    election = started(2, 7)
    election.take_outgoing()
    election.disconnected(3)
    assert sent(election) == [(3, looking(2, 7))]
    election.disconnected(3)
    election.disconnected(4)
    assert sent(election) == []
    election.pause()
    election.refused(3, 1)
    election.disconnected(1)
    assert sent(election) == []
    election.start(7, 0, 5)
    election.take_outgoing()
    election.disconnected(3)
    assert sent(election) == [(3, looking(2, 7, 2))]


def test_a_better_vote_in_the_pause_is_taken() -> None:
    election = started(2, 7)
    election.receive(1, looking(2, 7), 10)
    election.receive(3, looking(3, 9), 20)
    election.tick(10 + FINALIZE_MS)
    assert election.decided is None
    election.receive(1, looking(3, 9), 30)
    assert election.decided is not None
    assert election.state is PeerState.FOLLOWING
    assert election.decided.leader == 3


def test_a_higher_round_is_joined_and_a_lower_one_told() -> None:
    election = started(2, 7)
    election.take_outgoing()
    election.receive(1, looking(1, 3, number=4), 10)
    assert election.round == 4
    assert all(vote.round == 4 and vote.leader == 2 for _, vote in sent(election))
    election.receive(3, looking(3, 1, number=2), 10)
    assert sent(election) == [(3, looking(2, 7, 4))]


def test_votes_are_repeated_with_growing_pauses() -> None:
    election = started(1, 7)
    election.take_outgoing()
    election.tick(RESEND_MS - 1)
    assert sent(election) == []
    election.tick(RESEND_MS)
    assert len(sent(election)) == 2
    assert election.next_deadline_ms() == 3 * RESEND_MS


def test_a_late_one_follows_only_a_leader_that_leads() -> None:
    election = started(1, 0)
    election.receive(2, Notification(PeerState.FOLLOWING, 3, 9, 5, 2), 10)
    assert election.decided is None
    election.receive(3, Notification(PeerState.LEADING, 3, 9, 5, 2), 10)
    assert election.decided is not None
    assert election.decided.leader == 3
    assert election.round == 5
    alone = started(1, 0)
    alone.receive(2, Notification(PeerState.FOLLOWING, 3, 9, 5, 2), 10)
    alone.receive(3, Notification(PeerState.FOLLOWING, 3, 9, 5, 2), 10)
    assert alone.decided is None  # the leader itself does not say so


def test_others_that_still_follow_us_do_not_make_us_lead() -> None:
    election = started(3, 9)
    election.receive(1, Notification(PeerState.FOLLOWING, 3, 9, 5, 2), 10)
    election.receive(2, Notification(PeerState.FOLLOWING, 3, 9, 5, 2), 10)
    assert election.decided is None


def test_one_that_is_not_looking_tells_its_leader() -> None:
    election = started(3, 7)
    election.receive(1, looking(3, 7), 1)
    election.receive(2, looking(3, 7), 1)
    election.established(4)
    election.take_outgoing()
    election.receive(2, looking(2, 0, number=9), 20)
    [(receiver, told)] = sent(election)
    assert (receiver, told.state, told.leader, told.peer_epoch) == (2, PeerState.LEADING, 3, 4)
    election.receive(2, Notification(PeerState.FOLLOWING, 3, 7, 1, 4), 20)
    assert sent(election) == []


def test_an_observer_learns_and_is_answered_but_does_not_count() -> None:
    observer = started(4, 99, 9, is_observer=True)
    assert all(vote.leader < 0 for _, vote in sent(observer))
    observer.receive(1, looking(3, 7), 1)
    assert observer.decided is None
    observer.receive(3, looking(3, 7), 1)
    observer.receive(2, looking(3, 7), 1)
    assert observer.state is PeerState.OBSERVING
    voter = started(2, 7)
    voter.take_outgoing()
    voter.receive(4, looking(-(1 << 63), -(1 << 63)), 1)
    assert [to for to, _ in sent(voter)] == [4]
    assert voter.decided is None


def test_one_voter_alone_leads_at_once() -> None:
    election = Election(1, frozenset({1}), is_observer=False)
    election.start(0, 0, 0)
    assert election.state is PeerState.LEADING
