"""All flows of one process, side by side.

A flow that ends for good does not end the others; its error is raised once all have ended.
Mirrors: MirrorMaker.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import trio

from ..errors import ClientError
from .flow import Flow
from .settings import MirrorSettings
from .stats import FlowStats


class Mirror:
    """`await Mirror(settings, report).run(stop)`; `stats` has the progress of the flows. `report`
    is called with a line of text for each problem."""

    def __init__(self, settings: MirrorSettings, report: Callable[[str], None]) -> None:
        self.flows = [
            Flow(each, report, functools.partial(self._look, each.target.alias))
            for each in settings.flows
        ]
        self._report = report

    def _look(self, alias: str) -> None:
        for flow in self.flows:
            if flow.settings.source.alias == alias:
                flow.look()

    @property
    def stats(self) -> list[FlowStats]:
        """The progress of each flow."""
        return [flow.stats for flow in self.flows]

    async def run(self, stop: trio.Event) -> None:
        """Run until `stop`, or until no flow copies any more; then finish the records in flight.

        Raises the first ClientError.
        """
        failures: list[ClientError] = []
        copying = {flow for flow in self.flows if flow.settings.copies}
        end = trio.Event()

        async def run(flow: Flow) -> None:
            try:
                await flow.run(end)
            except ClientError as error:
                failures.append(error)
                self._report(f"{flow.settings.name} has ended: {error}")
            copying.discard(flow)
            if not copying:
                end.set()

        async def wait() -> None:
            await stop.wait()
            end.set()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            async with trio.open_nursery() as nursery:
                for flow in self.flows:
                    nursery.start_soon(run, flow)
            waiting.cancel_scope.cancel()
        if failures:
            raise failures[0]
