"""Protobuf: our parser beside protoc's, the text in one form, references and verdicts."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from pybroker_kafka.registry.entities import PROTOBUF, Content, Reference
from pybroker_kafka.registry.errors import BadSchema, Rejected
from pybroker_kafka.registry.formats import parse
from pybroker_kafka.registry.protobuf import ProtobufSchema
from tests.support.registry import Desk

RICH = r"""
syntax = "proto3"; // a comment
package a.b;
import "google/protobuf/timestamp.proto";
import public 'google/protobuf/descriptor.proto';
option java_package = "com.example" ".more";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
extend google.protobuf.FieldOptions { string mark = 50001; repeated int32 nums = 50002; }
/* of
   two lines */
message Outer {
  reserved 100, 200 to 210, 300 to max;
  reserved "gone", "left";
  option deprecated = true;
  int64 user_id = 1 [json_name = "id", deprecated = true, (mark) = "a\"b\n"];
  optional string name = 2;
  repeated double many = 3 [packed = false];
  map<string, Inner> by_name = 4;
  google.protobuf.Timestamp at = 5;
  oneof choice { Inner inner = 6; Color color = 7; .a.b.Outer.Inner again = 8; };
  bytes message = 9;
  message Inner { Inner next = 1; repeated Color colors = 0x2; }
  enum Color { option allow_alias = true; RED = 0; BLUE = -1; ALSO_RED = 0 [deprecated = true];
    reserved 5 to 7, 10 to max; reserved "OLD"; }
  ;
}
enum Top { NONE = 0; }
service Finder {
  rpc Find (Outer) returns (stream Outer.Inner);
  rpc Send (stream Outer) returns (Outer) { option deprecated = true; }
}
"""
OLD = r"""
syntax = "proto2";
package old;
message M {
  required int32 a = 1 [default = -5];
  optional string s = 2 [default = "x\ty"];
  optional bytes b = 3 [default = "\001\377z"];
  optional double d = 4 [default = 1e10];
  optional float inf = 5 [default = -inf];
  optional E e = 6 [default = TWO];
  optional bool yes = 7 [default = true];
  repeated group Item = 8 { optional int32 x = 1; }
  extensions 100 to 199, 1000 to max;
  enum E { ONE = 1; TWO = 2; }
  extend M { optional string more = 100; }
}
extend M { repeated M ms = 101; }
"""
PLAIN = 'syntax = "proto3";\npackage p;\n\nmessage A {\n  int32 x = 1;\n}\n'


def protoc(text: str, folder: Path) -> FileDescriptorProto:
    (folder / "default.proto").write_text(text)
    out = folder / "out.bin"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}"]
    import grpc_tools

    common = Path(grpc_tools.__file__).parent / "_proto"
    command += [f"-I{common}", f"--descriptor_set_out={out}", str(folder / "default.proto")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def plain(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what protoc alone has: options that extensions define."""
    made = FileDescriptorProto.FromString(file.SerializeToString())
    made.ClearField("source_code_info")
    for message in made.message_type:
        for field in message.field:
            field.options.ClearField("uninterpreted_option")
            field.options.DiscardUnknownFields()
            if not field.options.ListFields():
                field.ClearField("options")
    return made


def schema(text: str, **references: str) -> ProtobufSchema:
    found = parse(Content(text, PROTOBUF), references, strict=True)
    assert isinstance(found, ProtobufSchema)
    return found


@pytest.mark.parametrize("text", [RICH, OLD, PLAIN])
def test_the_descriptor_is_protocs(text: str, tmp_path: Path) -> None:
    assert plain(schema(text).linked) == plain(protoc(text, tmp_path))


@pytest.mark.parametrize("text", [RICH, OLD, PLAIN])
@pytest.mark.parametrize("form", [lambda one: one.text, lambda one: one.normalized()])
def test_the_text_means_the_same(text: str, form: Callable[[ProtobufSchema], str]) -> None:
    one = schema(text)
    again = schema(form(one))
    assert form(again) == form(one)
    assert sorted(map(str, again.linked.message_type[0].field)) == sorted(
        map(str, one.linked.message_type[0].field)
    )


def test_text_and_descriptor_have_one_normal_form() -> None:
    one = schema(RICH)
    other = schema(one.formatted("serialized"))
    strip = [line for line in one.normalized().splitlines() if "(mark)" not in line]
    assert [line for line in other.normalized().splitlines() if "user_id" not in line] == strip


def test_the_written_form() -> None:
    assert schema("// x\nsyntax='proto3';package p;message A{int32 x=1;;}").text == PLAIN
    descriptor = FileDescriptorProto(name="any.proto", syntax="proto3", package="p")
    descriptor.message_type.add(name="A").field.add(name="x", number=1, type=5, label=1)
    assert schema(base64.b64encode(descriptor.SerializeToString()).decode()).text == PLAIN


