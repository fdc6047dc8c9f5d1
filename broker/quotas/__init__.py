"""The quotas of clients: limits by user, client id and address, and the throttle times over them.

All of it is pure: it takes the time, and reports what is over a limit. `network` mutes connections
and delays answers; `zk` reads the quotas from ZooKeeper.
"""
