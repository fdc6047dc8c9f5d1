"""Groups of Kafka Streams applications: the coordinator assigns tasks (KIP-1071).

    heartbeats.py             members come, say what they have, and go
    requests.py               a heartbeat, and why it is refused
    streams_group.py          one group's state, changed by nothing but its changes (`changes.py`)
    records.py                changes as records of `__consumer_offsets`, and back
    topology.py               the application's topology, as its first member sent it
    topic_configuration.py    the number of its tasks, and the internal topics that it lacks
    sticky_task_assignor.py   who should have which tasks
    reconciliation.py         how one member gets there, step by step
    endpoints.py              the partitions behind the endpoint of each member
    commits.py                who may commit and fetch offsets
    describing.py             the answer about one group

How changes get to the log, and the timers of members, are those of consumer groups.

Mirrors Kafka 4.3's GroupMetadataManager (its streams half) and package streams. As there, warm-up
tasks are not assigned yet, and static members, task offsets, regular expressions as sources and
another topology for a group that has one are refused.
"""
