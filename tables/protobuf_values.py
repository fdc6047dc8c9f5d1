"""Protobuf messages to columns, by Google's own library.

The columns are the fields of one message of the file, the first one unless another is named. Each
value begins with the place of its message: indexes from the file downwards, as Confluent's
serializers write them. Values of other messages do not fit. A field that knows whether it is set is
null if it is not; others have their default, as everywhere in Protobuf. Maps are maps, times of
Google's `Timestamp` times, its wrappers the values within, and values of an enum their names.

Leaves out: messages within themselves, and files that import others than Google's own.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from .errors import TableError
from .raw import TIMESTAMP

MAX_DEPTH: Final = 100  # of messages within messages, as Google's parser has it
_MORE: Final = 0x80  # of a byte of a number: another one follows
_GOOGLE: Final = (
    "any",
    "api",
    "duration",
    "empty",
    "field_mask",
    "struct",
    "timestamp",
    "wrappers",
)
_NS_PER_US: Final = 1000
_US_PER_SECOND: Final = 1_000_000
# By the numbers of Google. A number of 64 bits without a sign that is larger than those with one
# makes a value that does not fit.
_SCALARS: Final[Mapping[int, pa.DataType]] = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: pa.int64(),
    5: pa.int32(),
    6: pa.int64(),
    7: pa.int64(),  # of 32 bits without a sign
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),  # of 32 bits without a sign
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
_REPEATED: Final = 3
_WRAPPERS: Final = "google/protobuf/wrappers.proto"
_TIMESTAMP: Final = "google.protobuf.Timestamp"

To = Callable[[Any], Any]


class ProtobufReader:
    """Of values without a head, each the place of a message, and the message."""

    def __init__(self, serialized: str, message: str = "") -> None:
        """Of a file's descriptor in base 64. `message`: its name, with or without the package; the
        columns of a file without it are none, and none of its values fits. Raises TableError,
        ImportError."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        for name in _GOOGLE:
            importlib.import_module(f"google.protobuf.{name}_pb2")
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
        pool = descriptor_pool.DescriptorPool()
        for name in file.dependency:
            known = descriptor_pb2.FileDescriptorProto()
            try:
                descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
            except KeyError:
                raise TableError(f"the schema imports {name}, which has no columns") from None
            pool.Add(known)
        pool.Add(file)
        found = pool.FindFileByName(file.name)
        self._messages = list(found.message_types_by_name.values())
        if not self._messages:
            raise TableError("the schema has no message, so a value has no columns")
        self._name = message
        self._wanted = _named(self._messages, file.package, message)
        self._fields = []
        if self._wanted is not None:
            self._class = message_factory.GetMessageClass(self._wanted)
            top = (self._wanted.full_name,)
            self._fields = [(one, *_column(one, "", top)) for one in self._wanted.fields]
        self.columns = pa.schema([(one.name, kind) for one, kind, _ in self._fields])

    def read(self, values: pa.Array) -> pa.Table:
        bodies = [self._body(value) for value in values.to_pylist()]
        found = [self._class.FromString(body) for body in bodies]
        return pa.table(
            [
                pa.array([_value(message, field, to) for message in found], kind)
                for field, kind, to in self._fields
            ],
            schema=self.columns,
        )

    def _body(self, value: bytes) -> bytes:
        """Raises ValueError for another message than the wanted one."""
        path, start = _path(value)
        message, inner = None, self._messages
        for index in path:
            if not 0 <= index < len(inner):
                raise ValueError(f"its schema has no message at the place {path}")
            message = inner[index]
            inner = list(message.nested_types)
        if self._wanted is None:
            raise ValueError(f"its schema has no message {self._name}")
        if message is not self._wanted:
            assert message is not None
            raise ValueError(
                f"it is the message {message.full_name}, and the table has {self._wanted.full_name}"
            )
        return value[start:]


def _named(messages: Sequence[Any], package: str, name: str) -> Any:
    """The message of this name, None if there is none."""
    if not name:
        return messages[0]
    waiting = list(messages)
    while waiting:
        one = waiting.pop()
        if one.full_name in (name, f"{package}.{name}"):
            return one
        waiting += one.nested_types
    return None


def _path(value: bytes) -> tuple[list[int], int]:
    """The indexes of a value's message, and where the message begins: their number and each of
    them, in zigzag; 0 alone is the first message. Raises ValueError."""
    count, at = _number(value, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= MAX_DEPTH:
        raise ValueError("it does not begin with the place of a message")
    path = []
    for _ in range(count):
        index, at = _number(value, at)
        path.append(index)
    return path, at


def _number(value: bytes, at: int) -> tuple[int, int]:
    """A number of at most 32 bits in zigzag, and what follows it. Raises ValueError."""
    found = 0
    for place in range(5):
        if at >= len(value):
            break
        byte = value[at]
        at += 1
        found |= (byte & ~_MORE) << 7 * place
        if not byte & _MORE:
            return found >> 1 ^ -(found & 1), at
    raise ValueError("it does not begin with the place of a message")


def _value(message: Any, field: Any, to: To) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    return to(getattr(message, field.name))


def _column(field: Any, place: str, within: Sequence[str]) -> tuple[pa.DataType, To]:
    """The type of a field's column, and what makes its values. Raises TableError."""
    place = f"{place}.{field.name}" if place else field.name
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, _ = _one(message.fields_by_name["key"], place, within)
        kind, to = _one(message.fields_by_name["value"], place, within)
        return pa.map_(key, kind), lambda found: [(name, to(one)) for name, one in found.items()]
    kind, to = _one(field, place, within)
    if _is_repeated(field):
        return pa.list_(kind), lambda found: [to(one) for one in found]
    return kind, to


def _one(field: Any, place: str, within: Sequence[str]) -> tuple[pa.DataType, To]:
    message, enum = field.message_type, field.enum_type
    if enum is not None:
        names = {number: one.name for number, one in enum.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number))
    if message is None:
        return _SCALARS[field.type], _same
    if message.full_name == _TIMESTAMP:
        return TIMESTAMP, lambda found: found.seconds * _US_PER_SECOND + found.nanos // _NS_PER_US
    if message.file.name == _WRAPPERS:
        return _SCALARS[message.fields_by_name["value"].type], lambda found: found.value
    if message.full_name in within:
        raise TableError(f"{place}: a message within itself has no column")
    inner = [(one, *_column(one, place, (*within, message.full_name))) for one in message.fields]
    if not inner:
        raise TableError(f"{place}: a message without fields has no column")
    return pa.struct([(one.name, kind) for one, kind, _ in inner]), lambda found: {
        one.name: _value(found, one, to) for one, _, to in inner
    }


def _is_repeated(field: Any) -> bool:
    """Old libraries have a number for it, which new ones do not want to be asked for."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == _REPEATED if found is None else found)


def _same(found: Any) -> Any:
    return found
