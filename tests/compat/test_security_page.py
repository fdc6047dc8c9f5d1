"""docs/SECURITY.md: its steps by hand, its care of a cluster and its logins do what they say.

About 15 s.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import click.testing
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.config.sasl_config import mechanism_configs
from pybroker_kafka.cli.main import main
from pybroker_kafka.testing import KafkaCluster
from tests.support.processes import PYBROKER, ROOT, free_port, running_broker

PAGE = ROOT / "docs" / "SECURITY.md"
WAIT_SECONDS = 120.0

pytestmark = pytest.mark.timeout(180)


PYBROKER_COMMAND = " ".join(PYBROKER)
# One small broker at free ports wherever the page starts a cluster.
A_SMALL_CLUSTER = f"""
pybroker() {{
  if [ "$1" = start ]; then
    shift
    set -- start --brokers 1 --port 0 --zookeeper-port 0 "$@"
  fi
  {PYBROKER_COMMAND} "$@"
}}
"""
LISTENER = "SASL_SSL"
KEY = ec.generate_private_key(ec.SECP256R1())


def part(title: str) -> str:
    """What stands below a title, up to the next one of its rank."""
    _, found, text = PAGE.read_text().partition(f"{title}\n")
    assert found
    return re.split(rf"^{title.split()[0]} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def commands_in(text: str) -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_steps_by_hand(tmp_path: Path) -> None:
    script = commands_in(part("## By hand"))
    broker = free_port(2)
    ports = {"2181": free_port(), "9092": broker, "9192": broker + 1}
    for written, port in ports.items():
        script = re.sub(rf"\b{written}\b", str(port), script)
    prologue = f'pybroker() {{ {PYBROKER_COMMAND} "$@"; }}\n'
    environment = {**os.environ, "PYBROKER_DATA_DIR": str(tmp_path / "nothing")}
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            ["bash", "-euc", prologue + script],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        # The brokers that it has started in the background outlive it.
        while process.poll() is None:
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    printed = output.read_text()
    assert process.returncode == 0, printed
    for line in (
        "added user admin, for SCRAM-SHA-256 and SCRAM-SHA-512",
        "added 5 ACLs",
        "created topic flights with 1 partition",
        "\nhello\n",
        "of User:alice, good until",
    ):
        assert line in printed, printed


@pytest.mark.nightly
def test_looking_after_a_cluster(tmp_path: Path) -> None:
    script = commands_in(part("## Looking after a secured cluster"))
    data_dir = tmp_path / "data"
    environment = {**os.environ, "PYBROKER_DATA_DIR": str(data_dir)}
    with KafkaCluster(secure=True, data_dir=data_dir) as cluster:
        cluster.topic("kept")
        names = ("broker-1.pem", "ca.pem", "admin.password")
        before = {name: (data_dir / "security" / name).read_bytes() for name in names}
        try:
            done = subprocess.run(
                ["bash", "-euc", A_SMALL_CLUSTER + script + "\npybroker status --json"],
                env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
            )  # fmt: skip
        finally:  # it has started another cluster there
            subprocess.run([*PYBROKER, "stop"], env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"admin +SCRAM-SHA-512", done.stdout)
    printed, brace, status = done.stdout.partition("\n{")
    assert printed.rstrip().endswith("\nkept")
    assert not json.loads(brace + status)["secured"]
    files = data_dir / "security-before"
    assert all((files / name).read_bytes() != text for name, text in before.items())


def logins() -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """The settings of the page for a broker and for a client, by what is bold above them."""
    found = {}
    for block in re.split(r"^\*\*", part("### Other logins").split("\n## ")[0], flags=re.MULTILINE)[
        1:
    ]:
        (text,) = re.findall(r"```properties\n# the broker\n(.*?)```", block, re.DOTALL)
        sides = [
            dict(line.split("=", 1) for line in side.splitlines())
            for side in text.split("# a client\n")
        ]
        found[block.split("**")[0]] = (sides[0], sides[1])
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """With all that the page says of brokers, but Kerberos and TLS; its bootstrap and directory."""
    directory = tmp_path_factory.mktemp("logins")
    jwk = {**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), True), "kid": "one"}
    (directory / "keys").write_text(json.dumps({"keys": [jwk]}))
    configs: dict[str, str] = {}
    mechanisms = []
    for name, (of_broker, _) in logins().items():
        if name != "GSSAPI":
            mechanisms.append(of_broker["sasl.enabled.mechanisms"])
            configs |= of_broker
    port = free_port(2)
    configs |= {
        "listeners": f"{LISTENER}://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys").as_uri(),
        "delegation.token.secret.key": "secret",
    }
    with running_broker(directory, configs):
        yield f"127.0.0.1:{port}", directory


def lists_topics(broker: tuple[str, Path], settings: dict[str, str]) -> None:
    bootstrap, directory = broker
    file = directory / "client.properties"
    lines = {"security.protocol": "SASL_PLAINTEXT", **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    run(["topics", "list"], bootstrap, file)


def run(words: list[str], bootstrap: str, file: Path) -> str:
    login = ["--bootstrap-server", bootstrap, "--command-config", str(file)]
    done = click.testing.CliRunner().invoke(main, [*words, *login])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_a_login_with_a_password(broker: tuple[str, Path]) -> None:
    lists_topics(broker, logins()["PLAIN"][1])


def test_a_login_with_a_signed_token(broker: tuple[str, Path]) -> None:
    rules, settings = logins()["OAUTHBEARER"]
    claims = {
        "sub": "alice",
        "iat": time.time(),
        "exp": time.time() + 600,
        "iss": rules["sasl.oauthbearer.expected.issuer"],
        "aud": rules["sasl.oauthbearer.expected.audience"],
    }
    token = broker[1] / "token"
    token.write_text(jwt.encode(claims, KEY, "ES256", headers={"kid": "one"}))
    lists_topics(broker, {**settings, "sasl.oauthbearer.token.endpoint.url": token.as_uri()})


def test_a_login_with_a_delegation_token(broker: tuple[str, Path]) -> None:
    lists_topics(broker, logins()["PLAIN"][1])
    made = json.loads(
        run(["tokens", "create", "--json"], broker[0], broker[1] / "client.properties")
    )
    settings = logins()["A delegation token"][1]
    jaas = settings["sasl.jaas.config"].replace("TOKEN_ID", made["token_id"])
    settings["sasl.jaas.config"] = jaas.replace("HMAC", made["hmac"])
    lists_topics(broker, settings)


def test_kerberos_is_configured_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login itself is in `test_kerberos`."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    of_broker, _ = logins()["GSSAPI"]
    config = KafkaConfig({"listeners": f"{LISTENER}://127.0.0.1:1", **of_broker})
    kerberos = mechanism_configs(config, LISTENER)["GSSAPI"].kerberos
    assert kerberos is not None
    assert kerberos.principal == "kafka/broker.example.com@EXAMPLE.COM"
