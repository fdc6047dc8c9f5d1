"""The logins of this broker: the rules of its SASL listeners, built from its configuration, and
the tasks that they need.

Invariants: a change of the configuration applies to later connections; an unusable one changes
nothing. All users of the keys of signed tokens share one reader for each address.

Mirrors `SaslChannelBuilder` as the broker has it, and `CredentialProvider`. In Kafka changed keys
apply to listeners and network threads that are added later, and to the others after a restart;
here they apply to every new connection.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence

import trio

from ..config import ConfigError, KafkaConfig
from ..config.sasl_config import mechanism_configs, uses_sasl
from ..network.connection import FrameHandler
from ..network.socket_server import ListenerSpec
from ..observability.metrics import BrokerMetrics
from ..security.sasl.login import LoginRules
from ..security.sasl.oauthbearer import TokenCheck
from ..security.sasl.rules import MechanismConfig, login_rules
from ..security.sasl.scram import ScramCredentials, Token
from ..security.sasl.signed_tokens import SignedTokens, TokenRules
from .jwks_source import JwksSource
from .login_tasks import LoginTasks
from .sasl_gatekeeper import LoginCounts, SaslListener

logger = logging.getLogger("pybroker.broker.security")

MAX_RECEIVE = "sasl.server.max.receive.size"
KERBEROS_FILE = "pybroker.kerberos.config.file"

_SECRET_BYTES = 32

Mechanisms = Mapping[str, MechanismConfig]


class Logins:
    """The logins must `run` before a listener does."""

    __slots__ = (
        "_clock", "_config", "_handle_frame", "_listeners", "_mechanisms", "_metrics", "_nursery",
        "_problem", "_running", "_sources", "_tasks", "scram",
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
        if (kerberos := config.get_optional_string(KERBEROS_FILE)) is not None:
            os.environ["KRB5_CONFIG"] = kerberos  # the one way to tell MIT's library
        self._tasks = LoginTasks()
        self._listeners: dict[str, SaslListener] = {}
        self._mechanisms: dict[str, Mechanisms] = {}  # by listener: the source of its rules
        self._problem = ""  # logged already
        self._sources: dict[TokenRules, JwksSource] = {}
        self._running: set[TokenRules] = set()  # with a running source
        self._nursery: trio.Nursery | None = None  # while they run

    def guard(self, specs: Sequence[ListenerSpec]) -> list[ListenerSpec]:
        """The same listeners, with gatekeepers where they are to have one."""
        return [self._guarded(spec) if uses_sasl(spec.protocol) else spec for spec in specs]

    def _guarded(self, spec: ListenerSpec) -> ListenerSpec:
        config, name = self._config, spec.name
        counts = LoginCounts()
        counts.register(self._metrics, name)
        mechanisms = mechanism_configs(config, name)
        sasl = SaslListener(
            rules=self._rules(name, mechanisms),
            max_receive_bytes=config.of_listener(name, MAX_RECEIVE),
            failure_delay_seconds=config.get_int("connection.failed.authentication.delay.ms")
            / 1000,
            handle_frame=self._handle_frame,
            tasks=self._tasks,
            epoch_ms=self._clock,
            counts=counts,
        )
        self._listeners[name], self._mechanisms[name] = sasl, mechanisms
        security = spec.security._replace(new_gatekeeper=sasl.new_gatekeeper)
        return spec._replace(security=security)

    def _rules(self, listener: str, mechanisms: Mechanisms) -> LoginRules:
        try:
            return login_rules(mechanisms, self.scram, secrets.randbits, self._check_signed)
        except ValueError as error:
            raise ConfigError(f"listener {listener}: {error}") from None

    def _check_signed(self, rules: TokenRules) -> TokenCheck:
        source = self._sources.get(rules)
        if source is None:
            source = self._sources[rules] = JwksSource(rules)
        return SignedTokens(rules, source.keys).check

    async def refresh(self) -> None:
        """New connections log in as the configuration has it now, if they can."""
        try:
            for name, listener in self._listeners.items():
                mechanisms = mechanism_configs(self._config, name)
                listener.max_receive_bytes = self._config.of_listener(name, MAX_RECEIVE)
                if mechanisms != self._mechanisms[name]:
                    # The keys of Kerberos are in a file.
                    listener.rules = await trio.to_thread.run_sync(self._rules, name, mechanisms)
                    self._mechanisms[name] = mechanisms
                    logger.info("New connections to listener %s log in by its changed keys", name)
        except ConfigError as error:
            if str(error) != self._problem:
                logger.error("Logins keep their present configuration: %s", error)
            self._problem = str(error)
        else:
            self._problem = ""
        self._start_sources()

    def _start_sources(self) -> None:
        if self._nursery is not None:
            for rules in self._sources.keys() - self._running:
                self._running.add(rules)
                self._nursery.start_soon(self._sources[rules].run)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks of logins until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._tasks.run)
            self._nursery = nursery
            self._start_sources()
            task_status.started()
