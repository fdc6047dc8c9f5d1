"""Declarative messages: one class a message, each field with the versions it exists in.

Job: `Struct` and its field functions (`int32(...)`, `string(...)`, `array(...)`), which describe
the wire form; the codec compiles reading and writing from them, once per message and version.
Invariants: the order of fields in a class is their order on the wire; all instances are slotted;
every constructor argument is optional and falls back to Kafka's default; `unknown_tagged_fields` is
never dropped between reading and writing.
Mirrors: Kafka's message generator (org.apache.kafka.message) and KIP-482 (flexible versions).
Leaves out: map keys (Kafka's indexed collections): an array is a list.

Class creation stays light, because a process imports hundreds of these classes: `__init__` is
compiled when the first instance is made, and version ranges are parsed by the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar, dataclass_transform

NO_TAGS: Final[Mapping[int, bytes]] = MappingProxyType({})
ZERO_UUID: Final = bytes(16)
ALL_VERSIONS: Final = "0+"
NEWEST: Final = 32767

UNSET: Final[Any] = type("Unset", (), {"__slots__": (), "__repr__": lambda _: "<unset>"})()


class Field:
    """The wire format of one field. `kind` is a primitive's name, `struct` or `array`."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "tag",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: str | None,
        default: Any,
        ignorable: bool,
        tag: int | None,
        element: Any = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.ignorable = ignorable
        self.tag = tag
        self.element = element

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.versions}>"


# The field functions claim to return a value of the attribute's type, so that a type checker sees
# `acks: int = int16()` as an attribute with a default.


def boolean(
    versions: str = ALL_VERSIONS,
    *,
    default: bool = False,
    ignorable: bool = False,
    tag: int | None = None,
) -> bool:
    field: Any = Field("bool", versions, None, default, ignorable, tag)
    return field  # type: ignore[no-any-return]


def _integer(kind: str) -> Callable[..., int]:
    def integer(
        versions: str = ALL_VERSIONS,
        *,
        default: int = 0,
        ignorable: bool = False,
        tag: int | None = None,
    ) -> int:
        field: Any = Field(kind, versions, None, default, ignorable, tag)
        return field  # type: ignore[no-any-return]

    integer.__name__ = kind
    return integer


int8 = _integer("int8")
int16 = _integer("int16")
uint16 = _integer("uint16")
int32 = _integer("int32")
int64 = _integer("int64")


def float64(
    versions: str = ALL_VERSIONS,
    *,
    default: float = 0.0,
    ignorable: bool = False,
    tag: int | None = None,
) -> float:
    field: Any = Field("float64", versions, None, default, ignorable, tag)
    return field  # type: ignore[no-any-return]


def uuid(
    versions: str = ALL_VERSIONS,
    *,
    default: bytes = ZERO_UUID,
    ignorable: bool = False,
    tag: int | None = None,
) -> bytes:
    """16 raw bytes; all zero means "none"."""
    field: Any = Field("uuid", versions, None, default, ignorable, tag)
    return field  # type: ignore[no-any-return]


