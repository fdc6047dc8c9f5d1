"""Authentication and authorization: the parts that listeners, handlers and commands use.

Knows nothing of sockets, ZooKeeper or requests; its drivers are in `network`, `cluster` and
`handlers`.
"""
