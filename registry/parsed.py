"""A schema that is understood, of any format. Mirrors: ParsedSchema."""

from __future__ import annotations

from typing import Protocol


class Parsed(Protocol):
    """A schema that is understood. `text` is its text in one form."""

    @property
    def text(self) -> str: ...

    def normalized(self) -> str:
        """One text for all schemas of the same meaning."""
        ...

    def problems_reading(self, older: Parsed) -> list[str]:
        """Why data of the other schema, of the same format, cannot be read with this one; `%s`
        twice in each."""
        ...

    def formatted(self, form: str) -> str:
        """The text in a form that the format has. Raises BadSchema."""
        ...
