"""The JAAS file of a broker: which section and module of it counts, and what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.loading import from_environment
from pybroker_kafka.broker.config.sasl_config import broker_login, mechanism_configs

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
STATIC = {
    "zookeeper.connect": "localhost:2181",
    "listeners": "IN://h:1,OUT://h:2",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
TEXT = f"""
/* Of all listeners */
KafkaServer {{
    {SCRAM} required  # no option
      username='broker' password="scram-pass";
    {PLAIN} required
      username="broker" password="plain-pass"
      user_broker="plain-pass"
      user_alice="alice \\"pass\\"";
}};
out.KafkaServer {{
    {PLAIN} required user_bob="b";
}};
Client {{ }};
""".replace("# no option", "// no option")


def config_of(file: Path, text: str, **more: str) -> KafkaConfig:
    file.write_text(text)
    os.utime(file, ns=(0, hash(text) & 0xFFFFFFFF))
    given = {name.replace("_", "."): value for name, value in more.items()}
    options = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={file}"}
    return KafkaConfig({**STATIC, **from_environment(options), **given})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server_jaas.conf"


def test_a_section_of_the_listener_comes_before_that_of_all(file: Path) -> None:
    config = config_of(file, TEXT)
    check_config(config)
    inside, outside = (mechanism_configs(config, name) for name in ("IN", "OUT"))
    assert inside["PLAIN"].options["user_alice"] == 'alice "pass"'
    assert outside["PLAIN"].options == {"user_bob": "b"}
    login = broker_login(config, "IN")
    assert (login.mechanism, login.name) == ("PLAIN", "broker")


def test_the_key_comes_before_the_file(file: Path) -> None:
    key = "listener.name.in.plain.sasl.jaas.config"
    config = config_of(file, TEXT, **{key: f'{PLAIN} required username=k password=k user_k="k";'})
    assert mechanism_configs(config, "IN")["PLAIN"].options["user_k"] == "k"
    assert broker_login(config, "IN").name == "k"


def test_scram_among_brokers(file: Path) -> None:
    config = config_of(file, TEXT, sasl_mechanism_inter_broker_protocol="SCRAM-SHA-256")
    check_config(config)
    assert broker_login(config, "IN").name == "broker"


def test_the_file_is_read_again_once_it_has_changed(file: Path) -> None:
    config = config_of(file, TEXT)
    mechanism_configs(config, "IN")
    file.write_text(TEXT.replace("user_alice", "user_eve"))
    assert "user_eve" in mechanism_configs(config, "IN")["PLAIN"].options


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "KafkaServer {",
            r"server_jaas.conf is no JAAS file: .*KafkaServer does not end \(line 1\)",
        ),
        (f"\n\nKafkaServer {{ {PLAIN}\n required user_a=hidden }};", r"no JAAS file: .*\(line 4\)"),
        ("KafkaServer { };", f"KafkaServer of .*no login module for PLAIN; add: {PLAIN}"),
        ("KafkaClient { };", "is not set, and .* has no section in.KafkaServer or KafkaServer"),
        (f"KafkaServer {{ {OAUTH} required; }};", "no login module for PLAIN"),
        (TEXT.replace('username="broker" password="plain-pass"', ""), "no username and password"),
        ("KafkaServer { }; KafkaServer { };", r"a second section KafkaServer \(line 1\)"),
    ],
)
def test_what_is_wrong_says_where_and_what_to_do(file: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        check_config(config_of(file, text))
    assert "hidden" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    config = KafkaConfig({**STATIC, "pybroker.jaas.file": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"login.config\): cannot read .*none: No such file"):
        check_config(config)


def test_the_file_of_kerberos_is_taken_too() -> None:
    options = {
        "KAFKA_OPTS": "-Djava.security.krb5.conf=/etc/my.conf -Dsun.security.krb5.debug=true"
    }
    assert from_environment(options) == {"pybroker.kerberos.config.file": "/etc/my.conf"}
