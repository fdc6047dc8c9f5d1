"""Security settings that have no effect here, one by one: a broker with one of them does not start.

A key that should keep a client out, authenticate one, or hide data, and that no code here reads,
would leave open what its owner believes shut. So it stops the start with a line that names it, and
cannot be altered dynamically, unless `pybroker.allow.ineffective.security=true`. Each such key of
Kafka's is in exactly one of two tables: `PROTECTIONS`, with the missing protection, or
`NO_PROTECTION`, the keys of the same features that protect nothing by themselves. A key that is
implemented one day leaves both.

`checks` always refuses listeners of a security protocol that does not exist here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ...storage.config_def import ConfigDef
from .definitions import base_key

ALLOW = "pybroker.allow.ineffective.security"

_NO_POLICY = "this broker calls no policy"
_NO_QUOTA_CLASS = "set quotas with kafka-configs; this broker loads no Java class"
_NO_ZOOKEEPER_REVOCATION = "this broker does not check whether ZooKeeper's certificate was revoked"
_NO_NAMES = "principals come from logins and certificates; this broker loads no Java class"

PROTECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "create.topic.policy.class.name": _NO_POLICY,
        "alter.config.policy.class.name": _NO_POLICY,
        "client.quota.callback.class": _NO_QUOTA_CLASS,
        "zookeeper.ssl.crl.enable": _NO_ZOOKEEPER_REVOCATION,
        "zookeeper.ssl.ocsp.enable": _NO_ZOOKEEPER_REVOCATION,
        **dict.fromkeys(
            (
                "principal.builder.class",
            ),
            _NO_NAMES,
        ),
    }
)  # fmt: skip

NO_PROTECTION: Mapping[str, str] = MappingProxyType(
    {
        "zookeeper.clientCnxnSocket": "which implementation does it",
        **dict.fromkeys(
            ("sasl.client.callback.handler.class", "sasl.login.class",
             "sasl.login.callback.handler.class", "sasl.kerberos.kinit.cmd",
             "sasl.kerberos.ticket.renew.window.factor", "sasl.kerberos.ticket.renew.jitter",
             "sasl.kerberos.min.time.before.relogin",
             "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
             "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds",
             "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
             "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
             "sasl.mechanism.controller.protocol"),
            "how and when this broker itself logs in somewhere",
        ),
    }
)  # fmt: skip


def protection_of(name: str) -> str | None:
    """The missing protection that this key asks for; None for any other key."""
    base = base_key(name)
    return None if base is None else PROTECTIONS.get(base.name)


def asked_for(values: Mapping[str, str]) -> dict[str, str]:
    """The protections that `values` ask for in vain, each with the missing part."""
    return {
        name: missing
        for name, text in values.items()
        if (missing := protection_of(name)) is not None and _asks(base_key(name), text)
    }


def explained(missing: Mapping[str, str]) -> str:
    """One line that names the keys."""
    reasons: dict[str, list[str]] = {}
    for name, reason in missing.items():
        reasons.setdefault(reason, []).append(name)
    told = "; ".join(f"{_listed(names)}: {reason}" for reason, names in reasons.items())
    return f"without effect here: {told}"


def _asks(definition: ConfigDef | None, text: str) -> bool:
    """Whether a value switches something on: it is neither empty nor the default."""
    assert definition is not None
    value = definition.parse(text)
    return bool(value) and value != definition.default_value()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
