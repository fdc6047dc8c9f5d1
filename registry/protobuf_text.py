"""A FileDescriptorProto as the text of a .proto file, in one form.

The order is Confluent's: package, imports, options, types, services; in a message reserved ranges
and names, options, fields, oneofs, extensions, nested types. Comments are left out, and names in
JSON that are the usual ones. Mirrors: ProtobufSchemaUtils.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from .protobuf_parser import MAX_ENUM_NUMBER, MAX_FIELD_NUMBER, SCALARS, default_json_name

_SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABELS: Final = {
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}
_TEXTS: Final = (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)


def written(file: FileDescriptorProto, *, is_normal: bool = False) -> str:
    """`is_normal`: imports and options in order of their names."""
    return _Writer(file, is_normal).text()


class _Writer:
    def __init__(self, file: FileDescriptorProto, is_normal: bool) -> None:
        self._file = file
        self._is_normal = is_normal
        self._is_proto3 = file.syntax == "proto3"

    def text(self) -> str:
        file = self._file
        lines = [f'syntax = "{file.syntax or "proto2"}";']
        if file.package:
            lines.append(f"package {file.package};")
        imports = list(self._imports())
        if imports:
            lines += ["", *imports]
        options = [f"option {name} = {value};" for name, value in self._options(file.options)]
        if options:
            lines += ["", *options]
        lines.append("")
        for message in file.message_type:
            lines += self._message(message, "")
        for enum in file.enum_type:
            lines += self._enum(enum, "")
        lines += self._extensions(file.extension, file.message_type, "")
        for service in file.service:
            lines += self._service(service)
        return "\n".join(lines) + "\n"

    def _imports(self) -> Iterator[str]:
        public = set(self._file.public_dependency)
        weak = set(self._file.weak_dependency)
        numbered = list(enumerate(self._file.dependency))
        if self._is_normal:
            numbered.sort(key=lambda each: each[1])
        for index, name in numbered:
            kind = "public " if index in public else "weak " if index in weak else ""
            yield f"import {kind}{_quoted(name)};"

    def _message(self, message: Any, indent: str) -> list[str]:
        inner = indent + "  "
        lines = [f"{indent}message {message.name} {{"]
        lines += self._message_body(message, inner)
        return [*lines, f"{indent}}}"]

    def _message_body(self, message: Any, inner: str) -> list[str]:
        lines = []
        if message.reserved_range:
            ranges = [(one.start, one.end - 1) for one in message.reserved_range]
            lines.append(f"{inner}reserved {_ranges(ranges, MAX_FIELD_NUMBER)};")
        if message.reserved_name:
            lines.append(f"{inner}reserved {', '.join(map(_quoted, message.reserved_name))};")
        for name, value in self._options(message.options):
            lines.append(f"{inner}option {name} = {value};")
        shown = {one.name: one for one in message.nested_type}
        hidden = set()
        for field in message.field:
            nested = self._nested_of(field, shown)
            if nested is not None:
                hidden.add(nested.name)
            if not field.HasField("oneof_index") or field.proto3_optional:
                lines += self._field(field, nested, inner)
        for index, oneof in enumerate(message.oneof_decl):
            fields = [
                one
                for one in message.field
                if one.HasField("oneof_index")
                and one.oneof_index == index
                and not one.proto3_optional
            ]
            if fields:
                lines += self._oneof(oneof, fields, shown, inner)
        if message.extension_range:
            for one in message.extension_range:
                options = self._inline(self._options(one.options))
                text = _ranges([(one.start, one.end - 1)], MAX_FIELD_NUMBER)
                lines.append(f"{inner}extensions {text}{options};")
        for one in message.nested_type:
            if one.name not in hidden:
                lines += self._message(one, inner)
        for one in message.enum_type:
            lines += self._enum(one, inner)
        return lines + self._extensions(message.extension, message.nested_type, inner)

    def _oneof(
        self, oneof: Any, fields: list[Any], shown: dict[str, Any], indent: str
    ) -> list[str]:
        lines = [f"{indent}oneof {oneof.name} {{"]
        for name, value in self._options(oneof.options):
            lines.append(f"{indent}  option {name} = {value};")
        for field in fields:
            nested = self._nested_of(field, shown)
            lines += self._field(field, nested, indent + "  ", is_in_oneof=True)
        return [*lines, f"{indent}}}"]

    def _nested_of(self, field: Any, nested: dict[str, Any]) -> Any:
        """The message of a map's entries or of a group, which is written with its field."""
        found = nested.get(field.type_name.rpartition(".")[2]) if field.type_name else None
        if found is None:
            return None
        is_group = field.type == FieldDescriptorProto.TYPE_GROUP
        return found if found.options.map_entry or is_group else None

    def _field(
        self, field: Any, nested: Any, indent: str, *, is_in_oneof: bool = False
    ) -> list[str]:
        label = _LABELS.get(field.label, "")
        if not label and not is_in_oneof and (field.proto3_optional or not self._is_proto3):
            label = "optional "
        options = self._inline(self._field_options(field))
        if nested is not None and nested.options.map_entry:
            key, value = (self._type(one) for one in nested.field)
            kind = f"map<{key}, {value}>"
            return [f"{indent}{kind} {field.name} = {field.number}{options};"]
        if field.type == FieldDescriptorProto.TYPE_GROUP and nested is not None:
            lines = [f"{indent}{label}group {nested.name} = {field.number}{options} {{"]
            return [*lines, *self._message_body(nested, indent + "  "), f"{indent}}}"]
        kind = self._type(field)
        return [f"{indent}{label}{kind} {field.name} = {field.number}{options};"]

    def _type(self, field: Any) -> str:
        return str(field.type_name or _SCALAR_NAMES[field.type])

    def _field_options(self, field: Any) -> list[tuple[str, str]]:
        found = []
        if field.HasField("default_value"):
            text = field.default_value
            is_text = field.type in _TEXTS
            value = _quoted(text) if field.type == _TEXTS[0] else f'"{text}"' if is_text else text
            found.append(("default", value))
        if field.HasField("json_name") and field.json_name != default_json_name(field.name):
            found.append(("json_name", _quoted(field.json_name)))
        return found + self._options(field.options)

    def _enum(self, enum: Any, indent: str) -> list[str]:
        lines = [f"{indent}enum {enum.name} {{"]
        if enum.reserved_range:
            ranges = [(one.start, one.end) for one in enum.reserved_range]
            lines.append(f"{indent}  reserved {_ranges(ranges, MAX_ENUM_NUMBER)};")
        if enum.reserved_name:
            lines.append(f"{indent}  reserved {', '.join(map(_quoted, enum.reserved_name))};")
        for name, value in self._options(enum.options):
            lines.append(f"{indent}  option {name} = {value};")
        for one in enum.value:
            options = self._inline(self._options(one.options))
            lines.append(f"{indent}  {one.name} = {one.number}{options};")
        return [*lines, f"{indent}}}"]

    def _extensions(self, extensions: Any, nested: Any, indent: str) -> list[str]:
        shown = {one.name: one for one in nested}
        lines = []
        for target in dict.fromkeys(one.extendee for one in extensions):
            lines.append(f"{indent}extend {target} {{")
            for one in extensions:
                if one.extendee == target:
                    lines += self._field(one, self._nested_of(one, shown), indent + "  ")
            lines.append(f"{indent}}}")
        return lines

    def _service(self, service: Any) -> list[str]:
        lines = [f"service {service.name} {{"]
        for name, value in self._options(service.options):
            lines.append(f"  option {name} = {value};")
        for one in service.method:
            asks = ("stream " if one.client_streaming else "") + one.input_type
            answers = ("stream " if one.server_streaming else "") + one.output_type
            head = f"  rpc {one.name} ({asks}) returns ({answers})"
            options = self._options(one.options)
            if options:
                lines.append(f"{head} {{")
                lines += [f"    option {name} = {value};" for name, value in options]
                lines.append("  }")
            else:
                lines.append(f"{head};")
        return [*lines, "}"]

    def _options(self, options: Any) -> list[tuple[str, str]]:
        found = []
        for kind, value in options.ListFields():
            if kind.name in ("uninterpreted_option", "map_entry") or kind.is_extension:
                continue
            if kind.cpp_type == kind.CPPTYPE_BOOL:
                found.append((kind.name, "true" if value else "false"))
            elif kind.cpp_type == kind.CPPTYPE_STRING:
                found.append((kind.name, _quoted(value)))
            elif kind.cpp_type == kind.CPPTYPE_ENUM and isinstance(value, int):
                found.append((kind.name, kind.enum_type.values_by_number[value].name))
        for one in options.uninterpreted_option:
            parts = (f"({p.name_part})" if p.is_extension else p.name_part for p in one.name)
            found.append((".".join(parts), _option_value(one)))
        return sorted(found) if self._is_normal else found

    @staticmethod
    def _inline(options: Iterable[tuple[str, str]]) -> str:
        text = ", ".join(f"{name} = {value}" for name, value in options)
        return f" [{text}]" if text else ""


