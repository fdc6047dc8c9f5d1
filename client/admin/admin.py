"""All of administration behind one name.

`async with Cluster("host:9092") as cluster: await Admin(cluster).topics.list()`. The subjects have
the names of the command line: `pybroker groups describe` is `Admin(cluster).groups.describe`. A
method for several items returns `Results`: a value or an error for each item.
Mirrors: org.apache.kafka.clients.admin.Admin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ..cluster import Cluster

if TYPE_CHECKING:
    from .acls import Acls
    from .cluster_info import ClusterQueries
    from .configs import Configs
    from .group_offsets import GroupOffsets
    from .groups import Groups
    from .log_dirs import LogDirs
    from .partitions import Partitions
    from .quotas import Quotas
    from .records import Records
    from .share_groups import ShareGroups
    from .tables import Tables
    from .tokens import Tokens
    from .topics import Topics
    from .transactions import Transactions
    from .users import Users

_OTHER_MODULES: Final = {"cluster": "cluster_info"}  # a subject's module has its name, but here


class Admin:
    """The subjects of administration, over one `Cluster` that the caller opens and closes.

    A subject is imported at its first use: each needs messages of its own, and a command one
    subject.
    """

    acls: Acls
    cluster: ClusterQueries
    configs: Configs
    group_offsets: GroupOffsets
    groups: Groups
    log_dirs: LogDirs
    partitions: Partitions
    quotas: Quotas
    records: Records
    share_groups: ShareGroups
    tables: Tables
    tokens: Tokens
    topics: Topics
    transactions: Transactions
    users: Users

    def __init__(self, cluster: Cluster) -> None:
        self.client = cluster

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            kind = Admin.__annotations__.get(name)
            if kind is None:
                raise AttributeError(name)
            module = import_module(f".{_OTHER_MODULES.get(name, name)}", __package__)
            subject = getattr(module, kind)(self.client)
            setattr(self, name, subject)
            return subject
