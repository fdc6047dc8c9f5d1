"""A token without a signature, from the options of a login module: for development only.

Mirrors OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from ..errors import SettingsError

DEFAULT_LIFETIME_SECONDS = 3600
_PREFIX = "unsecuredLogin"


def unsecured_token(options: Mapping[str, str], now: float) -> str:
    """The token; `now` is in seconds. Raises SettingsError for an option that cannot be used."""
    claims: dict[str, object] = {}
    lifetime: float = DEFAULT_LIFETIME_SECONDS
    for name, text in options.items():
        kind, _, claim = name.removeprefix(_PREFIX).partition("_")
        try:
            if name == f"{_PREFIX}LifetimeSeconds":
                lifetime = float(text)
            elif kind == "StringClaim":
                claims[claim] = text
            elif kind == "NumberClaim":
                claims[claim] = float(text)
            elif kind == "ListClaim" and text:
                # The first character separates the elements.
                claims[claim] = text[1:].split(text[0])
        except ValueError:
            raise SettingsError(f"sasl.jaas.config: {name} is no number") from None
    issued = int(now * 1000) / 1000  # in ms as the verifier's clock, so never later
    claims = {"iat": issued, "exp": issued + lifetime} | claims
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: Mapping[str, object]) -> str:
    data = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
