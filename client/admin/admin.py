"""All of administration behind one name.

`async with Cluster("host:9092") as cluster: await Admin(cluster).topics.list()`. The subjects have
the names of the command line: `pybroker groups describe` is `Admin(cluster).groups.describe`. A
method for several items returns `Results`: a value or an error for each item.
Mirrors: org.apache.kafka.clients.admin.Admin.
"""

from __future__ import annotations

from ..cluster import Cluster
from .acls import Acls
from .cluster_info import ClusterQueries
from .configs import Configs
from .group_offsets import GroupOffsets
from .groups import Groups
from .log_dirs import LogDirs
from .partitions import Partitions
from .quotas import Quotas
from .records import Records
from .tokens import Tokens
from .topics import Topics
from .transactions import Transactions
from .users import Users


class Admin:
    """The subjects of administration, over one `Cluster` that the caller opens and closes."""

    def __init__(self, cluster: Cluster) -> None:
        self.acls = Acls(cluster)
        self.cluster = ClusterQueries(cluster)
        self.configs = Configs(cluster)
        self.group_offsets = GroupOffsets(cluster)
        self.groups = Groups(cluster)
        self.log_dirs = LogDirs(cluster)
        self.partitions = Partitions(cluster)
        self.quotas = Quotas(cluster)
        self.records = Records(cluster)
        self.tokens = Tokens(cluster)
        self.topics = Topics(cluster)
        self.transactions = Transactions(cluster)
        self.users = Users(cluster)
