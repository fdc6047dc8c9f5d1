"""`pybroker start --secure` as its user has it: one cluster of two brokers for all of it.

Clients run what was written for them; strangers get nowhere. About 15 s. Spark at such a
cluster is in `test_spark`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click.testing
import confluent_kafka
import kafka.errors
import psutil
import pytest
import trio
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kazoo.client import KazooClient
from kazoo.exceptions import SessionClosedRequireSaslError

from pybroker_kafka.cli.main import main
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.exchanges import Exchanges
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.local.certificates import prepare_certificates
from pybroker_kafka.local.cluster_state import default_data_dir
from pybroker_kafka.local.secured import MEMBER
from pybroker_kafka.protocol.apis.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeRequest
from pybroker_kafka.protocol.sasl import ScramClient, ScramHash
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import PYBROKER

pytestmark = pytest.mark.timeout(240)

CLIENT_TIMEOUT_S = 120
BROKERS = 2


class SecureCluster(NamedTuple):
    """One that runs; `printed` is what its start said."""

    data_dir: Path
    state: Mapping[str, Any]
    printed: str

    @property
    def bootstrap(self) -> str:
        return str(self.state["bootstrap"])

    def file(self, user: str, name: str) -> Path:
        return self.data_dir / "security" / user / name

    def snippet(self, user: str, name: str) -> dict[str, Any]:
        """What the snippet of this name sets."""
        settings: dict[str, Any] = runpy.run_path(str(self.file(user, name)))["SECURED"]
        return settings

    def password(self, user: str) -> str:
        return (self.data_dir / "security" / f"{user}.password").read_text().strip()

    def run(self, *words: str, text: str = "", user: str = "admin") -> click.testing.Result:
        """One of our commands, in this process, which finds its credentials by itself."""
        runner = click.testing.CliRunner(env={"PYBROKER_DATA_DIR": str(self.data_dir)})
        login = ["--bootstrap-server", self.bootstrap, "--as", user]
        return runner.invoke(main, [*words, *login], input=text)

    def succeed(self, *words: str, text: str = "", user: str = "admin") -> str:
        done = self.run(*words, text=text, user=user)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def json(self, *words: str, text: str = "") -> Any:
        return json.loads(self.succeed(*words, "--json", text=text))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYBROKER, *words], capture_output=True, text=True, check=False)


def start_words(data_dir: Path) -> list[str]:
    words = ["start", "--secure", "--detach", "--brokers", str(BROKERS), "--port", "0"]
    return [*words, "--zookeeper-port", "0", "--data-dir", str(data_dir)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    data_dir = tmp_path_factory.mktemp("secured") / "data"
    started = command(*start_words(data_dir))
    assert started.returncode == 0, started.stderr
    try:
        status = command("status", "--json", "--data-dir", str(data_dir))
        assert status.returncode == 0, status.stderr
        yield SecureCluster(data_dir, json.loads(status.stdout), started.stdout)
    finally:
        command("stop", "--data-dir", str(data_dir))


@pytest.mark.nightly
def test_what_is_told(secured: SecureCluster) -> None:
    assert "secured" in secured.printed
    assert str(secured.file("user", "client.properties")) in secured.printed
    assert secured.state["secured"] is True
    assert secured.state["partitions"] is not None  # a broker has answered
    assert default_data_dir() != secured.data_dir
    shown = command("status", "--data-dir", str(secured.data_dir)).stdout
    assert "clients log in over TLS" in shown


def test_secrets_are_in_their_files_alone(secured: SecureCluster) -> None:
    directory = secured.data_dir / "security"
    secrets = [secured.password("admin"), secured.password("user")]
    secrets.append((directory / "zookeeper").read_text().strip().partition(":")[2])
    secrets.append((directory / "token-secret").read_text().strip())
    places = [json.dumps(secured.state).encode(), secured.printed.encode()]
    places.append((secured.data_dir / "cluster.json").read_bytes())
    places += [path.read_bytes() for path in (secured.data_dir / "logs").iterdir()]
    pids = [node["pid"] for node in secured.state["nodes"]] + [secured.state["supervisor_pid"]]
    for pid in pids:
        places += [Path(f"/proc/{pid}/{file}").read_bytes() for file in ("cmdline", "environ")]
    described = secured.succeed("acls", "list") + secured.succeed("users", "list")
    places.append(described.encode())
    for secret in secrets:
        assert len(secret) == 32
        assert not any(secret.encode() in place for place in places)


def test_clients_of_python(secured: SecureCluster) -> None:
    secured.succeed("topics", "create", "greetings", "-p", "1", user="user")
    names = ("with_kafka_python.py", "with_confluent_kafka.py", "with_aiokafka.py")
    processes = [
        subprocess.Popen(
            [sys.executable, str(secured.file("user", name))], stdout=subprocess.PIPE, text=True
        )
        for name in names
    ]
    for name, process in zip(names, processes, strict=True):
        printed, _ = process.communicate(timeout=CLIENT_TIMEOUT_S)
        assert (name, printed, process.returncode) == (name, "b'hello'\n", 0)


def test_what_kcat_is_given_is_librdkafkas(secured: SecureCluster) -> None:
    lines = secured.file("admin", "kcat.conf").read_text().splitlines()
    config: dict[str, str | int | float | bool] = {}
    for line in lines:
        key, _, value = line.partition("=")
        if not line.startswith("#"):
            config[key] = value
    brokers = AdminClient(config).list_topics(timeout=CLIENT_TIMEOUT_S).brokers
    assert sorted(brokers) == [1, 2]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat here: apt install kcat")
def test_kcat(secured: SecureCluster) -> None:
    """With the settings that it is given. That of Debian 12 has an old librdkafka."""
    secured.succeed("topics", "create", "by-kcat", "-p", "1", user="user")

    def kcat(*words: str, text: str = "") -> str:
        settings = ["-F", str(secured.file("user", "kcat.conf"))]
        done = subprocess.run(
            ["kcat", *settings, *words],
            input=text, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    kcat("-P", "-t", "by-kcat", text="one\ntwo\n")
    assert kcat("-C", "-t", "by-kcat", "-e", "-q") == "one\ntwo\n"


def test_kafkas_own_tools(secured: SecureCluster) -> None:
    def tool(main_class: str, user: str, *words: str) -> str:
        properties = str(secured.file(user, "client.properties"))
        login = ("--bootstrap-server", secured.bootstrap, "--command-config", properties)
        return kafka_tool(main_class, *login, *words)

    topics, acls = "org.apache.kafka.tools.TopicCommand", "kafka.admin.AclCommand"
    tool(topics, "user", "--create", "--topic", "java", "--partitions", "2")
    assert "java" in tool(topics, "user", "--list").split()
    tool(acls, "admin", "--add", "--allow-principal", "User:carol", "--consumer", "--topic",
         "java", "--group", "g")  # fmt: skip
    assert "User:carol" in tool(acls, "admin", "--list", "--topic", "java")
    ours = secured.json("acls", "list", "--principal", "carol")
    assert {(acl["resource"], acl["operation"]) for acl in ours} == {
        ("topic", "read"), ("topic", "describe"), ("group", "read"),
    }  # fmt: skip
    assert "User:dave" not in tool(acls, "admin", "--list")
    # And the other way: theirs is what ours adds.
    secured.succeed(
        "acls", "add", "--allow", "dave", "--consumer", "--topic", "java", "--group", "g"
    )
    mine = secured.json("acls", "list", "--principal", "dave")
    as_theirs = [{**acl, "principal": "User:dave"} for acl in ours]
    assert sorted(mine, key=str) == sorted(as_theirs, key=str)


def librdkafka_tells(config: dict[str, Any], wanted: str) -> bool:
    """Whether an error with this name or text comes, among others."""
    errors: list[str] = []
    producer = confluent_kafka.Producer(
        {**config, "error_cb": lambda error: errors.append(f"{error.name()} {error.str()}")}
    )
    for _ in range(CLIENT_TIMEOUT_S * 10):
        producer.poll(0.1)
        if any(wanted in error for error in errors):
            return True
    return False


def test_a_wrong_password(secured: SecureCluster) -> None:
    settings = secured.snippet("user", "with_kafka_python.py")
    settings["sasl_plain_password"] = "guessed"
    with pytest.raises(kafka.errors.KafkaError):
        KafkaProducer(**settings, bootstrap_timeout_ms=3000)
    config = secured.snippet("user", "with_confluent_kafka.py")
    assert librdkafka_tells({**config, "sasl.username": "nobody"}, "_AUTHENTICATION")


def test_nobody_learns_who_there_is(secured: SecureCluster) -> None:
    """What a broker says first to a user and to nobody differs in what is random alone."""
    trust = secured.file("user", "client.properties").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in trust)
    context = connector_from(settings).tls
    assert context is not None
    host, port = secured.bootstrap.split(",")[0].split(":")

    async def first_words(name: str) -> list[bytes]:
        tcp = await trio.open_tcp_stream(host, int(port))
        stream = trio.SSLStream(tcp, context, server_hostname=host)
        exchanges = Exchanges("probe")
        handshake = SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
        await exchanges.ask(stream, handshake, 1)
        client = ScramClient(ScramHash.SHA_512, name, "guess", "nonce")
        request = SaslAuthenticateRequest(auth_bytes=client.step(b""))
        answer = await exchanges.ask(stream, request, 2)
        await trio.aclose_forcefully(tcp)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == 0
        return bytes(answer.auth_bytes).split(b",")

    def shape(words: list[bytes]) -> tuple[bool, int, str, bytes]:
        salt = base64.b64decode(words[1].removeprefix(b"s=")).decode("ascii")
        return words[0].startswith(b"r=nonce"), len(salt), re.sub("[a-z0-9]", "", salt), words[2]

    user, nobody = (trio.run(first_words, name) for name in ("user", "nobody"))
    assert shape(user) == shape(nobody)


def test_a_plain_client_and_one_without_a_login(secured: SecureCluster, tmp_path: Path) -> None:
    with pytest.raises(kafka.errors.KafkaError):
        KafkaConsumer(bootstrap_servers=secured.bootstrap, bootstrap_timeout_ms=2000)
    config = secured.snippet("user", "with_confluent_kafka.py")
    # Who does not know the authority does not tell it a password.
    assert librdkafka_tells({**config, "ssl.ca.location": "probe"}, "certificate verify failed")
    tls_alone = tmp_path / "tls.properties"
    tls_alone.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={config['ssl.ca.location']}\n"
    )
    runner = click.testing.CliRunner(env={"PYBROKER_DATA_DIR": "/nowhere"})
    for login in ([], ["--command-config", str(tls_alone)]):
        words = ["topics", "list", "--bootstrap-server", secured.bootstrap, *login]
        done = runner.invoke(main, words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "security.protocol" in done.stderr


def test_a_stranger_where_brokers_meet(secured: SecureCluster, tmp_path: Path) -> None:
    """Without a certificate of the cluster's authority there is no way in, whatever the subject."""
    broker = next(node for node in secured.state["nodes"] if node["id"] == 1)
    listening = {
        found.laddr.port
        for found in psutil.Process(broker["pid"]).net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    }
    (port,) = listening - {broker["port"]}
    prepare_certificates(tmp_path, MEMBER, ["stranger"], ["127.0.0.1"])
    trust = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.data_dir / "security" / "ca.pem"),
    }
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "stranger.pem")}
    mine = {**store, "ssl.keystore.location": str(secured.data_dir / "security/supervisor.pem")}

    async def ask(settings: dict[str, str]) -> int:
        async with Cluster(f"127.0.0.1:{port}", security=settings) as cluster:
            return len((await cluster.metadata([])).brokers)

    assert trio.run(ask, trust | mine) == BROKERS
    for settings in ({}, trust, trust | store):
        with pytest.raises(ClientError):
            trio.run(ask, settings)


