"""Whether one Protobuf schema reads data of another, as Confluent's registry decides.

Fields are compared by their numbers, wherever they stand in a message; types by groups that share a
form on the wire. A field may be added or removed, a message may not be removed; independent fields
may not become members of one oneof, nor may a member of a oneof go while others stay.
Mirrors: SchemaDiff, MessageSchemaDiff, FieldSchemaDiff, EnumSchemaDiff of Confluent's package
`protobuf.diff`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

Type = FieldDescriptorProto

HARMLESS: Final = frozenset({
    "MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED", "ENUM_CONST_ADDED",
    "ENUM_CONST_CHANGED", "ENUM_CONST_REMOVED", "FIELD_ADDED", "FIELD_REMOVED",
    "FIELD_NAME_CHANGED", "FIELD_STRING_OR_BYTES_LABEL_CHANGED", "ONEOF_ADDED", "ONEOF_REMOVED",
    "ONEOF_FIELD_ADDED", "ONEOF_FIELD_MOVED_TO_TOP_LEVEL",
})  # fmt: skip

_GENERAL: Final = "general number"
_TEXT: Final = "text"
# The groups of types whose data is read as another type of the group.
_GROUPS: Final = {
    **dict.fromkeys(
        (
            Type.TYPE_INT32, Type.TYPE_INT64, Type.TYPE_UINT32, Type.TYPE_UINT64, Type.TYPE_BOOL,
            Type.TYPE_ENUM,
        ),
        _GENERAL,
    ),
    **dict.fromkeys((Type.TYPE_SINT32, Type.TYPE_SINT64), "signed number"),
    **dict.fromkeys((Type.TYPE_STRING, Type.TYPE_BYTES), _TEXT),
    **dict.fromkeys((Type.TYPE_FIXED32, Type.TYPE_SFIXED32), "fixed 32"),
    **dict.fromkeys((Type.TYPE_FIXED64, Type.TYPE_SFIXED64), "fixed 64"),
    Type.TYPE_FLOAT: "float",
    Type.TYPE_DOUBLE: "double",
}  # fmt: skip


class Difference(NamedTuple):
    """A change between two schemas, and its place in them."""

    kind: str
    place: str

    @property
    def text(self) -> str:
        words = self.kind.lower().replace("_", " ")
        about = f"{words}: at '{self.place}' the %s schema does not read data of the %s schema"
        return f'{{errorType:"{self.kind}", description:"{about}"}}'


def problems(
    reader: FileDescriptorProto,
    reader_files: Sequence[FileDescriptorProto],
    older: FileDescriptorProto,
    older_files: Sequence[FileDescriptorProto],
) -> list[str]:
    """Why `reader` does not read data of the older schema; empty if it does. The files are linked,
    and come with their imports."""
    compared = _Comparison([older, *older_files], [reader, *reader_files])
    if older.package != reader.package:
        compared.add("PACKAGE_CHANGED", "#/")
    compared.types(older, reader, "#/")
    found = dict.fromkeys(compared.found)
    return [one.text for one in found if one.kind not in HARMLESS]


class _Known(NamedTuple):
    """A message, its package and its name inside of it."""

    message: Any
    name: str


class _Comparison:
    def __init__(
        self, old: Sequence[FileDescriptorProto], new: Sequence[FileDescriptorProto]
    ) -> None:
        self.found: list[Difference] = []
        self._old, self._new = _messages(old), _messages(new)
        self._are_proto2 = (old[0].syntax != "proto3", new[0].syntax != "proto3")
        self._compared: set[tuple[int, int]] = set()

    def add(self, kind: str, place: str) -> None:
        self.found.append(Difference(kind, place))

    def types(self, old: Any, new: Any, place: str) -> None:
        """The messages and enums of two files, or of two messages."""
        is_file = isinstance(old, FileDescriptorProto)
        ours = _named(old.message_type if is_file else old.nested_type)
        theirs = _named(new.message_type if is_file else new.nested_type)
        for name in dict.fromkeys([*ours, *theirs]):
            here, one, two = f"{place}{name}/", ours.get(name), theirs.get(name)
            if two is None:
                if not ours[name].options.map_entry:
                    self.add("MESSAGE_REMOVED", here)
            elif one is not None:
                self.messages(one, two, here)
        enums = _named(new.enum_type)
        for enum in old.enum_type:
            if enum.name not in enums:
                self.add("ENUM_REMOVED", f"{place}{enum.name}")

    def messages(self, old: Any, new: Any, place: str) -> None:
        key = (id(old), id(new))
        if key in self._compared:
            return
        self._compared.add(key)
        ours = {one.number: one for one in old.field}
        theirs = {one.number: one for one in new.field}
        oneofs = self._oneofs(old, new, ours, theirs, place)
        for number in sorted({*ours, *theirs}):
            one, two = ours.get(number), theirs.get(number)
            if one is None and two is not None and two.label == Type.LABEL_REQUIRED:
                self.add("REQUIRED_FIELD_ADDED", f"{place}{number}")
            elif two is None and one is not None:
                self._removed(old, one, theirs, oneofs, place)
            elif one is not None and two is not None:
                self._fields(one, two, f"{place}{number}")
        self.types(old, new, place)

    def _removed(
        self, old: Any, field: Any, theirs: dict[int, Any], oneofs: set[str | None], place: str
    ) -> None:
        oneof = _oneof_of(old, field)
        if oneof is None:
            if field.label == Type.LABEL_REQUIRED:
                self.add("REQUIRED_FIELD_REMOVED", f"{place}{field.number}")
            return
        others = (one for one in old.field if _oneof_of(old, one) == oneof)
        if any(one.number in theirs for one in others) or oneof in oneofs:
            self.add("ONEOF_FIELD_REMOVED", f"{place}{oneof}/{field.number}")

    def _oneofs(
        self, old: Any, new: Any, ours: dict[int, Any], theirs: dict[int, Any], place: str
    ) -> set[str | None]:
        """The oneofs of the new message, which are compared with where their fields were."""
        groups: dict[str, set[str]] = {}
        moved: dict[str, int] = {}
        for number, field in theirs.items():
            oneof = _oneof_of(new, field)
            if oneof is None or number not in ours:
                continue
            before = _oneof_of(old, ours[number])
            origin = f"field {number}" if before is None else f"oneof {before}"
            groups.setdefault(oneof, set()).add(origin)
            moved[oneof] = moved.get(oneof, 0) + (before is None)
        for oneof, origins in groups.items():
            if len(origins) > 1:
                many = moved[oneof] > 1
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if many else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self.add(kind, f"{place}{oneof}")
        return {_oneof_of(new, one) for one in new.field}

    def _fields(self, one: Any, two: Any, place: str) -> None:
        entries = [_entry(one, self._old), _entry(two, self._new)]
        if (entries[0] is None) != (entries[1] is None):
            self.add("FIELD_KIND_CHANGED", place)
        elif entries[0] is not None and entries[1] is not None:
            for mine, theirs in zip(entries[0].field, entries[1].field, strict=True):
                self._types_of(mine, theirs, place, has_labels=False)
        else:
            self._types_of(one, two, place, has_labels=True)

    def _types_of(self, one: Any, two: Any, place: str, *, has_labels: bool) -> None:
        first, second = _GROUPS.get(one.type), _GROUPS.get(two.type)
        if (first is None) != (second is None):
            self.add("FIELD_KIND_CHANGED", place)
        elif first is None or second is None:
            self._messages_of(one, two, place)
        elif first != second:
            self.add("FIELD_SCALAR_KIND_CHANGED", place)
        elif (
            has_labels
            and one.label != two.label
            and all(
                is_proto2 or _has_label(each)
                for each, is_proto2 in zip((one, two), self._are_proto2, strict=True)
            )
        ):
            is_text = first == _TEXT
            label = "STRING_OR_BYTES" if is_text else "NUMERIC"
            self.add(f"FIELD_{label}_LABEL_CHANGED", place)

    def _messages_of(self, one: Any, two: Any, place: str) -> None:
        first, second = self._old[one.type_name], self._new[two.type_name]
        if first.name != second.name:
            self.add("FIELD_NAMED_TYPE_CHANGED", place)
            return
        before = len(self.found)
        self.messages(first.message, second.message, f"#/{first.name.replace('.', '/')}/")
        if any(each.kind not in HARMLESS for each in self.found[before:]):
            self.add("FIELD_NAMED_TYPE_CHANGED", place)


def _messages(files: Sequence[FileDescriptorProto]) -> dict[str, _Known]:
    """All messages by their whole names, with a dot in front."""
    found: dict[str, _Known] = {}

    def collect(messages: Any, package: str, above: str) -> None:
        for one in messages:
            name = f"{above}{one.name}"
            found[f".{package}.{name}" if package else f".{name}"] = _Known(one, name)
            collect(one.nested_type, package, f"{name}.")

    for file in files:
        collect(file.message_type, file.package, "")
    return found


def _named(messages: Any) -> dict[str, Any]:
    return {one.name: one for one in messages}


def _oneof_of(message: Any, field: Any) -> str | None:
    """The name of a field's oneof; that of an `optional` field of proto3 does not count."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _entry(field: Any, known: dict[str, _Known]) -> Any:
    """The message of a map's entries; None for other fields."""
    found = known.get(field.type_name)
    return found.message if found and found.message.options.map_entry else None


def _has_label(field: Any) -> bool:
    """Whether a field of proto3 has a label."""
    return bool(field.label != Type.LABEL_OPTIONAL or field.proto3_optional)
