"""Who a client is and what it may do: what listeners, handlers and commands know of security.

Knows nothing of sockets, ZooKeeper or requests; those who drive it are in `network`, `cluster` and
`handlers`.
"""