def test_a_stranger_at_zookeeper(secured: SecureCluster) -> None:
    client = KazooClient(secured.state["zookeeper"])
    client.start()
    try:
        with pytest.raises(SessionClosedRequireSaslError):
            client.get("/config/users/admin")
    finally:
        client.stop()
        client.close()


def test_users_and_what_they_may(secured: SecureCluster) -> None:
    made = secured.json("users", "add", "alice", "--generate")
    assert len(made["password"]) == 24
    assert "alice" in {user["user"] for user in secured.json("users", "list")}
    assert "there is a user" in secured.run("users", "add", "alice", "--generate").stderr
    secured.succeed("users", "alter", "alice", "--password-file", "-", text="another\n")
    # The first users' files follow.
    secured.succeed("users", "alter", "user", "--generate")
    refused = secured.run("topics", "delete", "greetings", user="user")
    assert refused.exit_code == 2
    assert "User:user is not allowed DELETE on topic 'greetings'" in refused.stderr
    advised = refused.stderr.partition("pybroker acls add ")[2].split()
    added = secured.json("acls", "add", *advised)
    assert [acl["operation"] for acl in added] == ["delete"]
    assert secured.json("acls", "remove", *advised) == added
    assert secured.json("users", "remove", "alice")["removed"] == [
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    ]
    secured.succeed("acls", "remove", "--allow", "user", "--operation", "create", "--topic", "*")
    refused = secured.run("produce", "missing", text="a\n", user="user")
    assert "User:user is not allowed CREATE on topic 'missing'" in refused.stderr
    refused = secured.run("users", "list", user="user")
    assert "is not allowed DESCRIBE on the cluster" in refused.stderr


