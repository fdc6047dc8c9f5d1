"""`--registry URL`: see `client.schemas`."""

from __future__ import annotations

from ..client.schemas import Registry, SchemaError
from .options import UserError


def registry_at(url: str) -> Registry:
    """Raises UserError."""
    try:
        return Registry(url)
    except SchemaError as error:
        raise UserError(f"--registry {error}") from None
