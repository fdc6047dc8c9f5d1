"""Views of a broker's internal state, beyond the protocol and the metrics: for the console.

| module | contents |
|---|---|
| `waiting` | the operations in the purgatories, and the groups that wait for members |
| `partition_files` | a partition's segments, and the next ones for retention and the cleaner |
| `look_up` | an offset or a timestamp, looked up step by step |
| `replication` | this broker's replica of a partition: a leader with its followers, or a follower |
| `clients` | the connected clients, and the metrics that they push |
| `in_flight` | the records in flight of a share group, with locks and delivery counts |
| `znodes` | ZooKeeper's tree, without secrets |
| `views` | the questions of the metrics port, `/inside/...`, and their answers as JSON |

Invariants: nothing here changes anything. An answer has a bounded number of entries and takes no
longer than a small fetch.
"""