@pytest.mark.nightly
def test_quotas(secured: SecureCluster) -> None:
    whom = ("--user", "bob", "--client-id", "dashboard")
    secured.succeed("quotas", "set", "producer_byte_rate=1000", "request_percentage=12.5", *whom)
    (found,) = secured.json("quotas", "describe", *whom)
    assert found == {
        "entity": {"user": "bob", "client-id": "dashboard"},
        "quotas": {"producer_byte_rate": 1000, "request_percentage": 12.5},
    }
    secured.succeed("quotas", "remove", "producer_byte_rate", "request_percentage", *whom)
    assert secured.json("quotas", "describe", *whom) == []
    secured.succeed("quotas", "set", "consumer_byte_rate=7", "--user-default")
    assert "consumer_byte_rate" in secured.succeed("quotas", "describe")
    secured.succeed("quotas", "remove", "consumer_byte_rate", "--user-default")


def test_tokens(secured: SecureCluster, tmp_path: Path) -> None:
    printed = secured.succeed("tokens", "create", "--hours", "1", user="user")
    settings = printed[printed.index("sasl.mechanism") :]
    (token,) = secured.json("tokens", "list")
    assert token["owner"] == "User:user"
    properties = tmp_path / "token.properties"
    trust = [
        line
        for line in secured.file("user", "client.properties").read_text().splitlines()
        if line.startswith(("ssl.", "security."))
    ]
    properties.write_text("\n".join([*trust, settings]))
    properties.chmod(0o600)
    login = ["--bootstrap-server", secured.bootstrap, "--command-config", str(properties)]
    runner = click.testing.CliRunner()
    assert runner.invoke(main, ["topics", "list", *login]).exit_code == 0
    renewed = json.loads(
        secured.succeed("tokens", "renew", token["token_id"], "--json", user="user")
    )
    assert renewed["expires_ms"] <= token["ends_ms"]
    assert "has ended" in secured.succeed("tokens", "expire", token["token_id"], user="user")
    assert secured.json("tokens", "list") == []


