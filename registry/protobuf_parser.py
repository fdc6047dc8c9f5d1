"""The text of a .proto file as a FileDescriptorProto, as protoc's own parser makes it.

Names of types stay as they are written, and have no kind yet; options are interpreted where they
are Protobuf's own, and kept as they are written otherwise. `protobuf` links the file with its
imports. Leaves out editions, and checks of other options than Protobuf's own.
Limits: MAX_DEPTH nested blocks. Raises BadSchema with the line. Needs `protobuf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from .errors import BadSchema

MAX_DEPTH: Final = 32
MAX_FIELD_NUMBER: Final = 536_870_911
MAX_ENUM_NUMBER: Final = 2**31 - 1

SCALARS: Final = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
        "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)f?)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[;{}\[\]()<>=,.:\-+/])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ESCAPE: Final = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)


class Token(NamedTuple):
    """Kinds: number, word, text, sign, end."""

    kind: str
    text: str
    line: int


def parse(text: str, name: str) -> FileDescriptorProto:
    """Raises BadSchema."""
    return _Parser(_tokens(text)).file(name)


def default_json_name(name: str) -> str:
    """The name of a field in JSON: `user_id` is userId."""
    made, is_upper = [], False
    for letter in name:
        if letter == "_":
            is_upper = True
        else:
            made.append(letter.upper() if is_upper else letter)
            is_upper = False
    return "".join(made)


def entry_name(field: str) -> str:
    """The name of the message that a map field's entries are."""
    name = default_json_name(field)
    return f"{name[:1].upper()}{name[1:]}Entry"


def _tokens(text: str) -> list[Token]:
    found, place, line = [], 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadSchema(f"line {line}: {text[place]!r} is unexpected")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match[0], line))
        line += match[0].count("\n")
        place = match.end()
    return [*found, Token("end", "the end", line)]


