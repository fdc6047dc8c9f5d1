"""The nodes of a test's cluster as its test reaches them: state, commands, controls, the network.

Invariant: a failed action is a ClusterError, and a successful one is in the story.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..local import cluster_state
from ..local.cluster_state import ClusterError, ClusterState

if TYPE_CHECKING:
    from .story import Story

ANSWER_SECONDS = 30.0
HISTORY_SECONDS = 1.0


class Members:
    """`data_dir` is asked each time: it raises ClusterError if the cluster does not run."""

    def __init__(self, data_dir: Callable[[], Path], story: Story) -> None:
        self._data_dir = data_dir
        self._story = story

    def state(self) -> ClusterState:
        """The state that the supervisor has written."""
        return cluster_state.load(self._data_dir())

    def running(self) -> set[int]:
        """The brokers that do."""
        return {
            node.node_id
            for node in self.state().brokers
            if node.status == cluster_state.NodeStatus.RUNNING
        }

    def command(self, command: str, node: int | str) -> None:
        """Kill, pause, restart and so on, as `pybroker kill` does it."""
        from ..local.cluster_control import command_node

        told = command_node(self._data_dir(), command, str(node))
        self._story.tell(f"{command} {node}: {told}")

    def tell(self, broker: int | None, **request: Any) -> dict[int, Any]:
        """Have the controls of a broker, or of all that run, do something; their answers."""
        answers = {}
        for number in sorted(self.running()):
            if broker in (None, number):
                try:
                    answers[number] = self._ask_controls(number, ANSWER_SECONDS, request)
                except (OSError, RuntimeError) as error:
                    raise ClusterError(f"broker {number}: {error}") from error
        if broker is not None and not answers:
            raise ClusterError(f"broker {broker} does not run")
        return answers

    def tell_any(self, **request: Any) -> Any:
        """Have the controls of one broker that runs do something; its answer."""
        running = self.running()
        if not running:
            raise ClusterError("no broker runs")
        number = min(running)
        return self.tell(number, **request)[number]

    def ask_network(self, **request: Any) -> Any:
        """Ask the proxy, if there is one."""
        from .controls import ask_controls
        from .network_proxy import proxy_socket

        try:
            done = ask_controls(proxy_socket(self._data_dir()), ANSWER_SECONDS, **request)
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"the network: {error}") from error
        if request["do"] != "bootstrap":
            self._story.tell("network: " + " ".join(map(str, request.values())))
        return done

    def remember(self) -> None:
        """Add the changes that the answering brokers saw to the story."""
        from .history import from_answers

        answers = []
        for number in sorted(self.running()):
            try:
                answers.append(self._ask_controls(number, HISTORY_SECONDS, {"do": "history"}))
            except (OSError, RuntimeError):  # paused, or dying
                continue
        self._story.add(from_answers(answers))

    def _ask_controls(self, broker: int, seconds: float, request: dict[str, Any]) -> Any:
        from .controls import ask_controls
        from .node_controls import controls_socket

        return ask_controls(controls_socket(self._data_dir(), broker), seconds, **request)
