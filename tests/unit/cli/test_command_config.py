"""--command-config: what is wrong with the file is one line and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker_kafka.cli.main import main


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("security.protocol=TLS\n", "security.protocol=TLS is not one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "sasl.jaas.config is not set"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/none/ca\n",
            "ssl.truststore.location=/none/ca",
        ),
        ("a=\\u12\n", "cannot be read as properties"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    command = ["topics", "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert line in result.output
    assert "Traceback" not in result.output


def test_a_missing_file() -> None:
    where = ["--bootstrap-server", "localhost:1"]  # else clusters of this machine are looked for
    command = ["topics", "list", *where, "--command-config", "/none/file"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "/none/file" in result.output