def _option_value(one: Any) -> str:
    if one.HasField("string_value"):
        return _quoted_bytes(one.string_value)
    if one.HasField("aggregate_value"):
        return f"{{ {one.aggregate_value} }}"
    for name in ("identifier_value", "positive_int_value", "negative_int_value"):
        if one.HasField(name):
            return str(getattr(one, name))
    return repr(one.double_value)


def _ranges(ranges: Iterable[tuple[int, int]], most: int) -> str:
    def one(first: int, last: int) -> str:
        if first == last:
            return str(first)
        return f"{first} to {'max' if last == most else last}"

    return ", ".join(one(first, last) for first, last in ranges)


def _quoted(text: str) -> str:
    """A text without letters that end or change it."""
    return (
        _quoted_bytes(text.encode())
        if "\\" in json.dumps(text, ensure_ascii=False)
        else (f'"{text}"')
    )


def _quoted_bytes(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        return '"' + "".join(_escaped(letter, ascii_only=True) for letter in text) + '"'
    return '"' + "".join(_escaped(letter, ascii_only=False) for letter in text) + '"'


def _escaped(letter: str, *, ascii_only: bool) -> str:
    if letter in '"\\':
        return "\\" + letter
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if letter in named:
        return named[letter]
    is_plain = " " <= letter <= "~" or (not ascii_only and letter > "\x7f")
    return letter if is_plain else f"\\{ord(letter):03o}"