@pytest.mark.nightly
def test_a_broker_comes_back_and_nothing_opens(secured: SecureCluster) -> None:
    # What has come to harm is made again.
    (secured.data_dir / "security" / "broker-2.pem").write_bytes(b"rubbish")
    done = command("restart", "2", "--data-dir", str(secured.data_dir))
    assert done.returncode == 0, done.stderr
    assert "all led and fully replicated" in done.stdout
    assert "secured" in done.stdout
    stopped = command("stop", "--data-dir", str(secured.data_dir))
    assert stopped.returncode == 0, stopped.stderr
    words = start_words(secured.data_dir)
    opened = command(*(word for word in words if word != "--secure"))
    assert opened.returncode == 2
    assert "start it with --secure" in opened.stderr
    # A password that was lost is made again.
    os.unlink(secured.data_dir / "security" / "admin.password")
    assert command(*words).returncode == 0
    deadline = time.monotonic() + CLIENT_TIMEOUT_S
    while behind := under_replicated(secured):  # a start does not wait until all have caught up
        assert time.monotonic() < deadline, behind


def under_replicated(secured: SecureCluster) -> list[str]:
    found = command("status", "--json", "--data-dir", str(secured.data_dir))
    partitions: list[str] = json.loads(found.stdout)["under_replicated_partitions"]
    return partitions


@pytest.mark.nightly
def test_an_ephemeral_one_is_as_secure_and_leaves_nothing(tmp_path: Path) -> None:
    """In the foreground, until Ctrl-C."""
    words = ["start", "--ephemeral", "--secure", "--brokers", "1", "--port", "0"]
    process = subprocess.Popen(
        [*PYBROKER, *words, "--zookeeper-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, COLUMNS="300", TMPDIR=str(tmp_path)),
    )
    assert process.stdout is not None
    printed = ""
    try:
        while "the same for admin in" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        directory = Path(printed.split("logs: ")[1].split()[0])
        status = command("status", "--json", "--data-dir", str(directory))
        cluster = SecureCluster(directory, json.loads(status.stdout), printed)
        for path in directory.rglob("*"):
            assert not path.stat().st_mode & 0o077 or "security" not in path.parts, path
        assert cluster.succeed("topics", "create", "short-lived", "-p", "1", user="user")
        assert cluster.run("users", "list", user="user").exit_code != 0
        strangers: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(directory / "security" / "ca.pem"),
        }
        with pytest.raises(confluent_kafka.KafkaException):
            AdminClient(strangers).list_topics(timeout=3)
    finally:
        process.send_signal(signal.SIGINT)
        ended = process.stdout.read()
        assert process.wait(CLIENT_TIMEOUT_S) == 0
        process.stdout.close()
    assert "SIGKILL" not in ended  # that it ends so is nothing to tell
    assert list(tmp_path.iterdir()) == []
