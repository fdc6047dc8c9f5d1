"""What brokers log about each other, and which of it is no defect.

Every line of WARN or worse in a broker's log must be explained by what the tests do to the cluster:
anything else is a request or an answer that the other kind does not like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FOUND_AT = re.compile(r"^\[[^]]*\] (WARN|WARNING|ERROR|FATAL|CRITICAL) (.*)|^(Traceback .*)")

# As Apache Kafka brokers say it.
EXPLAINED = [
    # Nodes are killed and stopped, and come back.
    r"Connection to node -?\d+ .* could not be established",
    r"Error in response for fetch request",
    r"Error in response for OffsetsForLeaderEpoch request",
    r"Error when sending leader epoch request",
    r"Broker had a stale broker epoch",
    r"Controller \d+'s connection to broker .* was unsuccessful",
    r"Controller \d+ (epoch \d+ )?fails to send (a )?request",
    r"Client session timed out",
    r"Session 0x\w+ for server",
    r"Unable to reconnect to ZooKeeper service",
    r"An exception was thrown while closing send thread",
    r"ControlledShutdownRequest|controlled shutdown",
    r"\[BrokerToControllerChannelManager .*disconnected|Disconnecting from node",
    # A new leader knows its epoch before its followers do, and has the topic before its id.
    r"marked as failed",
    r"Received UNKNOWN_TOPIC_ID from the leader",
    r"Received UNKNOWN_TOPIC_OR_PARTITION from the leader",
    # A follower may have heard of a higher watermark than the next leader, until that one has heard
    # from its followers. (Of a leader's own the audit makes sure that it does not go back.)
    r"Non-monotonic update of high watermark",
    # A new controller tells of a dead leader before it has elected another.
    r"cannot become follower since the new leader -1 is unavailable",
    # The tests take the controller's place away from it.
    r"Broker moved to another controller|ControllerMovedException|stale controller",
    # Fewer replicas than min.insync.replicas are in sync for a moment.
    r"NotEnoughReplicas|NOT_ENOUGH_REPLICAS",
    # A killed node is in sync until its session expires, which takes longer than a group waits.
    r"append \d+ of an assignment failed: REQUEST_TIMED_OUT",
    # What was in flight to a leader that is gone comes to the next in another order, which the
    # producer mends: the audit has the last word.
    r"Error processing append operation on partition",
    # As pybroker says it.
    r"ISR changes are not answered: no controller answered",
    r"cannot send \w+ to .*retrying until that broker is gone",
    r"Fetching from broker \d+: connection failed",
    r"Broker \d+ cannot verify transactions: connection failed",
    r"its leader epoch \d+ is over",
    # The only replica is on a node that was killed.
    r"no leader elected for [^ ]+: no eligible replica is alive",
]
_EXPLAINED = re.compile("|".join(EXPLAINED))
# On a machine that is too busy: what is under way then fails in many words, and is done again.
_SESSION_LOST = "has expired"


def unexplained(log: Sequence[str]) -> list[str]:
    if any(_SESSION_LOST in line for line in log):
        return []
    return [line for line in log if FOUND_AT.match(line) and not _EXPLAINED.search(line)]