def _unescaped(text: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        octal, short, wide, wider, letter = match.groups()
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if short:
            return bytes([int(short, 16)])
        if wide or wider:
            code = int(wide or wider, 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise BadSchema(f"\\{match[0].decode()} is no character")
            return chr(code).encode()
        code = _ESCAPES.get(letter.decode("latin-1"), letter[0])
        return bytes([code])

    return _ESCAPE.sub(one, text[1:-1].encode())


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._is_proto3 = False
        self._depth = 0

    # Tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _fail(self, wanted: str) -> BadSchema:
        return BadSchema(f"line {self._next.line}: {wanted} is expected, not {self._next.text!r}")

    def _take(self, *wanted: str) -> str:
        if self._next.kind not in ("word", "sign") or self._next.text not in wanted:
            raise self._fail(" or ".join(wanted))
        self._at += 1
        return self._tokens[self._at - 1].text

    def _has(self, *wanted: str) -> bool:
        if self._next.kind in ("word", "sign") and self._next.text in wanted:
            self._at += 1
            return True
        return False

    def _kind(self, kind: str, wanted: str) -> str:
        if self._next.kind != kind:
            raise self._fail(wanted)
        self._at += 1
        return self._tokens[self._at - 1].text

    def _word(self) -> str:
        return self._kind("word", "a name")

    def _text(self) -> bytes:
        found = _unescaped(self._kind("text", "a text"))
        while self._next.kind == "text":
            found += _unescaped(self._kind("text", "a text"))
        return found

    def _string(self) -> str:
        try:
            return self._text().decode()
        except UnicodeDecodeError:
            raise self._fail("UTF-8") from None

    def _integer(self, least: int, most: int) -> int:
        sign = -1 if self._has("-") else 1
        text = self._kind("number", "a whole number")
        try:
            is_octal = text.startswith("0") and text.isdecimal() and len(text) > 1
            found = sign * int(text, 8 if is_octal else 0)
        except ValueError:
            self._at -= 1
            raise self._fail("a whole number") from None
        if not least <= found <= most:
            self._at -= 1
            raise self._fail(f"a number from {least} to {most}")
        return found

    def _name(self) -> str:
        """A name with dots, also in front."""
        found = "." if self._has(".") else ""
        found += self._word()
        while self._has("."):
            found += "." + self._word()
        return found

    def _block(self, one: Callable[[], None]) -> None:
        """`{ ... }`, with empty statements left out."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadSchema(f"line {self._next.line}: more than {MAX_DEPTH} nested blocks")
        self._take("{")
        while not self._has("}"):
            if not self._has(";"):
                one()
        self._depth -= 1

    # The file

    def file(self, name: str) -> FileDescriptorProto:
        made = FileDescriptorProto(name=name)
        if self._has("syntax"):
            self._take("=")
            syntax = self._string()
            if syntax not in ("proto2", "proto3"):
                raise BadSchema(f"syntax {syntax!r} is not known")
            self._is_proto3 = syntax == "proto3"
            if self._is_proto3:
                made.syntax = syntax
            self._take(";")
        while self._next.kind != "end":
            if not self._has(";"):
                self._statement(made)
        return made

    def _statement(self, made: FileDescriptorProto) -> None:
        word = self._take("import", "package", "option", "message", "enum", "service", "extend")
        if word == "import":
            kind = "public" if self._has("public") else "weak" if self._has("weak") else ""
            if kind:
                getattr(made, f"{kind}_dependency").append(len(made.dependency))
            made.dependency.append(self._string())
            self._take(";")
        elif word == "package":
            made.package = self._name()
            self._take(";")
        elif word == "option":
            self._option(made.options)
        elif word == "message":
            self._message(made.message_type.add())
        elif word == "enum":
            self._enum(made.enum_type.add())
        elif word == "service":
            self._service(made.service.add())
        else:
            self._extend(made.extension, made.message_type)

    # Messages

    def _message(self, made: DescriptorProto) -> None:
        made.name = self._word()
        self._message_body(made)

    def _message_body(self, made: DescriptorProto) -> None:
        self._block(lambda: self._member(made))
        _add_synthetic_oneofs(made)

    def _member(self, made: DescriptorProto) -> None:
        word, following = self._next.text, self._tokens[self._at + 1]
        is_keyword = following.kind in ("word", "text", "number") or following.text in ("(", ".")
        if word == "message" and is_keyword and self._has("message"):
            self._message(made.nested_type.add())
        elif word == "enum" and is_keyword and self._has("enum"):
            self._enum(made.enum_type.add())
        elif word == "option" and is_keyword and self._has("option"):
            self._option(made.options)
        elif word == "extend" and is_keyword and self._has("extend"):
            self._extend(made.extension, made.nested_type)
        elif word == "reserved" and is_keyword and self._has("reserved"):
            self._reserved(made, MAX_FIELD_NUMBER, 1)
        elif word == "extensions" and is_keyword and self._has("extensions"):
            self._extensions(made)
        elif word == "oneof" and is_keyword and self._has("oneof"):
            self._oneof(made)
        else:
            self._field(made.field.add(), made.nested_type)

    def _oneof(self, made: DescriptorProto) -> None:
        index = len(made.oneof_decl)
        oneof = made.oneof_decl.add(name=self._word())

        def one() -> None:
            if self._next.text == "option":
                self._take("option")
                self._option(oneof.options)
                return
            field = made.field.add(oneof_index=index)
            self._field(field, made.nested_type, is_in_oneof=True)

        self._block(one)

    def _field(self, field: Any, nested: Any, *, is_in_oneof: bool = False) -> None:
        field.label = FieldDescriptorProto.LABEL_OPTIONAL
        has_label = not is_in_oneof and self._next.text in _LABELS
        if has_label:
            label = self._word()
            field.label = _LABELS[label]
            field.proto3_optional = self._is_proto3 and label == "optional"
            if not field.proto3_optional:
                field.ClearField("proto3_optional")
            if self._is_proto3 and label == "required":
                raise self._fail("no `required` in proto3")
        if self._next.text == "map" and self._tokens[self._at + 1].text == "<":
            self._map(field, nested)
        elif self._next.text == "group" and self._tokens[self._at + 1].kind == "word":
            self._group(field, nested)
            return
        else:
            if not has_label and not is_in_oneof and not self._is_proto3:
                raise self._fail("optional, required or repeated")
            self._type(field)
        field.name = field.name or self._word()
        self._number_and_options(field)
        self._take(";")

    def _type(self, field: Any) -> None:
        name = self._name()
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _number_and_options(self, field: Any) -> None:
        self._take("=")
        field.number = self._integer(1, MAX_FIELD_NUMBER)
        field.json_name = default_json_name(field.name)
        if self._has("["):
            self._options(field.options, field)

    def _map(self, field: Any, nested: Any) -> None:
        self._take("map")
        self._take("<")
        field.label = FieldDescriptorProto.LABEL_REPEATED
        entry = nested.add()
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add(name=name, number=number, json_name=name)
            part.label = FieldDescriptorProto.LABEL_OPTIONAL
            self._type(part)
            self._take("," if name == "key" else ">")
        field.name = self._word()
        entry.name = field.type_name = entry_name(field.name)
        field.type = FieldDescriptorProto.TYPE_MESSAGE

    def _group(self, field: Any, nested: Any) -> None:
        self._take("group")
        name = self._word()
        field.name, field.type_name = name.lower(), name
        field.type = FieldDescriptorProto.TYPE_GROUP
        self._number_and_options(field)
        group = nested.add(name=name)
        self._message_body(group)

    def _reserved(self, made: Any, most: int, over: int) -> None:
        while True:
            if self._next.kind == "text":
                made.reserved_name.append(self._string())
            else:
                first, last = self._range(most, 0 if over else -most - 1)
                made.reserved_range.add(start=first, end=last + over)
            if not self._has(","):
                break
        self._take(";")

    def _extensions(self, made: DescriptorProto) -> None:
        begun = len(made.extension_range)
        while True:
            first, last = self._range(MAX_FIELD_NUMBER, 1)
            made.extension_range.add(start=first, end=last + 1)
            if not self._has(","):
                break
        if self._has("["):
            options = made.extension_range[begun].options
            self._options(options, None)
            for one in made.extension_range[begun + 1 :]:
                one.options.CopyFrom(options)
        self._take(";")

    def _range(self, most: int, least: int) -> tuple[int, int]:
        first = self._integer(least, most)
        if not self._has("to"):
            return first, first
        return first, most if self._has("max") else self._integer(first, most)

    def _extend(self, extensions: Any, nested: Any) -> None:
        target = self._name()

        def one() -> None:
            self._field(extensions.add(extendee=target), nested)

        self._block(one)

    # Enums and services

    def _enum(self, made: EnumDescriptorProto) -> None:
        made.name = self._word()

        def one() -> None:
            following = self._tokens[self._at + 1]
            if self._next.text == "option" and following.text != "=":
                self._take("option")
                self._option(made.options)
            elif self._next.text == "reserved" and following.text != "=":
                self._take("reserved")
                self._reserved(made, MAX_ENUM_NUMBER, 0)
            else:
                value = made.value.add(name=self._word())
                self._take("=")
                value.number = self._integer(-MAX_ENUM_NUMBER - 1, MAX_ENUM_NUMBER)
                if self._has("["):
                    self._options(value.options, None)
                self._take(";")

        self._block(one)

    def _service(self, made: Any) -> None:
        made.name = self._word()

        def one() -> None:
            if self._take("option", "rpc") == "option":
                self._option(made.options)
                return
            method = made.method.add(name=self._word())
            for kind in ("client_streaming", "server_streaming"):
                self._take("(")
                if self._next.text == "stream" and self._tokens[self._at + 1].text != ")":
                    self._take("stream")
                    setattr(method, kind, True)
                name = "input_type" if kind == "client_streaming" else "output_type"
                setattr(method, name, self._name())
                self._take(")")
                if kind == "client_streaming":
                    self._take("returns")
            if self._next.text == "{":
                self._block(lambda: self._method_option(method))
            else:
                self._take(";")

        self._block(one)

    def _method_option(self, method: Any) -> None:
        self._take("option")
        self._option(method.options)

    # Options

    def _option(self, options: Any) -> None:
        self._assignment(options, None)
        self._take(";")

    def _options(self, options: Any, field: Any) -> None:
        while True:
            self._assignment(options, field)
            if not self._has(","):
                break
        self._take("]")

    def _assignment(self, options: Any, field: Any) -> None:
        """`name = value`; of a field, `default` and `json_name` are no options."""
        parts: list[tuple[str, bool]] = []
        while True:
            if self._has("("):
                parts.append((self._name(), True))
                self._take(")")
            else:
                parts.append((self._word(), False))
            if not self._has("."):
                break
        self._take("=")
        begun = self._next
        if field is not None and parts == [("json_name", False)]:
            field.json_name = self._string()
        elif field is not None and parts == [("default", False)]:
            field.default_value = self._default(field)
        elif (
            len(parts) == 1 and not parts[0][1] and parts[0][0] in options.DESCRIPTOR.fields_by_name
        ):
            self._known_option(options, parts[0][0], begun)
        else:
            self._other_option(options.uninterpreted_option.add(), parts)

    def _known_option(self, options: Any, name: str, begun: Token) -> None:
        kind = options.DESCRIPTOR.fields_by_name[name]
        try:
            if (
                kind.is_repeated
                if hasattr(kind, "is_repeated")
                else kind.label == kind.LABEL_REPEATED
            ):
                raise ValueError
            if kind.cpp_type == kind.CPPTYPE_BOOL:
                setattr(options, name, self._take("true", "false") == "true")
            elif kind.cpp_type == kind.CPPTYPE_STRING:
                setattr(options, name, self._string())
            elif kind.cpp_type == kind.CPPTYPE_ENUM:
                setattr(options, name, kind.enum_type.values_by_name[self._word()].number)
            else:
                raise ValueError
        except (KeyError, ValueError):
            raise BadSchema(f"line {begun.line}: option {name} cannot be this") from None

    def _other_option(self, made: Any, parts: list[tuple[str, bool]]) -> None:
        for name, is_extension in parts:
            made.name.add(name_part=name, is_extension=is_extension)
        if self._next.kind == "text":
            made.string_value = self._text()
        elif self._next.text == "{":
            made.aggregate_value = self._aggregate()
        elif self._next.kind == "word":
            made.identifier_value = self._word()
        else:
            sign = "-" if self._has("-") else ""
            if not sign:
                self._has("+")
            if self._next.kind == "word":  # -inf
                made.double_value = float(sign + self._word())
                return
            text = self._kind("number", "a value")
            try:
                number = int(text, 0)
            except ValueError:
                made.double_value = float(sign + text.rstrip("f"))
            else:
                if sign:
                    made.negative_int_value = -number
                else:
                    made.positive_int_value = number

    def _aggregate(self) -> str:
        """The tokens of a message in text form, without its braces."""
        self._take("{")
        depth = 1
        found: list[str] = []
        while True:
            token = self._next
            if token.kind == "end":
                raise self._fail("}")
            self._at += 1
            depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
            if not depth:
                return " ".join(found)
            found.append(token.text)

    def _default(self, field: Any) -> str:
        if field.type == FieldDescriptorProto.TYPE_STRING:
            return self._string()
        if field.type == FieldDescriptorProto.TYPE_BYTES:
            return "".join(_escaped_byte(byte) for byte in self._text())
        sign = "-" if self._has("-") else ""
        if self._next.kind == "word":
            return sign + self._word()
        text = self._kind("number", "a value")
        if field.type in (FieldDescriptorProto.TYPE_FLOAT, FieldDescriptorProto.TYPE_DOUBLE):
            return sign + _shortest(float(text.rstrip("f")))
        try:
            return sign + str(int(text, 0))
        except ValueError:
            raise self._fail("a whole number") from None


def _escaped_byte(byte: int) -> str:
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    if byte in named:
        return named[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _shortest(number: float) -> str:
    text = repr(number)
    return text.removesuffix(".0")


def _add_synthetic_oneofs(made: DescriptorProto) -> None:
    """The oneof of one that each `optional` field of proto3 has."""
    taken = {one.name for one in made.field} | {one.name for one in made.oneof_decl}
    for field in made.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=name)
