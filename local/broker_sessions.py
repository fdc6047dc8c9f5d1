"""The ZooKeeper sessions of dead brokers, closed at once by the supervisor.

The supervisor is certain of a death that others can only suspect: it closes the session of a dead
broker, so that the controller is notified then, and not when the session has expired. While
ZooKeeper does not answer it tries again, twice a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from .cluster_spec import HOST, ClusterSpec
from .cluster_state import ClusterError, ClusterState, NodeStatus
from .node_child import NodeChild, zookeepers_among
from .zookeeper_credentials import zookeeper_credentials

SESSION_RETRY_SECONDS = 0.1  # while ZooKeeper does not answer: an ensemble elects in 0.2 s


class BrokerSessions:
    def __init__(
        self,
        spec: ClusterSpec,
        state: ClusterState,
        children: Sequence[NodeChild],  # the supervisor's, as they are at each call
        report: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._state = state
        self._children = children
        self._report = report
        self._next_close = 0.0  # when sessions may be closed again, after a failure

    def close(self, dead_broker_ids: Collection[int]) -> str:
        """Close the ZooKeeper sessions of our dead brokers. Returns the problem, or ""."""
        from ..broker.zk.dead_sessions import (
            CannotClose,
            close_sessions,
            passwords,
            remembered_sessions,
        )
        from ..broker.zookeeper.storage import SECRET_FILE

        spec = self._spec
        connect = self._zookeepers_that_run() or self._state.zookeeper_connect
        secret = None
        if spec.zookeeper_connect is None:
            secret = spec.zookeepers()[0][2] / SECRET_FILE
        log_dirs = [
            log_dir for broker_id in dead_broker_ids for log_dir in spec.log_dirs_of(broker_id)
        ]
        try:
            credentials = zookeeper_credentials(spec.zookeeper_credentials)
            close_sessions(
                connect,
                dead_broker_ids,
                passwords(log_dirs, secret, credentials),
                remembered_sessions(log_dirs),
                credentials=credentials,
            )
        except (CannotClose, ClusterError) as error:
            return str(error)
        return ""

    def close_open(self) -> None:
        """Close the sessions of dead brokers; retries for as long as ZooKeeper does not answer."""
        dead = [child for child in self._children if child.has_open_session]
        if not dead or time.monotonic() < self._next_close or not self.may_be_closed:
            return
        problem = self.close([child.state.node_id for child in dead])
        if problem:
            if not self._next_close:
                self._report(f"{problem}; the sessions of dead brokers stay open meanwhile")
            self._next_close = time.monotonic() + SESSION_RETRY_SECONDS
            return
        self._next_close = 0.0
        for child in dead:
            child.has_open_session = False

    @property
    def may_be_closed(self) -> bool:
        """Whether a ZooKeeper may answer."""
        return self._state.zookeeper_may_answer

    def _zookeepers_that_run(self) -> str:
        """Connect string of our own that neither are paused nor have ended."""
        return ",".join(
            f"{HOST}:{child.state.port}"
            for child in zookeepers_among(self._children)
            if child.state.status is NodeStatus.RUNNING
        )
