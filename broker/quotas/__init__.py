"""How much a client may ask for: limits by user, client id and address, and how long it is held.

All of it is pure: it takes the time, and says what is over a limit. Who mutes connections and
answers late is the network's; what is written in ZooKeeper is the cluster's.
"""
