"""The settings of each library for the address of a cluster and the login there.

The same settings stand in the files that `pybroker start --secure` leaves for people to paste.
"""

from __future__ import annotations

import ssl
from typing import Any

from ..local.cluster_state import ClusterError
from ..local.secured import MECHANISMS, SecurityFiles


def client_settings(
    library: str, bootstrap: str, security: SecurityFiles | None, user: str
) -> dict[str, Any]:
    """Keywords of a client, or its configuration, as the library wants it. Raises ClusterError."""
    if library == "java":
        login = {} if security is None else security.client_settings(user)
        return {"bootstrap.servers": bootstrap, **login}
    if library == "confluent-kafka":
        return {"bootstrap.servers": bootstrap, **_confluent(security, user)}
    if library in ("kafka-python", "aiokafka"):
        return {"bootstrap_servers": bootstrap, **_python(library, security, user)}
    raise ClusterError(
        f"no settings are known for {library!r}, but for java, confluent-kafka, kafka-python and "
        "aiokafka"
    )


def _confluent(security: SecurityFiles | None, user: str) -> dict[str, Any]:
    if security is None:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(security.authority),
        "sasl.mechanism": MECHANISMS[0],
        "sasl.username": user,
        "sasl.password": security.password(user),
    }


def _python(library: str, security: SecurityFiles | None, user: str) -> dict[str, Any]:
    if security is None:
        return {}
    authority = str(security.authority)
    trust: dict[str, Any] = {"ssl_cafile": authority}
    if library == "aiokafka":
        trust = {"ssl_context": ssl.create_default_context(cafile=authority)}
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISMS[0],
        "sasl_plain_username": user,
        "sasl_plain_password": security.password(user),
        **trust,
    }
