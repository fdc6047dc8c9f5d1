"""docs/CONFIG.md, METRICS.md, APIS.md, AUTHORIZATION.md, COMMANDS.md, the keys of SECURITY.md and
the figures of operate/capacity.md, written from tables of the code and of benchmarks/RESULTS.md.

`python -m tests.pages` writes them anew; tests/unit/docs/test_generated.py says when that is due.

What a key does is read off the tables: a key that changes something here has a description, one
that does not has none (`broker/config/keys.py`); protections that are not there are in
`broker/config/ineffective.py`. The metrics are those of a broker that has just started, in this
process, with an embedded ZooKeeper and a listener with logins. What they mean and their names in
Apache Kafka stand in `broker/observability/catalogue.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio

from pybroker_kafka.broker.config.definitions import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    LISTENER_KEYS,
    MECHANISM_KEYS,
)
from pybroker_kafka.broker.config.ineffective import ALLOW, PROTECTIONS
from pybroker_kafka.broker.config.tables import extensions
from pybroker_kafka.broker.observability.alerts import ALERTS
from pybroker_kafka.broker.observability.catalogue import CATALOGUE
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.storage.config_def import ConfigDef, DynamicMode
from pybroker_kafka.storage.remote.loading import LOCAL_TIERED_STORAGE
from pybroker_kafka.storage.table_configs import TABLE_CONFIGS
from pybroker_kafka.storage.topic_configs import TOPIC_CONFIGS
from pybroker_kafka.tls.settings import OF_JAVA
from tests.support.apis_page import apis_page
from tests.support.authorization_page import authorization_page
from tests.support.capacity_page import write as write_capacity
from tests.support.commands_page import commands_page
from tests.support.in_process import broker, zookeeper
from tests.support.missing_metrics import MISSING
from tests.support.processes import ROOT

CONFIG = ROOT / "docs" / "CONFIG.md"
METRICS = ROOT / "docs" / "METRICS.md"
APIS = ROOT / "docs" / "APIS.md"
AUTHORIZATION = ROOT / "docs" / "AUTHORIZATION.md"
SECURITY = ROOT / "docs" / "SECURITY.md"
COMMANDS = ROOT / "docs" / "COMMANDS.md"
COMMAND = "python -m tests.pages"

# Keys that `broker/config/checks.py` never lets anyone set.
REFUSED = frozenset({"zookeeper.metadata.migration.enable"})
# It must name a listener, which is served; but the controller sends to the inter-broker listener.
OURS = frozenset(definition.name for definition in extensions.DEFINITIONS)
# Topic configs of tiered storage that need KRaft.
TOPIC_REFUSED = frozenset({"remote.log.copy.disable", "remote.log.delete.on.disable"})

NOT_KAFKAS = "-"


# CONFIG.md


def effect_of(definition: ConfigDef) -> str:
    """What setting a broker's key does; one of the words that CONFIG.md explains."""
    name = definition.name
    if name in OURS:
        return "ours"
    if name in PROTECTIONS:
        return "stops the start"
    if name in REFUSED:
        return "must not be set"
    if name in OF_JAVA:
        return "of Java"
    return "works" if definition.documentation else "no effect"


def config_page() -> str:
    counts: dict[str, int] = {}
    for definition in BROKER_CONFIGS.values():
        counts[effect_of(definition)] = counts.get(effect_of(definition), 0) + 1
    groups = (
        ("Keys that do something", "works"),
        ("Keys of ours", "ours"),
        ("Keys that stop the start", "stops the start"),
        ("Keys for KRaft that must not be set", "must not be set"),
        ("Keys that name something of Java", "of Java"),
        ("Keys without effect", "no effect"),
    )
    parts = [_CONFIG_HEAD, "| section | keys |\n|---|---|\n"]
    sections = [(title, counts[word]) for title, word in groups]
    sections += [("Only dynamic", len(DYNAMIC_ONLY_CONFIGS)), ("Topics", len(TOPIC_CONFIGS))]
    sections.append(("Tables of topics", len(TABLE_CONFIGS)))
    parts += [f"| [{title}](#{_anchor(title)}) | {count} |\n" for title, count in sections]
    parts.append(_LISTENERS_TEXT)
    for title, word in groups:
        chosen = [d for d in BROKER_CONFIGS.values() if effect_of(d) == word]
        parts.append(f"\n## {title}\n\n{_CONFIG_TEXTS[word]}\n\n{_broker_table(chosen, word)}")
    parts += ["\n## Only dynamic\n\n", _DYNAMIC_ONLY_TEXT, _dynamic_only_table()]
    parts += ["\n## Topics\n\n", _TOPICS_TEXT, _topic_table()]
    parts += ["\n## Tables of topics\n\n", _TABLES_TEXT, _table_table()]
    return "".join(parts)


