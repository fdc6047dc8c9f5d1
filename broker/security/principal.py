"""The identity of a client.

Mirrors `KafkaPrincipal`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class KafkaPrincipal(NamedTuple):
    """A type, nearly always `User`, and a name; compared by both, case-sensitively.

    `token_authenticated` says that a delegation token proved it; it is no part of the identity, but
    such a client gets no further tokens. `KafkaPrincipal` of Kafka leaves it out of equality, and
    so does a comparison by `str`.
    """

    type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")


def parse_principal(text: str) -> KafkaPrincipal:
    """`Type:name`, with a name that may hold colons; ValueError for anything else."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a principal as in User:alice, got {text!r}")
    return KafkaPrincipal(kind, name)


def parse_principals(text: str) -> list[KafkaPrincipal]:
    """`User:alice;User:bob`, as super.users has it; ValueError if one of them is none."""
    text = text.strip().rstrip(";")
    return [parse_principal(one.strip()) for one in text.split(";")] if text else []
