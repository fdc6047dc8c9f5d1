"""Consumer groups of KIP-848: the coordinator assigns the partitions, each member follows.

    heartbeats.py            members come, say what they want and own, and go
    requests.py              a heartbeat, and why it is refused
    writing.py               changes on their way to the log, and the answers that wait for them
    sessions.py              the timers of members
    consumer_group.py        one group's state, changed by nothing but its changes (`changes.py`)
    records.py               changes as records of `__consumer_offsets`, and back
    target_assignment.py     who should own what, by an assignor
    reconciliation.py        how one member gets there, step by step
    uniform_*, range_*       the assignors
    metadata_hash.py         how a change of topics is noticed

A `Group` of the classic machine has the offsets of either kind; `Group.consumer` is the state of
the new kind, None for a classic group. A change is applied when it goes to the log and undone if it
does not get there, so that the state is always that of the log; its answer waits for the replicas.

Mirrors Kafka 4.3's GroupMetadataManager (its consumer half) and package modern.
"""
