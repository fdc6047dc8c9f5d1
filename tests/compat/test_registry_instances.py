"""Several instances of one registry, of which some die or freeze; TLS, logins; beside a cluster."""

from __future__ import annotations

import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pybroker_kafka.local.certificates import prepare_certificates
from pybroker_kafka.testing import KafkaCluster
from tests.support import patience
from tests.support.processes import ROOT
from tests.support.registry import ID, registry_process, with_fields

SESSION = ("--session-timeout-ms", "1500")
ONE = with_fields(ID)
SERVERS = re.compile(r'bootstrap_servers="(.*)"')


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(config={"group.min.session.timeout.ms": 100}) as cluster:
        yield cluster


class Asked(Exception):
    """An answer that is an error: status, and code of the registry."""


def ask(
    url: str, method: str = "GET", body: object = None, *, login: str = "", ca: Path | None = None
) -> Any:
    headers = {"content-type": "application/json"}
    if login:
        headers["authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    tls = None if ca is None else ssl.create_default_context(cafile=str(ca))
    try:
        with urllib.request.urlopen(request, timeout=60, context=tls) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise Asked(error.code, json.loads(error.read())["error_code"]) from None


def register(url: str, subject: str, name: str) -> int:
    """Until it is acknowledged: an instance without a primary says so."""

    def registered() -> int | None:
        body = {"schema": with_fields(ID, name=name)}
        try:
            return int(ask(f"{url}/subjects/{subject}/versions", "POST", body)["id"])
        except Asked as error:
            if error.args[0] != 500:
                raise
        return None

    return patience.until(registered, f"{subject} at {url}", 60)


def names(group: str) -> tuple[str, ...]:
    return ("--topic", f"_{group}", "--group", group, *SESSION)


@pytest.mark.nightly
def test_a_killed_primary_is_replaced_and_nothing_is_lost(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    told: dict[str, int] = {}
    options = names("killed")
    with (
        registry_process(kafka.bootstrap, tmp_path / "1", *options) as (first, command),
        registry_process(kafka.bootstrap, tmp_path / "2", *options) as (second, _),
    ):
        for number in range(6):
            url = (first, second)[number % 2]  # the second one forwards
            told[f"s{number}"] = register(url, f"s{number}", f"R{number}")
            assert ask(f"{second}/subjects/s{number}/versions") == [1]
        command.kill()
        command.wait()
        for number in range(6, 12):
            told[f"s{number}"] = register(second, f"s{number}", f"R{number}")
        with registry_process(kafka.bootstrap, tmp_path / "3", *options) as (third, _):
            told["s12"] = register(third, "s12", "R12")
            for url in (second, third):
                assert ask(f"{url}/subjects") == sorted(told)
                for number in range(13):
                    text = ask(f"{url}/schemas/ids/{told[f's{number}']}")["schema"]
                    assert json.loads(text)["name"] == f"R{number}"
    assert sorted(told.values()) == list(range(1, 14))


@pytest.mark.nightly
def test_a_primary_that_was_frozen_is_none_any_more(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = names("frozen")
    with (
        registry_process(kafka.bootstrap, tmp_path / "1", *options) as (first, command),
        registry_process(kafka.bootstrap, tmp_path / "2", *options) as (second, _),
    ):
        assert register(first, "a", "A") == 1
        command.send_signal(signal.SIGSTOP)
        assert register(second, "b", "B") == 2
        command.send_signal(signal.SIGCONT)
        assert register(first, "c", "C") == 3
        for url in (first, second):
            assert ask(f"{url}/subjects") == ["a", "b", "c"]
            assert json.loads(ask(f"{url}/schemas/ids/3")["schema"])["name"] == "C"


@pytest.mark.nightly
def test_many_clients_at_two_instances_get_one_id(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = names("many")
    with (
        registry_process(kafka.bootstrap, tmp_path / "1", *options) as (first, _),
        registry_process(kafka.bootstrap, tmp_path / "2", *options) as (second, _),
        ThreadPoolExecutor(8) as pool,
    ):
        calls = [(url, subject) for url in (first, second) for subject in "abcd" for _ in "12"]
        found = list(pool.map(lambda call: register(call[0], call[1], "Same"), calls))
        assert set(found) == {1}
        for url in (first, second):
            assert [ask(f"{url}/subjects/{subject}/versions") for subject in "abcd"] == [[1]] * 4


@pytest.mark.nightly
def test_an_instance_that_only_reads_forwards(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = names("reads")
    with registry_process(kafka.bootstrap, tmp_path / "1", *options, "--read-only") as (reads, _):
        assert ask(f"{reads}/subjects") == []
        with registry_process(kafka.bootstrap, tmp_path / "2", *options) as (_writes, _):
            assert register(reads, "a", "A") == 1
            assert ask(f"{reads}/subjects") == ["a"]


def test_tls_and_logins(kafka: KafkaCluster, tmp_path: Path) -> None:
    prepare_certificates(tmp_path, "registry", ["sr"], ["localhost"])
    certificate, ca = tmp_path / "sr.pem", tmp_path / "ca.pem"
    users = tmp_path / "users"
    users.write_text("# people\n\nada:love:lace\n")
    options = (*names("tls"), "--certificate", str(certificate), "--ca", str(ca))
    options += ("--users", str(users), "--advertised-host", "localhost")
    with (
        registry_process(kafka.bootstrap, tmp_path / "1", *options) as (first, _),
        registry_process(kafka.bootstrap, tmp_path / "2", *options) as (second, _),
    ):
        assert first.startswith("https://localhost:")
        for login in ("", "ada:x", "eve:love:lace", "ada"):
            with pytest.raises(Asked, match="401"):
                ask(f"{first}/subjects", login=login, ca=ca)
        body = {"schema": ONE}
        for url in (second, first):  # the login goes along to the primary
            path = f"{url}/subjects/a/versions"
            assert ask(path, "POST", body, login="ada:love:lace", ca=ca)["id"] == 1
        client = SchemaRegistryClient(
            {
                "url": second,
                "ssl.ca.location": str(ca),
                "basic.auth.user.info": "ada:love:lace",
            }
        )
        assert client.get_subjects() == ["a"]


def test_a_topic_that_would_lose_schemas_is_refused(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = kafka.topic("deleted", exact=True)
    with pytest.raises(Exception, match=r"must be compact"):
        registry_process(kafka.bootstrap, tmp_path / "1", "--topic", topic).__enter__()


@pytest.mark.nightly
def test_the_registry_of_a_test_cluster() -> None:
    with KafkaCluster(registry=True, secure=True) as kafka:
        client = SchemaRegistryClient({"url": kafka.schema_registry_url})
        assert client.register_schema("a", Schema(ONE, "AVRO")) == 1
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(client._rest_client.base_urls[0], timeout=5)


def test_it_comes_and_goes_with_pybroker_start() -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pybroker_kafka", "start", "--ephemeral", "--port", "0"),
            *("--zookeeper-port", "0", "--registry", "--registry-port", "0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT.parent,
    )
    assert process.stdout is not None
    try:
        shown = (re.search(r"registry: (http://\S+)", line) for line in process.stdout)
        url = next(found[1] for found in shown if found)
        assert register(url, "a", "A") == 1
        bootstrap = next(found[1] for line in process.stdout if (found := SERVERS.search(line)))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        (configs,) = admin.describe_configs([ConfigResource("broker", "1")]).values()
        assert configs.result(60)["pybroker.table.registry"].value == url  # for tables
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
