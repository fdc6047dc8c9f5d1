"""A pytest plugin (`-p tests.support.kazoo_harness`) that runs kazoo's own suite on our ZooKeeper.

kazoo's harness (`kazoo.testing`) writes a zoo.cfg and starts `java ... QuorumPeerMain zoo.cfg`. It
is left as it is: a program named `java`, first on PATH, starts `pybroker zookeeper zoo.cfg` with
that file instead, and with its JAAS file; MEMBERS has the number of members of an ensemble. With
REAL_JARS set to a directory of jars, the real server runs under the same suite, for comparison.

Left out, each with its reason: tests that need an ensemble or TLS. Without TLS the harness's
certificates are of no use, so the two libraries that make them are replaced by mocks.
"""

import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from tests.support.processes import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
REAL_JARS = "PYBROKER_KAZOO_SUITE_JARS"
ENSEMBLE = "needs an ensemble; fails on one real server too"
NO_TLS = "the harness has no certificates here"
LEFT_OUT = {
    "test_update_host_list": ENSEMBLE,
    "TestReconfig": ENSEMBLE,
    "TestReadOnlyMode": ENSEMBLE,
    "TestSSLClient": NO_TLS,
}
LEFT_OUT_OF_ENSEMBLES = {
    "TestReconfig": "the members of an ensemble are fixed",
    "TestSSLClient": NO_TLS,
}
MEMBERS = "PYBROKER_KAZOO_SUITE_MEMBERS"
SERVER = """#!{python} -P
import os, sys
from pybroker_kafka.cli.main import main
with open(sys.argv[-1]) as file:
    lines = [line for line in file if "=" in line]
ours = sys.argv[-1] + ".ours"
with open(ours, "w") as file:
    file.writelines(line for line in lines if not line.startswith({not_ours}))
options = ("-Djava.security", "-Dreadonly")
os.environ["SERVER_JVMFLAGS"] = " ".join(it for it in sys.argv if it.startswith(options))
sys.exit(main(["zookeeper", ours]))
"""


# Of the harness's zoo.cfg: refused here, or with stores that are mocks.
NOT_OURS = ("secureClientPort=", "reconfigEnabled=", "localSessions")


def members() -> int:
    return int(os.environ.get(MEMBERS, "1"))


def pytest_configure(config: pytest.Config) -> None:
    jars = os.environ.get(REAL_JARS)
    if jars is None:
        directory = Path(tempfile.mkdtemp(prefix="kazoo-suite-"))
        program = directory / "java"
        program.write_text(SERVER.format(python=sys.executable, not_ours=NOT_OURS))
        program.chmod(0o755)
        os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"
    os.environ["ZOOKEEPER_CLASSPATH"] = f"{jars or ROOT}/*"
    os.environ["ZOOKEEPER_VERSION"] = "3.9.3"
    os.environ["ZOOKEEPER_CLUSTER_SIZE"] = str(members())
    os.environ["ZOOKEEPER_PORT_OFFSET"] = str(free_port(10 * members()))  # it counts on from there
    for name in ("OpenSSL", "jks"):
        sys.modules[name] = mock.MagicMock()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left_out = LEFT_OUT if members() == 1 else LEFT_OUT_OF_ENSEMBLES
    for item in items:
        for name, reason in left_out.items():
            if name in item.nodeid.split("::"):
                item.add_marker(pytest.mark.skip(reason=reason))
