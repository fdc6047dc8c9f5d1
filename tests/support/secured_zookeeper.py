"""A ZooKeeper, the real one or ours, with a TLS port that asks for certificates, and with SASL on
both ports."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.ensembles import OurMember
from tests.support.processes import free_port
from tests.support.real_zookeeper import real_zookeeper

SASL_USER, SASL_PASSWORD = "kafka", "kafka-secret"

SERVER_JAAS = f"""Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_{SASL_USER}="{SASL_PASSWORD}";
}};
"""


class SecuredZooKeeper(NamedTuple):
    """`port` is the plain one. The server's certificate names `localhost` alone."""

    port: int
    secure_port: int
    authority: Path
    broker_store: Path
    stranger_store: Path


@contextlib.contextmanager
def secured_zookeeper(directory: Path, kind: str = "real") -> Iterator[SecuredZooKeeper]:
    """Run one, "real" or "ours"; skips the test where there is none to run."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = make_authority(directory, "authority")
    server = make_store(directory, "server", authority, "subjectAltName=DNS:localhost")
    broker = make_store(directory, "broker", authority)
    strangers = make_authority(directory, "strangers")
    stranger = make_store(directory, "stranger", strangers)
    jaas = directory / "jaas.conf"
    jaas.write_text(SERVER_JAAS)
    secure_port = free_port()
    settings = {
        "secureClientPort": str(secure_port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "ssl.keyStore.location": str(server),
        "ssl.trustStore.location": str(authority),
        "ssl.clientAuth": "need",
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "ssl.hostnameVerification": "false",
    }
    login = f"-Djava.security.auth.login.config={jaas}"
    place = directory / kind
    if kind == "ours":
        ours = OurMember(place, 0, "", tick_ms=2000, settings=settings)
        ours.environment = {"SERVER_JVMFLAGS": login}
        ours.start()
        try:
            yield SecuredZooKeeper(ours.port, secure_port, authority, broker, stranger)
        finally:
            ours.kill()
        return
    with real_zookeeper(place, settings=settings, jvm_options=[login]) as port:
        yield SecuredZooKeeper(port, secure_port, authority, broker, stranger)


def make_authority(directory: Path, name: str) -> Path:
    """The certificate of a new authority; its key lies beside it."""
    certificate = directory / f"{name}.pem"
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-days", "2", "-subj", f"/CN={name}", "-keyout", str(directory / f"{name}.key")),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-out", str(certificate)),
    )
    return certificate


def make_store(directory: Path, name: str, authority: Path, extension: str = "") -> Path:
    """One PEM file with a certificate and its key."""
    key, request, store = (directory / f"{name}.{end}" for end in ("key", "csr", "pem"))
    extensions = directory / f"{name}.ext"
    extensions.write_text(extension + "\n")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority), "-days", "2"),
        *("-CAkey", str(authority.with_suffix(".key")), "-CAcreateserial"),
        *("-extfile", str(extensions), "-out", str(store)),
    )
    store.write_text(store.read_text() + key.read_text())
    return store


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
