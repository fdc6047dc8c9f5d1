"""Keys and values as people read them: by the schemas of a registry, where there is one.

Bytes that cannot be decoded by their schema are shown as they are, with the reason. A registry that
does not answer is not asked again for PAUSE_SECONDS, and at most for NEW_MAX schemas at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from ..client.schemas import Registry, RegistryError, SchemaError, schema_of

NEW_MAX: Final = 100
PROBLEMS_MAX: Final = 1000
PAUSE_SECONDS: Final = 10.0


class Readable(NamedTuple):
    """JSON, if a schema describes it; else as it came. `problem`: why not."""

    content: bytes | None
    schema: int | None = None
    problem: str = ""


class Schemas:
    """`learn`, then `read`. Without a registry everything is as it came."""

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry
        self._known: set[int] = set()
        self._problems: dict[int, str] = {}
        self._silent_until = 0.0
        self._silence = ""

    async def learn(self, contents: Iterable[bytes | None]) -> None:
        """The schemas that these name, if the registry has them."""
        if self.registry is None:
            return
        named = {number for one in contents if (number := schema_of(one)) is not None}
        for number in sorted(named - self._known - self._problems.keys())[:NEW_MAX]:
            if trio.current_time() < self._silent_until:
                return
            try:
                await self.registry.load([number])
                self._known.add(number)
            except RegistryError as error:
                self._silence = str(error)
                self._silent_until = trio.current_time() + PAUSE_SECONDS
            except SchemaError as error:
                if len(self._problems) >= PROBLEMS_MAX:
                    self._problems.clear()
                self._problems[number] = str(error)

    def read(self, content: bytes | None) -> Readable:
        """A key or a value."""
        number = None if self.registry is None else schema_of(content)
        if number is None or self.registry is None:
            return Readable(content)
        if number not in self._known:
            return Readable(content, None, self._problems.get(number, self._silence))
        try:
            return Readable(self.registry.decode(content), number)
        except SchemaError as error:
            return Readable(content, None, str(error))

    async def write(self, number: int, content: bytes | None) -> bytes | None:
        """The bytes of a JSON content by a schema. Raises SchemaError, RegistryError."""
        if self.registry is None:
            raise SchemaError("the console was started without --registry-url")
        await self.registry.load([number])
        return self.registry.encode(number, content)
