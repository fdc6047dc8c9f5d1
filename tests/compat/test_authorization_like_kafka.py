"""Random ACLs and random requests of random clients: Apache Kafka 3.9.1 and pybroker answer alike.

Each seed is one set of ACLs and some requests under it, over all versions of the APIs. More of them
by hand: `PYBROKER_ACL_SEEDS=1000:2000 pytest tests/compat/test_authorization_like_kafka.py`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.api import ApiKey
from tests.support import acl_judges
from tests.support.acl_judges import CLIENTS, Judged, count_codes, random_acls, told
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.random_requests import Drawn, built, comparable, draw, fetch

pytestmark = pytest.mark.nightly

SEEDS = os.environ.get("PYBROKER_ACL_SEEDS", "0:15")
REQUESTS = 20  # with one set of ACLs
CONFIG = {
    **acl_judges.CONFIG,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "delegation.token.secret.key": "secret",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
# For runs by hand: whether everybody may do what no ACL is about.
if os.environ.get("PYBROKER_ACL_EVERYONE"):
    CONFIG["allow.everyone.if.no.acl.found"] = "true"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Judged]]:
    """pybroker and Apache Kafka, each with its ZooKeeper."""
    directory: Path = tmp_path_factory.mktemp("judged")
    with (
        zookeeper_process(directory / "ours") as ours,
        zookeeper_process(directory / "theirs") as theirs,
    ):
        started: list[tuple[BrokerProcess, str]] = []
        try:
            for kind, connect in ((BrokerProcess, ours), (ApacheKafkaProcess, theirs)):
                port, users = free_port(), f"127.0.0.1:{free_port()}"
                listeners = f"PLAINTEXT://127.0.0.1:{port},USERS://{users}"
                config = {**CONFIG, "listeners": listeners}
                process = kind(directory / kind.__name__, connect, config, port=port)
                started.append((process, users))
                process.start()
            brokers = [Judged(process, users) for process, users in started]
            for broker in brokers:
                broker.prepare()
            yield brokers
        finally:
            for process, _ in started:
                process.kill()


def test_the_same_answers(judged: list[Judged]) -> None:
    first, last = map(int, SEEDS.split(":"))
    codes: Counter[int] = Counter()
    differences = []
    asked = 0
    versions = common_versions(judged)
    for seed in range(first, last):
        choose = random.Random(seed)
        acls = random_acls(choose)
        for broker in judged:
            broker.allow(acls)
        for number in range(REQUESTS):
            drawn = draw(choose, versions)
            who = choose.choice(CLIENTS)
            answers = [broker.ask(who, drawn) for broker in judged]
            asked += 1
            count_codes(answers[1], codes)
            if answers[0] != answers[1]:
                asking = f"seed {seed} #{number}, {who}: {drawn.key.name} v{drawn.version}"
                differences.append(told(f"{asking} {drawn.body}", who, acls, answers))
    print(f"{asked} requests, codes {sorted(codes.items())}, {len(differences)} differences")
    assert not differences, "\n\n".join([f"{len(differences)} of {asked}", *differences[:40]])
    assert {0, 29, 30, 31, 53} <= codes.keys()


def test_sessions_are_asked_for_at_each_fetch(judged: list[Judged]) -> None:
    first, last = map(int, SEEDS.split(":"))
    for seed in range(first, last, 5):
        choose = random.Random(seed)
        who = choose.choice(CLIENTS)
        version = choose.choice(range(7, 18))
        body = fetch(choose, version) | {"session_epoch": 0}
        forgotten = [{"topic": t["topic"], "topic_id": t["topic_id"], "partitions": [0]}
                     for t in body["topics"][1:2]]  # fmt: skip
        sessions = [0, 0]
        for epoch in range(4):
            acls = random_acls(choose)
            said = []
            for number, broker in enumerate(judged):
                broker.allow(acls)
                asked = body | {"session_id": sessions[number], "session_epoch": epoch}
                if epoch:
                    asked["topics"] = []
                    asked["forgotten_topics_data"] = forgotten if epoch == 2 else []
                message = built(Drawn(ApiKey.FETCH, version, asked), broker.ids)
                answer = broker.clients[who].call(message, version)
                sessions[number] = answer.session_id
                said.append(comparable(answer, broker.names))
            assert said[0] == said[1], told(f"seed {seed}, epoch {epoch}", who, acls, said)


def common_versions(brokers: list[Judged]) -> dict[ApiKey, range]:
    """What is served here, which the other one serves as well."""
    ours, theirs = (broker.admin for broker in brokers)
    served = {ApiKey(key): theirs.versions(key) for key in ours.advertised}
    assert served == ours.advertised
    return served
