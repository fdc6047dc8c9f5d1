import subprocess
import sys
from pathlib import Path

BEFORE_TRIO = """
import sys
from pybroker_kafka.broker.resources.late_import import import_at_first_use

import_at_first_use("idna")
import_at_first_use("no_module_of_this_name")
import trio

assert "no_module_of_this_name" not in sys.modules
assert trio.run(trio.socket.getaddrinfo, "127.0.0.1", 80)[0][4] == ("127.0.0.1", 80)
import idna as late

assert "idna.core" not in sys.modules
assert late.encode("bücher.example", uts46=True) == b"xn--bcher-kva.example"
import idna

assert idna is not late
assert idna.encode is late.encode
import_at_first_use("idna")
assert sys.modules["idna"] is idna
try:
    trio.run(trio.socket.getaddrinfo, "bü", -1)
except OSError:
    pass
"""

A_ZOOKEEPER = """
import sys
from pybroker_kafka.cli.main import main

main(["zookeeper", "--cut-damaged-log", "--data-dir", sys.argv[1]], standalone_mode=False)
assert "trio" in sys.modules
assert {"idna.core", "_ssl"}.isdisjoint(sys.modules)
"""


def run(source: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", source, *arguments], check=True)


def test_a_module_loads_at_its_first_use() -> None:
    run(BEFORE_TRIO)


def test_a_zookeeper_loads_neither_tables_of_names_nor_tls(tmp_path: Path) -> None:
    """Its memory is compared with that of Apache ZooKeeper: `benchmarks.ensembles`."""
    run(A_ZOOKEEPER, str(tmp_path))
