"""Key stores of a running listener: altered (KIP-226), replaced on disk, and what is refused.

One broker with a plain listener and one of TLS; about three seconds.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from kazoo.client import KazooClient

from pybroker_kafka.broker.security import password_encoder
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.support.certificates import PASSWORD, Authority, Pair, pem
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, running_broker
from tests.support.wire import WireClient

KEYS = "listener.name.tls.ssl."
SECRET = "the-encoder's-secret"
INVALID_REQUEST = 42
AUTHORITY = Authority()


class Running:
    def __init__(self, broker: BrokerProcess, plain: int, tls: int, directory: Path) -> None:
        self.broker, self.plain, self.tls, self.directory = broker, plain, tls, directory
        self.context = ssl.create_default_context(cadata=pem(AUTHORITY.certificate))

    def serial_number(self) -> int:
        """Of the certificate that a new connection sees."""
        with WireClient(f"127.0.0.1:{self.tls}", tls=self.context) as kafka:
            kafka.call(MetadataRequest(topics=[]), 9)
            assert isinstance(kafka.socket, ssl.SSLSocket)
            der = kafka.socket.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der).serial_number

    def wait_for(self, pair: Pair) -> None:
        until(
            lambda: self.serial_number() == pair.certificate.serial_number,
            lambda: self.broker.log_text[-3000:],
        )

    def stored(self) -> dict[str, str]:
        """What ZooKeeper has."""
        properties = (self.directory / "broker" / "server.properties").read_text()
        match = re.search(r"zookeeper\.connect=(.*)", properties)
        assert match is not None
        client = KazooClient(match[1])
        client.start()
        try:
            config: dict[str, str] = json.loads(client.get("/config/brokers/1")[0])["config"]
            return config
        finally:
            client.stop()

    def alter(self, **values: str) -> str | None:
        """The error message; None if it was done."""
        configs = [
            IncrementalAlterConfigsRequestAlterableConfig(
                name=KEYS + name.replace("_", "."), config_operation=0, value=value
            )
            for name, value in values.items()
        ]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=4, resource_name="1", configs=configs
        )
        with WireClient(f"127.0.0.1:{self.plain}") as kafka:
            (answer,) = kafka.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert answer.error_code in (0, INVALID_REQUEST)
        message: str | None = answer.error_message if answer.error_code else None
        return message


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("tls-changes")
    plain = free_port(2)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{plain + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL",
        "ssl.keystore.location": str(AUTHORITY.server().write_pkcs12(directory / "first.p12")),
        "ssl.keystore.password": PASSWORD,
        "password.encoder.secret": SECRET,
    }
    with running_broker(directory, config) as broker:
        yield Running(broker, plain, plain + 1, directory)


def test_new_connections_get_the_altered_key_store(running: Running) -> None:
    other = AUTHORITY.server()
    path = other.write_jks(running.directory / "second.jks", "another-secret")
    with WireClient(f"127.0.0.1:{running.tls}", tls=running.context) as old:
        assert (
            running.alter(keystore_location=str(path), keystore_password="another-secret") is None
        )
        running.wait_for(other)
        old.call(MetadataRequest(topics=[]), 9)

    replaced = AUTHORITY.server()
    replaced.write_jks(path, "another-secret")
    assert running.alter(keystore_location=str(path)) is None
    running.wait_for(replaced)

    # Password and key are nowhere to be read.
    with WireClient(f"127.0.0.1:{running.plain}") as kafka:
        asked = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
        (described,) = kafka.call(
            DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        ).results
    shown = {entry.name: entry for entry in described.configs}
    assert shown[KEYS + "keystore.location"].value == str(path)
    assert shown[KEYS + "keystore.password"].value is None
    assert shown[KEYS + "keystore.password"].is_sensitive
    assert "another-secret" not in repr(described)
    assert "another-secret" not in running.broker.log_text
    stored = running.stored()
    assert "another-secret" not in repr(stored)
    encoded = stored[KEYS + "keystore.password"]
    assert password_encoder.decode(SECRET, encoded) == "another-secret"


def test_what_clients_would_not_know_again_is_refused(running: Running) -> None:
    directory, before = running.directory, running.serial_number()
    stranger = AUTHORITY.server("somebody-else").write_pkcs12(directory / "stranger.p12")
    poorer = AUTHORITY.server(names=["127.0.0.1"]).write_pkcs12(directory / "poorer.p12")
    for values, told in (
        (
            {"keystore_location": str(stranger), "keystore_password": PASSWORD},
            "DistinguishedName does not match",
        ),
        (
            {"keystore_location": str(poorer), "keystore_password": PASSWORD},
            "SubjectAltNames do not match",
        ),
        ({"keystore_location": "/none"}, "No such file"),
        ({"keystore_password": "wrong"}, "the password is wrong"),
        ({"truststore_location": "/none"}, "No such file"),
        ({"keystore_type": "BCFKS"}, "use one of"),
        ({"engine_factory_class": "a.B"}, "it names a Java class"),
    ):
        message = running.alter(**values)
        assert message is not None, values
        assert told in message
        assert 'wrong"' not in message
    assert running.serial_number() == before
