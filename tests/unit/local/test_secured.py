"""The files of a secured cluster, what its brokers are told, and what is refused."""

import runpy
import stat
from pathlib import Path

import pytest

from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.local.client_files import FILES, client_files, write_client_files
from pybroker_kafka.local.cluster_spec import ClusterSpec
from pybroker_kafka.local.cluster_state import ClusterError, NodeState
from pybroker_kafka.local.first_users import user_acls
from pybroker_kafka.local.secured import ADMIN, USER, SecurityFiles
from pybroker_kafka.protocol.acls import AclOperation

BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093"


@pytest.fixture
def files(tmp_path: Path) -> SecurityFiles:
    made = SecurityFiles(tmp_path)
    made.prepare_secrets()
    made.prepare_certificates([1, 2], ["zookeeper-1"])
    write_client_files(made, BOOTSTRAP)
    return made


def test_nobody_else_may_read_them(files: SecurityFiles) -> None:
    found = [files.directory.parent, files.directory, *files.directory.rglob("*")]
    assert len(found) > 20
    for path in found:
        mode = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == mode, path


def test_secrets_are_made_once(files: SecurityFiles) -> None:
    assert files.new_users == {ADMIN, USER}
    again = SecurityFiles(files.directory.parent)
    again.prepare_secrets()
    assert again.new_users == set()
    assert again.password(ADMIN) == files.password(ADMIN) != files.password(USER)
    assert len(files.password(ADMIN)) == 32
    (files.directory / "user.password").unlink()
    again.prepare_secrets()
    assert again.new_users == {USER}


def test_a_directory_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir(mode=0o755)
    with pytest.raises(ClusterError, match="other users of this machine may have read"):
        SecurityFiles(tmp_path).prepare_secrets()


def test_a_broker_can_start_with_it(files: SecurityFiles) -> None:
    spec = ClusterSpec(
        files.directory.parent, zookeeper_credentials=files.zookeeper, security=files
    )
    node = NodeState("broker", 2, 0, "127.0.0.1", 9093, str(files.directory.parent / "b2"), "")
    config = spec.broker_config(node, "127.0.0.1:2181")
    check_config(config)
    assert [str(one) for one in config.listeners] == [
        "SASL_SSL://127.0.0.1:9093",
        "INTERNAL://127.0.0.1:0",
    ]
    assert config.inter_broker_listener == "INTERNAL"
    assert not config.get_boolean("allow.everyone.if.no.acl.found")


def test_open_is_never_meant_by_silence(files: SecurityFiles) -> None:
    with pytest.raises(ClusterError, match="start it with --secure"):
        ClusterSpec(files.directory.parent).check()


@pytest.mark.parametrize(
    "key",
    [
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "security.inter.broker.protocol",
        "control.plane.listener.name",
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "sasl.enabled.mechanisms",
        "ssl.client.auth",
        "listener.name.internal.ssl.client.auth",
        "zookeeper.set.acl",
        "pybroker.allow.ineffective.security",
        "delegation.token.secret.key",
    ],
)
def test_no_door_is_opened_by_config(tmp_path: Path, key: str) -> None:
    spec = ClusterSpec(tmp_path, security=SecurityFiles(tmp_path), overrides={key: "true"})
    with pytest.raises(ClusterError, match=f"{key} is not for --config of a secured cluster"):
        spec.check()


def test_an_ensemble_of_others_needs_credentials(tmp_path: Path) -> None:
    spec = ClusterSpec(tmp_path, zookeeper_connect="zk:2181", security=SecurityFiles(tmp_path))
    with pytest.raises(ClusterError, match="needs --zookeeper-credentials"):
        spec.check()


def test_what_user_may_do() -> None:
    acls = user_acls()
    assert {acl.principal for acl in acls} == {"User:user"}
    allowed = {AclOperation(acl.operation) for acl in acls if acl.permission == 3}
    assert not allowed & {AclOperation.ALL, AclOperation.DELETE, AclOperation.ALTER}
    denied = {acl.resource_name for acl in acls if acl.permission == 2}
    assert {"__consumer_offsets", "__transaction_state"} <= denied


@pytest.mark.parametrize("user", [ADMIN, USER])
def test_settings_are_ready_to_paste(files: SecurityFiles, user: str) -> None:
    made = client_files(files, user, BOOTSTRAP)
    assert set(made) == set(FILES)
    for name, text in made.items():
        assert files.password(user) in text
        assert BOOTSTRAP in text
        path = files.directory / user / name
        assert path.read_text() == text
        if name == "with_spark.py":
            settings = runpy.run_path(str(path))["SECURED"]
            assert settings["kafka.sasl.jaas.config"] in made["client.properties"]
        elif path.suffix == ".py":
            compile(text, name, "exec")
    assert connector_from(files.client_settings(user)).protocol == "SASL_SSL"
    assert connector_from(files.internal_settings()).protocol == "SSL"


def test_a_password_may_have_any_characters(files: SecurityFiles) -> None:
    files.keep_password(USER, 'a"b\\c')
    assert files.password(USER) == 'a"b\\c'
    assert connector_from(files.client_settings(USER)).login is not None
