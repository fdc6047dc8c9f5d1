"""Log compaction: the last record of each key stays.

`manager` chooses what to clean and puts the result in place, on the broker's loop. `cleaner` does
the heavy work on files alone (with `offset_map`, `batches`, `transactions`), so that it can run in
a process of its own. `plan` has the data that the two exchange.
"""