_CONFIG_HEAD = f"""# Configuration keys

This page is written by `{COMMAND}` from the tables in `broker/config/tables/` and
`storage/topic_configs.py`; do not edit it. Names, types, defaults and bounds are those of Apache
Kafka 3.9.

Set a key in `server.properties`, with `--config` of `pybroker start`, or in Docker as a `KAFKA_`
variable. An unknown key is an error with `--config`, and a warning in a file. The column *dynamic*
says whether a running broker's key may be altered: no (read-only), for one broker (per-broker), or
for one broker and as the default of all (cluster-wide).

"""
_CONFIG_TEXTS = {
    "works": "These keys have their effect of Apache Kafka.",
    "ours": "Apache Kafka does not know these keys: it warns of them, and starts all the same.",
    "stops the start": (
        "These keys restrict access in Apache Kafka, and have no effect here. A broker with one of "
        f"them set to anything but its default does not start, unless `{ALLOW}=true`; nor can they "
        "be altered while it runs."
    ),
    "must not be set": "The brokers run with ZooKeeper. Set to anything but its default, each of "
    "them stops the start.",
    "of Java": (
        "These keys name parts of Java's TLS. OpenSSL does TLS here, and has its own parts. With a "
        "TLS listener, a broker does not start if a key has a value that the last column does not "
        "list. Without a TLS listener the keys are not read."
    ),
    "no effect": (
        "The broker knows these keys, checks their types and bounds, and describes them "
        "(DescribeConfigs), but nothing uses them: they belong to features that are not here "
        "(KRaft, parts of the new group protocols), or to Kafka's own implementation."
    ),
}
_LISTENERS_TEXT = f"""
## Keys of one listener

A broker may have several listeners, and some keys can be set for one of them alone, with the
prefix `listener.name.` and the listener's name in lower case:
`listener.name.internal.ssl.client.auth=required` applies to the listener INTERNAL, whatever the
value of `ssl.client.auth`; the plain key applies to the others. The prefix may stand before all
keys that begin with `ssl.` or `sasl.`, and before
{", ".join(f"`{name}`" for name in sorted(LISTENER_KEYS) if not name.startswith("sasl."))}.
A key for one login mechanism of a listener has the mechanism's name as well:
`listener.name.internal.scram-sha-512.sasl.jaas.config`. This form exists for
{", ".join(f"`{name}`" for name in sorted(MECHANISM_KEYS))} and those that begin with
`sasl.oauthbearer.`. `sasl.jaas.config` has an effect in this form only.

With such a prefix a running broker's key may be altered even if the plain key is read-only; the new
value applies to new connections.
"""
_DYNAMIC_ONLY_TEXT = (
    "These keys are not for `server.properties`: AlterConfigs or IncrementalAlterConfigs sets "
    "them. They throttle the replicas that a topic's config names.\n\n"
)
_TOPICS_TEXT = (
    "A topic's own value takes precedence over the broker's key in the last column, and that over "
    "the default. All may be altered while the topic is in use.\n\n"
)


_TABLES_TEXT = (
    "Topic configs of ours ([TABLES](TABLES.md)): a topic that has none of them is described "
    "without them.\n\n"
)


def _broker_table(definitions: Iterable[ConfigDef], word: str) -> str:
    if word == "no effect":
        rows = [(_code(d.name), d.type.name.lower(), _default(d.default)) for d in definitions]
        return _table(("key", "type", "default"), rows)
    described = [
        (
            _code(d.name),
            _type(d),
            _default(d.default),
            d.dynamic_mode.value,
            _description(d),
        )
        for d in definitions
    ]
    meaning = {"stops the start": "what is not done", "of Java": "what it names"}.get(
        word, "what it does"
    )
    return _table(("key", "type", "default", "dynamic", meaning), described)