def string(
    versions: str = ALL_VERSIONS,
    *,
    nullable: str | None = None,
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    return Field("string", versions, nullable, default, ignorable, tag)


def binary(
    versions: str = ALL_VERSIONS,
    *,
    nullable: str | None = None,
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Bytes; a view into the received frame when decoded."""
    return Field("bytes", versions, nullable, default, ignorable, tag)


def opaque_records(versions: str = ALL_VERSIONS, *, nullable: str | None = ALL_VERSIONS) -> Any:
    """Record batches: opaque here, and written without a copy (see `codec.encode_parts`)."""
    return Field("records", versions, nullable, None, False, None)


def array(
    element: type[Struct] | str,
    versions: str = ALL_VERSIONS,
    *,
    nullable: str | None = None,
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """A list of structs, or of a primitive named by its kind, as in `array("int32")`."""
    default = [] if default is UNSET else default
    return Field("array", versions, nullable, default, ignorable, tag, element)


def struct(
    element: type[Struct],
    versions: str = ALL_VERSIONS,
    *,
    nullable: str | None = None,
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    return Field("struct", versions, nullable, default, ignorable, tag, element)


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns the `Field`s of a class body into slots."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> StructMeta:
        body.pop("unknown_tagged_fields", None)  # its slot is Struct's own
        fields = []
        for key, value in body.items():
            if value.__class__ is Field:
                value.name = key
                fields.append(value)
        for field in fields:
            del body[field.name]
        if fields:
            body["_fields"] = tuple(fields)
        body.setdefault("__slots__", tuple([field.name for field in fields]))
        return super().__new__(mcs, name, bases, body)


class Struct(metaclass=StructMeta):
    """A group of fields. Compare by value; do not hash (instances are mutable)."""

    __slots__ = ("unknown_tagged_fields",)
    _fields: ClassVar[tuple[Field, ...]] = ()
    unknown_tagged_fields: Mapping[int, bytes] = NO_TAGS

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other._fields is not self._fields:
            return NotImplemented
        if self is other:
            return True
        return self.unknown_tagged_fields == other.unknown_tagged_fields and all(
            getattr(self, field.name) == getattr(other, field.name) for field in self._fields
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in self._fields]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={dict(self.unknown_tagged_fields)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _compile_init(cls: type[Struct]) -> Callable[..., None]:
    """A keyword-only constructor of plain assignments: as fast as one written by hand."""
    names: dict[str, Any] = {"UNSET": UNSET, "_NO_TAGS": NO_TAGS}
    arguments = ["self", "*"]
    lines = []
    for field in cls._fields:
        name = field.name
        value = name
        default = f"_d_{name}"
        if field.default is UNSET:
            names[default] = UNSET
            names[f"_s_{name}"] = shared_default(field.element)
            value = f"_s_{name} if {name} is UNSET else {name}"
        elif field.kind == "array" and field.default is not None:
            names[default] = UNSET
            value = f"[] if {name} is UNSET else {name}"
        else:
            names[default] = field.default
        arguments.append(f"{name}={default}")
        lines.append(f"    self.{name} = {value}")
    arguments.append("unknown_tagged_fields=_NO_TAGS")
    lines.append("    self.unknown_tagged_fields = unknown_tagged_fields")
    source = f"def __init__({', '.join(arguments)}):\n" + "\n".join(lines)
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)
    init: Callable[..., None] = names["__init__"]
    return init


def _refuse_change(self: Struct, name: str, value: object) -> NoReturn:
    raise AttributeError(f"a default {type(self).__name__} is shared: assign a new one instead")


S = TypeVar("S", bound="Struct")

_SHARED_DEFAULTS: dict[type[Any], Any] = {}


def shared_default(cls: type[S]) -> S:
    """The one, immutable instance that means "absent" in fields of this struct type.

    Sharing it spares a construction for each absent struct, and makes "is it the default?" an `is`.
    """
    try:
        known: S = _SHARED_DEFAULTS[cls]
        return known
    except KeyError:
        frozen = StructMeta(cls.__name__, (cls,), {"__setattr__": object.__setattr__})
        default: S = frozen()
        frozen.__setattr__ = _refuse_change  # type: ignore[method-assign,assignment]
        shared: S = _SHARED_DEFAULTS.setdefault(cls, default)
        return shared


def made_by_readers(cls: type[S]) -> Callable[[], S]:
    """Makes an empty object of the class without its constructor: the reader sets all of its
    fields."""
    return partial(object.__new__, cls)


class MessageSpec(NamedTuple):
    """The header of a message's schema: `kind` is request, response or data; ranges as in
    Kafka's."""

    api_key: int
    kind: str
    valid: str
    flexible: str


class Message(Struct):
    """A whole request, response or on-disk data message."""

    _spec: ClassVar[MessageSpec]


M = TypeVar("M", bound=Message)


def message(
    *, kind: str, valid: str, flexible: str = "none", api_key: int = -1
) -> Callable[[type[M]], type[M]]:
    def register(cls: type[M]) -> type[M]:
        cls._spec = MessageSpec(api_key, kind, valid, flexible)
        return cls

    return register


def version_range(text: str) -> tuple[int, int]:
    """`"3+"` is (3, NEWEST), `"0-2"` is (0, 2), `"5"` is (5, 5), `"none"` is the empty (0, -1)."""
    if text == "none":
        return 0, -1
    if text.endswith("+"):
        return int(text[:-1]), NEWEST
    low, _, high = text.partition("-")
    return int(low), int(high or low)
