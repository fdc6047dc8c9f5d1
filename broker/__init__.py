"""The broker: what runs, over the machines of `replication`, `coordinator` and `storage`.

`server` is one broker's life, `assembly` builds its parts. The rooms, each of which imports only
those below it:

- `cli`: the commands;
- `testkit`: clusters for tests, and what harms them; `pybroker_kafka.testing` is its front;
- `local`: a cluster on one machine: supervisor, nodes, what they leave in the data directory;
- `cleaner`: the log cleaner's tasks and its processes;
- `handlers`: what is answered, API by API (docs/APIS.md);
- `coordinators`: drivers of the group and transaction coordinators, and what they ask of others;
- `replicas`: drivers of the replica manager, fetchers, moves between directories, ISR changes;
- `cluster`: ZooKeeper, registration, configs, the controller and the way to it;
- `network`: from sockets to requests and back;
- `config`: the keys of server.properties;
- `observability`: metrics and log lines; `zookeeper`: the embedded one;
- `resources`: what the process has of its machine: descriptors, memory, what the system tells.
"""