def _description(definition: ConfigDef) -> str:
    text = PROTECTIONS.get(definition.name, definition.documentation)
    taken, _ = OF_JAVA.get(definition.name, (None, ""))
    if taken is None:
        return text
    return f"{text} Taken: {', '.join(taken)}." if taken else f"{text} None of Java's is taken."


def _dynamic_only_table() -> str:
    rows = [
        (_code(d.name), _type(d), _default(d.default), d.dynamic_mode.value)
        for d in DYNAMIC_ONLY_CONFIGS.values()
    ]
    return _table(("key", "type", "default", "dynamic"), rows)


def _topic_table() -> str:
    rows = []
    for definition in TOPIC_CONFIGS.values():
        assert definition.dynamic_mode is DynamicMode.PER_TOPIC, definition.name
        effect = "works"
        if definition.name in TOPIC_REFUSED:
            effect = "`true` is refused"
        rows.append(
            (
                _code(definition.name),
                _type(definition),
                _default(definition.default),
                effect,
                definition.documentation,
                ", ".join(map(_code, definition.synonyms)),
            )
        )
    return _table(("key", "type", "default", "effect", "what it does", "the broker's key"), rows)


def _table_table() -> str:
    rows = [
        (_code(d.name), _type(d), _default(d.default), d.documentation)
        for d in TABLE_CONFIGS.values()
    ]
    return _table(("key", "type", "default", "what it does"), rows)


def _type(definition: ConfigDef) -> str:
    """With the bounds, where they say something that can be written down."""
    shown = definition.type.name.lower()
    bounds = str(definition.validator) if definition.validator is not None else ""
    return shown if not bounds or bounds.startswith("<") else f"{shown} {bounds}"


def _default(text: str | None) -> str:
    return "none" if text is None else _code(text) if text else "empty"


# SECURITY.md, whose text is written by hand

_KEYS_FOLLOW = f"<!-- keys: written by {COMMAND}; do not edit what follows -->\n"
# Titles, and what the names of their keys begin with.
_SECURITY_KEYS = (
    (
        "Listeners",
        ("listener.security.", "security.inter.", "inter.broker.listener", "control.plane."),
    ),
    ("TLS", ("ssl.",)),
    ("Logins", ("sasl.", "connections.max.reauth", "connection.failed.", "pybroker.jaas")),
    (
        "Authorization",
        ("authorizer.", "super.users", "allow.everyone", "principal.builder", "create.topic.pol",
         "alter.config.pol", "security.providers", "pybroker.allow."),
    ),
    (
        "How much",
        ("quota.", "controller.quota.", "client.quota.", "max.connection"),
    ),
    ("Delegation tokens", ("delegation.",)),
    ("Secrets in ZooKeeper", ("password.encoder.",)),
    ("ZooKeeper", ("zookeeper.ssl.", "zookeeper.set.acl", "zookeeper.clientCnxn",
                   "pybroker.zookeeper.")),
)  # fmt: skip


def security_page(page: str) -> str:
    """The same page with the keys as they are now."""
    text, found, _ = page.partition(_KEYS_FOLLOW)
    assert found, "docs/SECURITY.md has lost the line behind which its keys stand"
    parts = [text, found]
    for title, beginnings in _SECURITY_KEYS:
        chosen = [d for d in BROKER_CONFIGS.values() if d.name.startswith(beginnings)]
        rows = [
            (_code(d.name), _default(d.default), _security_effect(d))
            for d in sorted(chosen, key=lambda d: d.name)
        ]
        parts.append(f"\n### {title}\n\n{_table(('key', 'default', 'what it does'), rows)}")
    return "".join(parts)


def _security_effect(definition: ConfigDef) -> str:
    match effect_of(definition):
        case "stops the start":
            return f"Stops the start: {PROTECTIONS[definition.name]}."
        case "no effect":
            return "No effect."
        case _:
            return _description(definition)


# METRICS.md