def test_references_are_imports() -> None:
    desk = Desk()
    desk.register("a", PLAIN, PROTOBUF)
    text = 'syntax = "proto3"; import "a.proto"; message B { p.A a = 1; }'
    made = desk.register("b", text, PROTOBUF, references=(Reference("a.proto", "a", 1),))
    assert 'import "a.proto";' in made.content.text
    serialized = desk.reads.formatted(made, "serialized").text
    linked = FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert linked.message_type[0].field[0].type_name == ".p.A"
    with pytest.raises(Rejected, match="name of no reference"):
        desk.register("c", text, PROTOBUF)


@pytest.mark.parametrize(
    "text",
    [
        "message",
        'syntax = "proto4";',
        'syntax = "proto3"; message A { int32 x = 0; }',
        'syntax = "proto3"; message A { int32 x = 1; int32 y = 1; }',
        'syntax = "proto3"; message A { int32 x = 1; int32 x = 2; }',
        'syntax = "proto3"; message A { B b = 1; }',
        'syntax = "proto3"; message A { required int32 x = 1; }',
        "message A { int32 x = 1; }",
        'syntax = "proto3"; message A { int32 x = 1 ',
        'syntax = "proto3"; import "none.proto";',
        'syntax = "proto3"; import "default.proto";',
        "message A {" * 1000,
        "\x00",
        '"',
        "AAAA",
        base64.b64encode(b"\x0a\xff" * 50).decode(),
    ],
)
def test_a_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(BadSchema):
        schema(text)


def fields(text: str, syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; package p; enum E {{ Z = 0; }} message A {{ {text} }}'


# The fields of a message, before and after; the first harmful difference, or "".
VERDICTS = [
    ("int32 x = 1;", "int32 y = 1;", ""),
    ("int32 x = 1;", "int32 x = 1; string s = 2;", ""),
    ("int32 x = 1; string s = 2;", "int32 x = 1;", ""),
    ("int32 x = 1;", "int64 x = 1;", ""),
    ("int32 x = 1;", "bool x = 1;", ""),
    ("int32 x = 1;", "E x = 1;", ""),
    ("string x = 1;", "bytes x = 1;", ""),
    ("fixed32 x = 1;", "sfixed32 x = 1;", ""),
    ("int32 x = 1;", "sint32 x = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("int32 x = 1;", "string x = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("float x = 1;", "double x = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("int32 x = 1;", "A x = 1;", "FIELD_KIND_CHANGED"),
    ("int32 x = 1;", "map<string, int32> x = 1;", "FIELD_KIND_CHANGED"),
    ("map<string, int32> x = 1;", "map<string, int64> x = 1;", ""),
    ("map<string, int32> x = 1;", "map<string, string> x = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("message B {} B b = 1;", "message B {} message C {} C b = 1;", "FIELD_NAMED_TYPE_CHANGED"),
    ("message B {}", "", "MESSAGE_REMOVED"),
    ("", "message B {}", ""),
    ("int32 x = 1;", "oneof o { int32 x = 1; }", ""),
    ("int32 x = 1; int32 y = 2;", "oneof o { int32 x = 1; int32 y = 2; }", "MULTIPLE_FIELDS"),
    (
        "oneof o { int32 x = 1; } int32 y = 2;",
        "oneof o { int32 x = 1; int32 y = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    ("oneof o { int32 x = 1; }", "int32 x = 1;", ""),
    ("oneof o { int32 x = 1; int32 y = 2; }", "oneof o { int32 x = 1; }", "ONEOF_FIELD_REMOVED"),
    ("oneof o { int32 x = 1; }", "int32 z = 9;", ""),
    ("optional int32 x = 1;", "repeated int32 x = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
    ("optional string x = 1;", "repeated string x = 1;", ""),
    ("A a = 1; int32 x = 2;", "A a = 1; string x = 2;", "FIELD_SCALAR_KIND_CHANGED"),
]


@pytest.mark.parametrize(("old", "new", "kind"), VERDICTS)
def test_verdicts(old: str, new: str, kind: str) -> None:
    found = schema(fields(new)).problems_reading(schema(fields(old)))
    assert (kind in found[0]) if kind else found == []


def test_verdicts_of_proto2() -> None:
    one = schema(fields("optional int32 x = 1;", "proto2"))
    two = schema(fields("optional int32 x = 1; required int32 y = 2;", "proto2"))
    assert "REQUIRED_FIELD_ADDED" in two.problems_reading(one)[0]
    assert "REQUIRED_FIELD_REMOVED" in one.problems_reading(two)[0]
    assert "PACKAGE_CHANGED" in schema(PLAIN.replace("p;", "q;")).problems_reading(schema(PLAIN))[0]
