"""Topics as tables of Iceberg and Delta: a process beside a broker writes them.

The broker that leads partition 0 of a topic has its process (`worker`) keep the topic's table. It
reads all partitions as a client, committed records only, makes columns of them, and commits rows
together with the offsets up to which they go. So the table itself says where to continue, and two
processes that both believe that the topic is theirs cannot both commit: the format refuses the
second. Needs `pip install 'pybroker-kafka[tables]'`.
"""