_METRICS_HEAD = f"""# Metrics

This page is written by `{COMMAND}` from the metrics that a started broker exports; do not edit it.

`pybroker start --metrics-port PORT` (broker N at PORT + N - 1) and `pybroker broker --metrics-port
PORT` serve them in Prometheus' format under `/metrics`, to this machine alone unless
`--metrics-host` says otherwise. Names and labels are those that the JMX exporter's example
configuration (kafka-2_0_0.yml) gives to Apache Kafka's metrics. Rates per second are left out:
Prometheus derives them from the counters. A summary has quantiles, `_count` and `_sum`; quantiles
come from the last samples, see `broker/observability/metrics.py`. Metrics of logins exist for
listeners with logins. Metrics of the process (`process_*`) and of Python's collector
(`python_gc_*`) are there as well. The broker writes a scrape in slices between its other work: with
5 000 partitions a scrape takes 75 ms (50 770 lines; `python -m benchmarks.scrape`, two quiet
cores), and thousands of partitions delay no request.

"{NOT_KAFKAS}" in the last column: Apache Kafka has no such metric.

"""


_ALERTS_HEAD = """
## Alerts and dashboards

`pybroker monitoring DIRECTORY -t HOST:PORT` writes what Prometheus and Grafana need to watch a
cluster: a `prometheus.yml`, these alerts, and dashboards of the cluster, of topics, of groups, and
of a broker's inside.

"""
_MISSING_HEAD = """
## Metrics of Apache Kafka that are not here

The list comes from `tests/mixed/test_metric_names.py`, which scrapes an Apache Kafka 3.9 with the
exporter.

"""


_WITH_LOGINS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGINS://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
    "inter_broker_listener_name": "PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-512",
}


async def metrics_page() -> str:
    """Of a broker that runs for this."""
    made: list[BrokerMetrics] = []
    construct = BrokerMetrics.__init__

    def noted(self: BrokerMetrics) -> None:
        construct(self)
        made.append(self)

    with tempfile.TemporaryDirectory() as directory, patch.object(BrokerMetrics, "__init__", noted):
        async with (
            zookeeper() as port,
            broker(
                port,
                Path(directory, "logs"),
                None,
                **_WITH_LOGINS,
                remote_log_storage_system_enable="true",
                remote_log_storage_manager_class_name=LOCAL_TIERED_STORAGE,
                rsm_config_dir=directory,
                pybroker_table_warehouse=str(Path(directory, "tables")),
            ) as running,
        ):
            rows = _metric_rows(made[-1])
            await running.stop()
    return (
        _METRICS_HEAD
        + _table(("metric", "kind", "labels", "what it is", "in Apache Kafka"), rows)
        + _ALERTS_HEAD
        + _table(
            ("alert", "fires if", "what to do"),
            [(alert.name, _code(alert.expression), alert.advice) for alert in ALERTS],
        )
        + _MISSING_HEAD
        + _table(("metric", "why it is not here"), [(_code(n), why) for n, why in MISSING.items()])
    )


def _metric_rows(metrics: BrokerMetrics) -> list[tuple[str, str, str, str, str]]:
    kinds: dict[str, tuple[str, set[str]]] = {}
    for family in metrics.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        kinds[name] = family.type, {label for s in family.samples for label in s.labels}
    for name, labels, _ in metrics._families:
        kinds[name][1].update(labels)
    for table in metrics.tables:
        for name in table.columns:
            kinds[name] = table.kind, set(table.labels)
    kinds["kafka_network_requestmetrics_errors_total"][1].update(("request", "error"))
    assert kinds.keys() == CATALOGUE.keys()
    return [
        (
            _code(name),
            kind,
            ", ".join(sorted(labels)),
            CATALOGUE[name].help,
            _code(CATALOGUE[name].kafka) if CATALOGUE[name].kafka else NOT_KAFKAS,
        )
        for name, (kind, labels) in sorted(kinds.items())
    ]


# Both


def _code(text: str) -> str:
    return f"`{text}`"


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """What is in angle brackets, as a name to fill in, would be taken for HTML and left out."""
    shown = text.replace("|", "\\|")
    return shown if shown.startswith("`") else shown.replace("<", "&lt;")


def main() -> None:
    CONFIG.write_text(config_page())
    METRICS.write_text(trio.run(metrics_page))
    APIS.write_text(apis_page())
    AUTHORIZATION.write_text(authorization_page())
    SECURITY.write_text(security_page(SECURITY.read_text()))
    COMMANDS.write_text(commands_page())
    for page in (CONFIG, METRICS, APIS, AUTHORIZATION, SECURITY, COMMANDS, write_capacity()):
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
