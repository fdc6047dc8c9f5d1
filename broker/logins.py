"""Logins on this broker: what its SASL listeners ask, built from its configuration, and what runs
for them.

Mirrors `SaslChannelBuilder` as the broker has it, and `CredentialProvider`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import trio

from .config import ConfigError, KafkaConfig
from .config.sasl_config import mechanism_configs, uses_sasl
from .network.connection import FrameHandler
from .network.jwks_source import JwksSource
from .network.login_tasks import LoginTasks
from .network.sasl_gatekeeper import LoginCounts, SaslListener
from .network.socket_server import ListenerSpec
from .observability.metrics import BrokerMetrics
from .security.sasl.oauthbearer import TokenCheck
from .security.sasl.rules import login_rules
from .security.sasl.scram import ScramCredentials, Token
from .security.sasl.signed_tokens import SignedTokens, TokenRules

_SECRET_BYTES = 32


class Logins:
    """They must `run` before a listener does."""

    __slots__ = (
        "_clock", "_config", "_handle_frame", "_metrics", "_sources", "_tasks", "scram",
    )  # fmt: skip

    def __init__(
        self,
        config: KafkaConfig,
        clock: Callable[[], int],
        metrics: BrokerMetrics,
        handle_frame: FrameHandler,
        token_of: Callable[[str], Token | None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._handle_frame = handle_frame
        self.scram = ScramCredentials(secrets.token_bytes(_SECRET_BYTES), token_of)
        self._tasks = LoginTasks()
        self._sources: list[JwksSource] = []

    def guard(self, specs: Sequence[ListenerSpec]) -> list[ListenerSpec]:
        """The same listeners, with gatekeepers where they are to have one."""
        return [self._guarded(spec) if uses_sasl(spec.protocol) else spec for spec in specs]

    def _guarded(self, spec: ListenerSpec) -> ListenerSpec:
        config = self._config
        counts = LoginCounts()
        counts.register(self._metrics, spec.name)
        mechanisms = mechanism_configs(config, spec.name)
        try:
            rules = login_rules(mechanisms, self.scram, secrets.randbits, self._check_signed)
        except ValueError as error:
            raise ConfigError(f"listener {spec.name}: {error}") from None
        sasl = SaslListener(
            rules=rules,
            max_receive_bytes=config.of_listener(spec.name, "sasl.server.max.receive.size"),
            failure_delay_seconds=config.get_int("connection.failed.authentication.delay.ms")
            / 1000,
            handle_frame=self._handle_frame,
            tasks=self._tasks,
            epoch_ms=self._clock,
            counts=counts,
        )
        security = spec.security._replace(new_gatekeeper=sasl.new_gatekeeper)
        return spec._replace(security=security)

    def _check_signed(self, rules: TokenRules) -> TokenCheck:
        source = JwksSource(rules)
        self._sources.append(source)
        return SignedTokens(rules, source.keys).check

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._tasks.run)
            for source in self._sources:
                nursery.start_soon(source.run)
            task_status.started()
