"""The options that all pipelines share; no Spark runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.spark_jobs import pipeline


def parse(*arguments: str) -> pipeline.Options:
    parser = pipeline.parser("text", input_topic="in", output_dir="out")
    given = parser.parse_args(["--bootstrap-servers", "here:9092", *arguments])
    return pipeline.Options(**pipeline.options_of(given))


def test_paths_are_absolute_and_addresses_stay() -> None:
    assert parse().output_dir == str(Path("out").absolute())
    assert parse().checkpoint_dir == str(Path("out/checkpoint").absolute())
    found = parse("--output-dir", "s3a://bucket/out", "--checkpoint", "hdfs:///checkpoint")
    assert (found.output_dir, found.checkpoint_dir) == ("s3a://bucket/out", "hdfs:///checkpoint")


def test_logins_go_to_source_and_sink_and_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.jaas.config=secret\nbootstrap.servers=no\n")
    options = parse("--command-config", str(file))
    assert options.client() == {
        "kafka.bootstrap.servers": "here:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "secret",
    }
    assert "secret" not in repr(options)


def test_the_help_is_the_pipelines_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--help")
    assert ended.value.code == 0
    assert "--dead-letter-topic" in capsys.readouterr().out
