"""Keeps the values of secret configs out of texts for logs and people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "[hidden]"
_WORDS: Final = ("credential", "key", "password", "sas", "secret", "token")


def without_secrets(text: str, configs: Mapping[str, str]) -> str:
    """`text` with each value of a config whose name sounds secret replaced."""
    for key, value in configs.items():
        if value and any(word in key.lower() for word in _WORDS):
            text = text.replace(value, HIDDEN)
    return text
