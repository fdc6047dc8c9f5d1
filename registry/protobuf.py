"""Protobuf schemas: a file of messages, read from its text or from a serialized descriptor.

The written form is text whatever came, see `protobuf_text`; the normalized form has whole names of
types, and imports and options in order. Imports are the names of references; Google's own files are
known. The form `serialized` is the linked FileDescriptorProto in base64.
Needs `protobuf`. Mirrors: ProtobufSchema and ProtobufSchemaProvider.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from . import protobuf_rules, protobuf_text
from .errors import BadSchema
from .parsed import Parsed
from .protobuf_parser import parse

FILE_NAME: Final = "default.proto"  # of the schema itself
# Google's files that every installation has.
_KNOWN: Final = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
    "timestamp", "type", "wrappers",
)  # fmt: skip


class ProtobufSchema:
    """See `Parsed`."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self.file = read(text, FILE_NAME)
        imports = {name: read(one, name) for name, one in references.items()}
        self.linked, self.files = _linked(self.file, imports)

    @property
    def text(self) -> str:
        return protobuf_text.written(self.file)

    def normalized(self) -> str:
        return protobuf_text.written(self.linked, is_normal=True)

    def problems_reading(self, older: Parsed) -> list[str]:
        assert isinstance(older, ProtobufSchema)
        return protobuf_rules.problems(self.linked, self.files, older.linked, older.files)

    def formatted(self, form: str) -> str:
        if form == "serialized":
            return base64.b64encode(self.linked.SerializeToString()).decode()
        return self.text


def read(text: str, name: str) -> FileDescriptorProto:
    """A file from its text, or from a serialized descriptor in base64. Raises BadSchema."""
    try:
        return parse(text, name)
    except BadSchema as problem:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
        except (binascii.Error, ValueError, DecodeError):
            raise problem from None
    file.name = name
    file.ClearField("source_code_info")
    if file.syntax == "proto2":
        file.ClearField("syntax")
    if file.syntax not in ("", "proto3"):
        raise BadSchema(f"syntax {file.syntax!r} is not known")
    return file


def _linked(
    file: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]
) -> tuple[FileDescriptorProto, list[FileDescriptorProto]]:
    """The file with whole names and kinds of types, and its imports likewise. Raises BadSchema."""
    for name in _KNOWN:
        importlib.import_module(f"google.protobuf.{name}_pb2")
    pool = descriptor_pool.DescriptorPool()
    added: dict[str, FileDescriptorProto] = {}

    def add(one: FileDescriptorProto, above: tuple[str, ...]) -> None:
        if one.name in added:
            return
        if one.name in above:
            raise BadSchema(f"{one.name} imports itself")
        for name in one.dependency:
            add(_imported(name, one.name, imports), (*above, one.name))
        plain = _without_others(one)
        try:
            pool.Add(plain)
            found: Any = pool.FindFileByName(one.name)
        except (TypeError, KeyError) as error:
            reason = str(error).replace("Couldn't build proto file into descriptor pool", "")
            raise BadSchema(f"{one.name}: {reason.strip(': ') or 'it does not fit'}") from None
        linked = FileDescriptorProto()
        found.CopyToProto(linked)
        added[one.name] = _with_names(one, linked)

    add(file, ())
    linked = added.pop(file.name)
    return linked, list(added.values())


def _imported(
    name: str, importer: str, imports: Mapping[str, FileDescriptorProto]
) -> FileDescriptorProto:
    if name in imports:
        return imports[name]
    try:
        known: Any = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        text = f"{importer} imports {name!r}, which is the name of no reference"
        raise BadSchema(text) from None
    file = FileDescriptorProto()
    known.CopyToProto(file)
    return file


def _without_others(file: FileDescriptorProto) -> FileDescriptorProto:
    """The file without options that it does not define itself."""
    plain = FileDescriptorProto()
    plain.CopyFrom(file)

    def clear(message: Any) -> None:
        for kind, value in message.ListFields():
            if kind.name == "options":
                value.ClearField("uninterpreted_option")
            elif kind.message_type is not None:
                for one in value if isinstance(value, Iterable) else (value,):
                    clear(one)

    plain.options.ClearField("uninterpreted_option")
    clear(plain)
    return plain


def _with_names(file: FileDescriptorProto, linked: FileDescriptorProto) -> FileDescriptorProto:
    """The file with kinds and whole names of types out of the linked one."""
    made = FileDescriptorProto()
    made.CopyFrom(file)

    def copy_fields(mine: Any, theirs: Any) -> None:
        for one, other in zip(mine, theirs, strict=True):
            one.type = other.type
            if other.type_name:
                one.type_name = other.type_name
            if other.extendee:
                one.extendee = other.extendee

    def copy_message(mine: Any, theirs: Any) -> None:
        copy_fields(mine.field, theirs.field)
        copy_fields(mine.extension, theirs.extension)
        for one, other in zip(mine.nested_type, theirs.nested_type, strict=True):
            copy_message(one, other)

    copy_fields(made.extension, linked.extension)
    for one, other in zip(made.message_type, linked.message_type, strict=True):
        copy_message(one, other)
    for service, linked_service in zip(made.service, linked.service, strict=True):
        for mine, theirs in zip(service.method, linked_service.method, strict=True):
            mine.input_type, mine.output_type = theirs.input_type, theirs.output_type
    return made
