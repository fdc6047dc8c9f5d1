"""Subjects, versions and ids; deletes, configs and modes; the records that each change writes."""

from __future__ import annotations

import json

import pytest

from pybroker_kafka.registry.entities import Content, Reference
from pybroker_kafka.registry.errors import Rejected
from pybroker_kafka.registry.reads import LATEST
from tests.support.registry import AGE, ID, MAIL, Desk, with_fields

ONE, TWO, OTHER = with_fields(ID), with_fields(ID, MAIL), with_fields(AGE, name="Other")


def refused(status: int, code: int) -> pytest.RaisesExc[Rejected]:
    def is_it(error: Rejected) -> bool:
        assert (error.status, error.code) == (status, code), error.message
        return True

    return pytest.RaisesExc(Rejected, check=is_it)


def keys(desk: Desk) -> list[str]:
    return [f"{json.loads(key)['keytype']}{'' if value else ' gone'}" for key, value in desk.log]


def test_versions_count_up_and_one_content_has_one_id() -> None:
    desk = Desk()
    first, second = desk.register("a", ONE), desk.register("a", TWO)
    assert [(one.version, one.id) for one in (first, second)] == [(1, 1), (2, 2)]
    assert desk.register("a", ONE) == first
    assert desk.register("b", ONE).id == 1
    assert desk.register("b", f"  {ONE}\n").version == 1
    assert len(desk.log) == 3
    assert desk.reads.found("a", LATEST) == second
    assert desk.state.next_id(".") == 3


def test_the_records_are_confluents() -> None:
    desk = Desk()
    desk.register("a", ONE)
    desk.register("b", OTHER, references=(Reference("User", "a", 1),))
    desk.take(desk.writes.update_config("a", {"compatibility": "full"}))
    desk.take(desk.writes.update_config(None, {"compatibility": "NONE"}))
    desk.take(desk.writes.update_mode("a", "READONLY", force=False))
    desk.take(desk.writes.delete_subject("b", permanent=False))
    texts = {ONE: ONE.replace(" ", ""), OTHER: OTHER.replace(" ", "")}
    assert desk.log == [
        (
            b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            b'{"subject":"a","version":1,"id":1,"schema":%b,"deleted":false}'
            % json.dumps(texts[ONE]).encode(),
        ),
        (
            b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}',
            b'{"subject":"b","version":1,"id":2,"references":[{"name":"User","subject":"a",'
            b'"version":1}],"schema":%b,"deleted":false}' % json.dumps(texts[OTHER]).encode(),
        ),
        (
            b'{"keytype":"CONFIG","subject":"a","magic":0}',
            b'{"subject":"a","compatibilityLevel":"FULL"}',
        ),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"NONE"}'),
        (
            b'{"keytype":"MODE","subject":"a","magic":0}',
            b'{"subject":"a","mode":"READONLY"}',
        ),
        (
            b'{"keytype":"DELETE_SUBJECT","subject":"b","magic":0}',
            b'{"subject":"b","version":1}',
        ),
    ]


def test_an_instance_that_reads_the_topic_has_the_same_content() -> None:
    desk = Desk()
    for text in (ONE, TWO):
        desk.register("a", text)
    desk.register(":.eu:a", ONE)
    desk.take(desk.writes.delete_version("a", 1, permanent=False))
    other = desk.replayed()
    for one in (desk, other):
        assert [(x.version, x.deleted) for x in one.state.versions("a", deleted=True)] == [
            (1, True), (2, False),
        ]  # fmt: skip
        assert one.state.next_id(".") == 3
        assert one.state.contexts() == [".", ".eu"]


def test_an_incompatible_schema_is_refused_and_writes_nothing() -> None:
    desk = Desk()
    desk.register("a", ONE)
    with refused(409, 409) as error:
        desk.register("a", with_fields(ID, AGE))
    assert "Schema being registered is incompatible with an earlier schema" in str(error.value)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(error.value)
    assert "compatibility: 'BACKWARD'" in str(error.value)
    assert len(desk.log) == 1
    desk.take(desk.writes.update_config("a", {"compatibility": "NONE"}))
    assert desk.register("a", with_fields(ID, AGE)).version == 2


