"""The methods of a `KafkaCluster` as coroutines, under asyncio and trio.

Each is made of its blocking method, with the same arguments, and runs it in a thread: the loop goes
on. A fault is awaited, or used with `async with`, which undoes it:

    async with kafka.kill(2):
        records = await kafka.records("orders", at_least=1)

Invariant: there is one implementation, the blocking one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from .asynchronous import in_thread
from .cluster import KafkaCluster
from .faults import Fault
from .network import NetworkFaults
from .request_faults import RequestFault, RequestFaults

P = ParamSpec("P")
T = TypeVar("T")
Target = TypeVar("Target", covariant=True)
FaultT = TypeVar("FaultT", bound=Fault)


class View(Generic[Target]):
    """The coroutines of one object."""

    def __init__(self, target: Target) -> None:
        self._target = target


class Doing(Generic[FaultT]):
    """A fault on its way: await it, or enter it."""

    def __init__(self, do: Callable[[], FaultT]) -> None:
        self._do = do
        self._fault: FaultT | None = None

    def __await__(self) -> Generator[Any, Any, FaultT]:
        return in_thread(self._do).__await__()

    async def __aenter__(self) -> FaultT:
        self._fault = await self
        return self._fault

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fault is not None:
            await in_thread(self._fault.undo)


def action(
    method: Callable[Concatenate[Target, P], T],
) -> Callable[Concatenate[View[Target], P], Coroutine[Any, Any, T]]:
    """The coroutine of a method that changes something: once begun, it ends."""

    @wraps(method)
    async def call(view: View[Target], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(partial(method, view._target, *args, **kwargs))

    return call


def question(
    method: Callable[Concatenate[Target, P], T],
) -> Callable[Concatenate[View[Target], P], Coroutine[Any, Any, T]]:
    """The coroutine of a method that only reads or waits: a cancelled one is left alone."""

    @wraps(method)
    async def call(view: View[Target], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(partial(method, view._target, *args, **kwargs), is_question=True)

    return call


def fault(
    method: Callable[Concatenate[Target, P], FaultT],
) -> Callable[Concatenate[View[Target], P], Doing[FaultT]]:
    """The same of a method that returns a fault."""

    @wraps(method)
    def call(view: View[Target], /, *args: P.args, **kwargs: P.kwargs) -> Doing[FaultT]:
        return Doing(partial(method, view._target, *args, **kwargs))

    return call


class NetworkCoroutines(View[NetworkFaults]):
    """Of `KafkaCluster.network`."""

    cut = fault(NetworkFaults.cut)
    silence = fault(NetworkFaults.silence)
    delay = fault(NetworkFaults.delay)
    isolate = fault(NetworkFaults.isolate)


class RequestCoroutines(View[RequestFaults]):
    """Of `KafkaCluster.requests`."""

    fail = fault(RequestFaults.fail)
    drop = fault(RequestFaults.drop)
    close = fault(RequestFaults.close)
    lose_answer = fault(RequestFaults.lose_answer)
    delay = fault(RequestFaults.delay)


class AsyncKafkaCluster(View[KafkaCluster]):
    """`async with AsyncKafkaCluster(KafkaCluster(brokers=3)) as kafka: ...`, or of a cluster that
    runs; the cluster itself is `cluster`."""

    stop = action(KafkaCluster.stop)

    topic = action(KafkaCluster.topic)
    delete_topics = action(KafkaCluster.delete_topics)
    produce = action(KafkaCluster.produce)
    records = question(KafkaCluster.records)
    table = question(KafkaCluster.table)
    leader = question(KafkaCluster.leader)
    controller = question(KafkaCluster.controller)
    wait_for_brokers = question(KafkaCluster.wait_for_brokers)
    wait_for_isr = question(KafkaCluster.wait_for_isr)
    zookeeper_leader = question(KafkaCluster.zookeeper_leader)
    wait_for_zookeepers = question(KafkaCluster.wait_for_zookeepers)
    snapshot = question(KafkaCluster.snapshot)
    clean = action(KafkaCluster.clean)

    kill = fault(KafkaCluster.kill)
    shut_down = fault(KafkaCluster.shut_down)
    pause = fault(KafkaCluster.pause)
    break_disk = fault(KafkaCluster.break_disk)
    set_clock = fault(KafkaCluster.set_clock)
    resume = action(KafkaCluster.resume)
    restart = action(KafkaCluster.restart)
    expire_session = action(KafkaCluster.expire_session)
    move_leader = action(KafkaCluster.move_leader)
    balance_leaders = action(KafkaCluster.balance_leaders)
    rebalance = action(KafkaCluster.rebalance)
    advance = action(KafkaCluster.advance)
    compact = action(KafkaCluster.compact)
    heal = action(KafkaCluster.heal)
    tell_story = question(KafkaCluster.tell_story)

    async def start(self) -> AsyncKafkaCluster:
        """Returns itself once a produce would succeed."""
        await in_thread(self._target.start)
        return self

    async def __aenter__(self) -> AsyncKafkaCluster:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._target.__aexit__(kind, error, trace)

    async def undo(self, fault: Fault) -> None:
        """Undo a fault that was awaited."""
        await in_thread(fault.undo)

    async def hits(self, fault: RequestFault) -> int:
        """How many requests it has harmed."""
        return await in_thread(lambda: fault.hits, is_question=True)

    @property
    def cluster(self) -> KafkaCluster:
        """With what needs no waiting: `client_settings`, `brokers`, `node`, `address`, ..."""
        return self._target

    @property
    def bootstrap(self) -> str:
        """`host:port,host:port`."""
        return self._target.bootstrap

    @property
    def schema_registry_url(self) -> str:
        """`http://host:port` of the schema registry, of a cluster with `registry=True`."""
        return self._target.schema_registry_url

    @property
    def network(self) -> NetworkCoroutines:
        """Cut, silence and delay; needs `network=True`."""
        return NetworkCoroutines(self._target.network)

    @property
    def requests(self) -> RequestCoroutines:
        """Requests that are failed, dropped or delayed."""
        return RequestCoroutines(self._target.requests)
