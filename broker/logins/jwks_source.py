"""The source of the keys of signed tokens: a file or an HTTP(S) address, read now and then.

Invariants:
- An answer replaces the keys only if it is a JWKS: until then the earlier keys stay valid.
- A failure is logged once and retried, after ever longer waits up to a limit; an unknown key causes
  an earlier read, but not more often than every MIN_WAIT_SECONDS.
- An answer is at most MAX_BYTES, and a request takes at most TIMEOUT_SECONDS.

Mirrors `RefreshingHttpsJwks` and `JwksFileVerificationKeyResolver`. Beyond Kafka a broker starts
without the server of the keys, and reads a file again.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import trio

from ..security.sasl.signed_tokens import KeySet, TokenRules

logger = logging.getLogger("pybroker.broker.security")

MAX_BYTES = 1024 * 1024
TIMEOUT_SECONDS = 10
MIN_WAIT_SECONDS = 5.0


class JwksSource:
    __slots__ = ("_rules", "_wanted", "keys")

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self.keys = KeySet()
        self._wanted = trio.Event()
        self.keys.on_unknown = self._want

    def _want(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Read the keys at once, then now and then; until cancelled."""
        rules = self._rules
        first_wait = max(rules.retry_ms, 1) / 1000
        retry = first_wait
        is_well = True
        while True:
            self._wanted = trio.Event()
            try:
                self.keys.load(await trio.to_thread.run_sync(read_jwks, rules.url))
                wait, retry, is_well = rules.refresh_ms / 1000, first_wait, True
            except (OSError, ValueError) as error:
                if is_well:
                    logger.error("The keys of tokens cannot be read from %s: %s", rules.url, error)
                wait, is_well = retry, False
                retry = min(2 * retry, max(rules.retry_max_ms / 1000, first_wait))
            await trio.sleep(min(wait, MIN_WAIT_SECONDS))
            with trio.move_on_after(max(0.0, wait - MIN_WAIT_SECONDS)):
                await self._wanted.wait()


def read_jwks(url: str) -> bytes:
    """OSError or ValueError if it cannot be."""
    from urllib.request import urlopen  # few brokers need it, and it takes a megabyte

    if urlsplit(url).scheme not in ("file", "http", "https"):
        raise ValueError("it is not a file:, http: or https: address")
    with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        data: bytes = answer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return data