def test_deletes_are_soft_then_hard() -> None:
    desk = Desk()
    for text in (ONE, TWO):
        desk.register("a", text)
    with refused(404, 40405):
        desk.writes.delete_subject("a", permanent=True)
    with refused(404, 40407):
        desk.writes.delete_version("a", 1, permanent=True)
    assert desk.take(desk.writes.delete_version("a", 1, permanent=False)) == 1
    with refused(404, 40406):
        desk.writes.delete_version("a", 1, permanent=False)
    with refused(404, 40402):
        desk.writes.delete_version("a", 7, permanent=False)
    assert desk.reads.by_id(1, None).content.text == ONE.replace(" ", "")  # still read by its id
    assert desk.take(desk.writes.delete_version("a", 1, permanent=True)) == 1
    with refused(404, 40403):
        desk.reads.by_id(1, None)
    assert desk.take(desk.writes.delete_subject("a", permanent=False)) == [2]
    with refused(404, 40404):
        desk.writes.delete_subject("a", permanent=False)
    desk.take(desk.writes.update_config("a", {"compatibility": "FULL"}))
    assert desk.take(desk.writes.delete_subject("a", permanent=True)) == [2]
    assert desk.state.config("a") is None
    with refused(404, 40401):
        desk.writes.delete_subject("a", permanent=True)
    assert desk.register("a", ONE).version == 1


def test_a_softly_deleted_schema_comes_back_with_its_id_as_a_new_version() -> None:
    desk = Desk()
    desk.register("a", ONE)
    desk.register("a", TWO)
    desk.take(desk.writes.delete_version("a", 1, permanent=False))
    again = desk.register("a", ONE)
    assert (again.version, again.id) == (3, 1)
    assert keys(desk)[-2:] == ["SCHEMA gone", "SCHEMA"]
    assert [one.version for one in desk.state.versions("a", deleted=True)] == [2, 3]


def test_what_is_referred_to_is_not_deleted() -> None:
    desk = Desk()
    desk.register("a", ONE)
    outer = with_fields({"name": "user", "type": "User"}, name="Order")
    desk.register("b", outer, references=(Reference("User", "a", 1),))
    with refused(422, 42206):
        desk.writes.delete_version("a", 1, permanent=False)
    with refused(422, 42206):
        desk.writes.delete_subject("a", permanent=False)
    assert [one.subject for one in desk.state.referrers(("a", 1))] == ["b"]
    desk.take(desk.writes.delete_subject("b", permanent=False))
    desk.take(desk.writes.delete_subject("a", permanent=False))
    with refused(422, 42206):  # b may come back
        desk.writes.delete_subject("a", permanent=True)


def test_references_are_resolved() -> None:
    desk = Desk()
    desk.register("a", ONE)
    outer = with_fields({"name": "user", "type": "User"}, name="Order")
    with refused(422, 42201):
        desk.register("b", outer)
    with refused(422, 42201):
        desk.register("b", outer, references=(Reference("User", "a", 2),))
    mine = desk.register("b", outer, references=(Reference("User", "a", 1),))
    assert mine.content.text == outer.replace(" ", "")
    whole = json.dumps({**json.loads(outer), "fields": [{"name": "user", "type": json.loads(ONE)}]})
    assert desk.reads.formatted(mine, "resolved").text == whole.replace(" ", "")
    found = desk.reads.under_subject("b", Content(whole), normalize=False)
    assert found == mine  # sent with its references inside


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_nothing_is_written_in_a_mode_for_reading(mode: str) -> None:
    desk = Desk()
    desk.register("a", ONE)
    desk.take(desk.writes.update_mode(None, mode, force=False))
    assert desk.register("a", ONE).version == 1  # it is there
    for attempt in (
        lambda: desk.register("a", TWO),
        lambda: desk.writes.delete_subject("a", permanent=False),
        lambda: desk.writes.delete_version("a", 1, permanent=False),
        lambda: desk.writes.update_config("a", {"compatibility": "NONE"}),
    ):
        with refused(422, 42205):
            attempt()
    desk.take(desk.writes.update_mode("a", "READWRITE", force=False))
    if mode == "READONLY":
        desk.register("a", TWO)
    else:
        with refused(422, 42205):
            desk.register("a", TWO)


