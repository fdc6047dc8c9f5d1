"""ZooKeeper's own Java client, as its command line, on our server and on the real one.

The same commands are typed into both; what is printed must be the same, times and ports aside.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.real_zookeeper import jars, real_zookeeper
from tests.support.short_lived_java import JVM_OPTIONS

pytestmark = pytest.mark.nightly

CLIENT_CLASS = "org.apache.zookeeper.ZooKeeperMain"
TIMEOUT_S = 120

# removewatches and the like are followed by a read, so that their events come out in order.
COMMANDS = """
create /a hello
create -s /a/s- x
create -e /a/e x
create -c /c
create -t 600000 /t v
create /missing/parent x
get -s -w /a
set /a world
set -v 7 /a never
get /a
addWatch -m PERSISTENT_RECURSIVE /a
create /a/deep
get /a/deep
ls -R /
ls -w /c
create /c/child
ls -s /c
getAllChildrenNumber /
getEphemerals
getEphemerals /a
getAcl /a
addauth digest u:p
setAcl /a auth:u:p:cdrwa
getAcl -s /a
setAcl /a none:x:r
whoami
sync /a
stat /a
delete /a
delete /c/child
deleteall /a
ls /
create /zookeeper
delete /zookeeper
reconfig -add 1
close
quit
"""
NOISE = re.compile(r"^(\[zk: |[cm]time = |Connecting to |Welcome|JLine)|^\s*$")


def run_commands(port: int) -> list[str]:
    process = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", f"{jars()}/*", CLIENT_CLASS, "-server", f"127.0.0.1:{port}"],
        input=COMMANDS,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    output = process.stdout + process.stderr
    assert "Created /c/child" in output, output
    # Events are printed by another thread: the order of lines is not the order of what happened,
    # and a command may be echoed on a line of its own.
    echoed = set(COMMANDS.splitlines())
    lines = output.splitlines()
    return sorted(line for line in lines if not NOISE.match(line) and line not in echoed)


@pytest.mark.timeout(300)
def test_the_java_client_sees_no_difference(tmp_path: Path) -> None:
    if jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")
    with embedded_zookeeper(tmp_path / "ours", tick_ms=2000, container_check_ms=600_000) as port:
        ours = run_commands(port)
    with real_zookeeper(tmp_path / "real", container_check_ms=600_000) as port:
        assert ours == run_commands(port)