def test_ids_are_given_in_mode_import() -> None:
    desk = Desk()
    desk.register("a", ONE)
    with refused(422, 42205):
        desk.register("b", TWO, number=77)
    with refused(422, 42205):
        desk.writes.update_mode(None, "IMPORT", force=False)
    desk.take(desk.writes.update_mode("b", "IMPORT", force=False))
    assert keys(desk)[-2:] == ["CLEAR_SUBJECT", "MODE"]
    made = desk.register("b", TWO, number=77, version=5)
    assert (made.id, made.version) == (77, 5)
    with refused(422, 42205):
        desk.register("b", OTHER, number=77)
    with refused(422, 42205):  # without an id
        desk.register("b", OTHER)
    desk.take(desk.writes.update_mode("b", "READWRITE", force=False))
    assert desk.register("b", with_fields(ID, MAIL, {**MAIL, "name": "fax"})).id == 78


def test_contexts_count_their_own_ids() -> None:
    desk = Desk()
    assert desk.register("a", ONE).id == 1
    assert desk.register(":.eu:a", OTHER).id == 1
    assert desk.reads.by_id(1, ":.eu:").subject == ":.eu:a"
    assert desk.reads.by_id(1, None).subject == "a"
    with refused(422, 42205):
        desk.writes.delete_context(".eu")
    desk.take(desk.writes.update_config(":.eu:", {"compatibility": "NONE"}))
    assert desk.state.config_in_scope(":.eu:a")["compatibilityLevel"] == "NONE"
    assert desk.state.config_in_scope("a")["compatibilityLevel"] == "BACKWARD"


def test_metadata_and_rules_are_kept_and_handed_down() -> None:
    desk = Desk()
    metadata = {"properties": {"owner": "ada"}}
    first = desk.register("a", ONE, metadata=metadata)
    assert first.content.metadata == metadata
    assert desk.register("a", ONE) == first  # found with the metadata of the latest version
    assert desk.register("a", TWO).content.metadata == metadata
    other = desk.register("a", TWO, metadata={"properties": {"owner": "bob"}})
    assert (other.version, other.id) == (3, 3)


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("", "AVRO", 42201),
        ("{", "AVRO", 42201),
        ('{"type": "record"}', "AVRO", 42201),
        ("{}", "THRIFT", 42201),
        ("[" * 100_000, "AVRO", 42201),
        ('{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000, "AVRO", 42201),
    ],
)
def test_a_schema_that_is_none(text: str, kind: str, code: int) -> None:
    with refused(422, code):
        Desk().register("a", text, kind)


@pytest.mark.parametrize("subject", ["", "a\nb", "__GLOBAL", "__EMPTY", ":.eu:"])
def test_a_name_that_is_no_subject(subject: str) -> None:
    with refused(422, 42208):
        Desk().register(subject, ONE)


def test_settings_that_are_none() -> None:
    writes = Desk().writes
    with refused(422, 42203):
        writes.update_config(None, {"compatibility": "SIDEWAYS"})
    with refused(422, 42204):
        writes.update_mode(None, "WRITEONLY", force=False)
    with refused(404, 40401):
        writes.delete_config("a")
    with refused(404, 40401):
        writes.delete_mode("a", recursive=False)


def test_an_id_of_another_schema_is_left_out() -> None:
    """Two primaries that knew nothing of each other: the first record counts."""
    first, second = Desk(), Desk()
    first.register("a", ONE)
    second.register("b", OTHER)
    reasons = [first.apply_bytes(key, value) for key, value in second.log]
    assert reasons == ["id 1 belongs to another schema"]
    assert first.state.subjects() == ["a"]


def test_schemas_that_are_nested_too_deeply_are_refused() -> None:
    desk = Desk()
    names = [f"R{number}" for number in range(600)]
    flat = [
        {"type": "record", "name": name, "fields": [{"name": "f", "type": ["null", inner]}]}
        for name, inner in zip(names, ["int", *names], strict=False)
    ]
    assert desk.register("a", json.dumps(flat)).version == 1
    changed = json.dumps(flat).replace('"int"', '"long"')
    with refused(422, 42201):
        desk.register("a", changed)
    default = "[" * 900 + "]" * 900
    array = '{"type":"array","items":"int"}'
    field = f'{{"name":"f","type":{array},"default":{default}}}'
    deep = f'{{"type":"record","name":"D","fields":[{field}]}}'
    with refused(422, 42201):
        desk.register("b", deep)
