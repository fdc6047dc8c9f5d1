"""Values that a schema registry describes: Avro, Protobuf and JSON Schema, as JSON and back.

A value is a zero byte, the schema's id in four bytes, for Protobuf the place of the message in its
file, then the data. Other values stay unchanged. Needs `pip install pybroker-kafka[schemas]`.

Limits: an answer of MAX_ANSWER_BYTES, FETCH_SECONDS each. A bad value or schema raises a
SchemaError; an unavailable registry a RegistryError, after which a retry may help.
Leaves out: schemas that refer to others, except for Google's own types in Protobuf.
Mirrors: the wire format of Confluent's serializers.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import trio

from .errors import ClientError

MAGIC = 0
HEAD_BYTES = 5
MAX_ANSWER_BYTES = 8 * 1024 * 1024
FETCH_SECONDS = 10.0
MAX_USELESS = 1000  # schemas
MAX_VARINT_BYTES = 10
MAX_MESSAGE_DEPTH = 32
NEEDED = "pip install 'pybroker-kafka[schemas]'"
# Protobuf files that every installation has.
_COMMON = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


class SchemaError(ClientError):
    """A value or a schema cannot be used; the message says why."""


class RegistryError(ClientError):
    """The registry is not available; the message says why."""


class Schema(Protocol):
    """One schema: converts the data behind the head to JSON values and back.

    With `plain`, numbers of 64 bits are numbers, and unset fields of a message are present:
    Protobuf's own JSON has texts for the former and leaves out the latter.
    """

    def decode(self, data: bytes, *, plain: bool) -> Any: ...

    def encode(self, value: Any) -> bytes: ...


class Registry:
    """`load` fetches the schemas that `decode` and `encode` need."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SchemaError(f"{url!r} is not http://HOST:PORT")
        port = f":{parts.port}" if parts.port else ""
        self._url = f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"
        self._login: str | None = None
        if parts.username:
            user = f"{parts.username}:{parts.password or ''}".encode()
            self._login = base64.b64encode(user).decode()
        self._schemas: dict[int, Schema] = {}
        self._useless: dict[int, SchemaError] = {}  # not fetched again; at most MAX_USELESS

    async def load(self, numbers: Iterable[int]) -> None:
        """Fetch the schemas that are missing. Raises SchemaError, RegistryError."""
        for number in set(numbers) - self._schemas.keys():
            await trio.to_thread.run_sync(self.load_now, number)

    def load_now(self, number: int) -> None:
        """Fetch one schema without trio: it waits for the registry. Raises SchemaError,
        RegistryError."""
        if number in self._useless:
            raise self._useless[number]
        if number in self._schemas:
            return
        try:
            self._schemas[number] = self._fetch(number)
        except SchemaError as error:
            if len(self._useless) < MAX_USELESS:
                self._useless[number] = error
            raise

    def decode(self, data: bytes | None, *, plain: bool = False) -> bytes | None:
        """A value as JSON if a schema describes it, otherwise unchanged. Raises SchemaError."""
        number = schema_of(data)
        if number is None or data is None:
            return data
        try:
            value = self._schemas[number].decode(data[HEAD_BYTES:], plain=plain)
        except Exception as error:  # the libraries raise all kinds
            raise SchemaError(f"a value does not match schema {number}: {_reason(error)}") from None
        return json.dumps(value, default=_plain, ensure_ascii=False).encode()

    def encode(self, number: int, data: bytes | None) -> bytes | None:
        """A value of this schema from JSON. Raises SchemaError."""
        if data is None:
            return None
        try:
            encoded = self._schemas[number].encode(json.loads(data))
        except Exception as error:  # the libraries raise all kinds
            raise SchemaError(
                f"{data[:80].decode(errors='replace')!r} does not match schema {number}: "
                f"{_reason(error)}"
            ) from None
        return bytes([MAGIC]) + number.to_bytes(4, "big") + encoded

    def _fetch(self, number: int) -> Schema:
        """Fetch a schema. Raises SchemaError, RegistryError."""
        found = self._ask(f"/schemas/ids/{number}", number)
        if found.get("references"):
            raise SchemaError(f"schema {number} refers to others, which is not read")
        text, kind = str(found.get("schema", "")), found.get("schemaType", "AVRO")
        try:
            if kind == "AVRO":
                return _Avro(text)
            if kind == "JSON":
                return _Json(text)
            if kind == "PROTOBUF":
                serialized = self._ask(f"/schemas/ids/{number}?format=serialized", number)
                return _Protobuf(base64.b64decode(serialized["schema"]))
        except ImportError as error:
            raise SchemaError(f"schema {number} takes {error.name}: {NEEDED}") from None
        except ClientError:
            raise
        except Exception as error:  # the libraries raise all kinds
            raise SchemaError(f"schema {number} cannot be used: {_reason(error)}") from None
        raise SchemaError(f"schema {number} is of a kind that is not known: {kind}")

    def _ask(self, path: str, number: int) -> dict[str, Any]:
        import urllib.error
        import urllib.request

        request = urllib.request.Request(self._url + path)
        if self._login is not None:
            request.add_header("Authorization", f"Basic {self._login}")
        try:
            with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as answer:
                found = json.loads(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise SchemaError(f"{self._url}: there is no schema {number}") from None
            hint = "; a login goes into http://USER:PASSWORD@HOST" if error.code == 401 else ""
            raise RegistryError(
                f"{self._url}: status {error.code} for schema {number}{hint}"
            ) from None
        except (OSError, ValueError) as error:
            reason = _reason(getattr(error, "reason", error))
            raise RegistryError(f"no schema registry answers at {self._url}: {reason}") from None
        if not isinstance(found, dict):
            raise RegistryError(f"{self._url} does not answer as a schema registry does")
        return found


def schema_of(data: bytes | None) -> int | None:
    """The id of a value's schema, if the value begins with one."""
    if data is None or len(data) < HEAD_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:HEAD_BYTES], "big")


def _reason(error: object) -> str:
    """The reason in one line: a validator's message has the schema and the value, too, in many."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _plain(value: object) -> str:
    """Text for values that JSON has no form for: bytes in base64, times and decimals."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class _Avro:
    def __init__(self, text: str) -> None:
        import fastavro

        self._avro = fastavro
        self._schema = fastavro.parse_schema(json.loads(text))

    def decode(self, data: bytes, *, plain: bool) -> Any:
        return self._avro.schemaless_reader(io.BytesIO(data), self._schema, None)

    def encode(self, value: Any) -> bytes:
        file = io.BytesIO()
        self._avro.schemaless_writer(file, self._schema, value, strict=True)
        return file.getvalue()


class _Json:
    def __init__(self, text: str) -> None:
        self._check = json_validator(json.loads(text))

    def decode(self, data: bytes, *, plain: bool) -> Any:
        return json.loads(data)

    def encode(self, value: Any) -> bytes:
        self._check.validate(value)
        return json.dumps(value, ensure_ascii=False).encode()


def json_validator(schema: Any) -> Any:
    """The validator for values of a schema: of draft 7, if the schema names no other, as in the
    registry."""
    import jsonschema

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
    if check := kind.VALIDATORS.get("additionalItems"):
        kind = jsonschema.validators.extend(kind, {"additionalItems": _beside_a_list(check)})
    return kind(schema)


def _beside_a_list(check: Callable[..., Any]) -> Callable[..., Any]:
    """`additionalItems` counts only beside a list of items; the library fails beside true and
    false."""

    def checked(validator: Any, allowed: Any, value: Any, schema: Any) -> Any:
        if isinstance(schema.get("items"), list):
            return check(validator, allowed, value, schema)
        return None

    return checked


class _Protobuf:
    """A file of messages; `encode` writes its first one."""

    def __init__(self, serialized: bytes) -> None:
        import importlib

        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

        self._json, self._factory = json_format, message_factory
        for name in _COMMON:
            importlib.import_module(f"google.protobuf.{name}_pb2")
        file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
        pool = descriptor_pool.DescriptorPool()
        for name in file.dependency:
            known = descriptor_pb2.FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
            pool.Add(known)
        pool.Add(file)
        self._file = pool.FindFileByName(file.name)

    def _message(self, indexes: Sequence[int]) -> Any:
        found = list(self._file.message_types_by_name.values())[indexes[0]]
        for index in indexes[1:]:
            found = found.nested_types[index]
        return self._factory.GetMessageClass(found)

    def decode(self, data: bytes, *, plain: bool) -> Any:
        rest = iter(data)
        count = _zigzag(rest)
        if not 0 <= count <= MAX_MESSAGE_DEPTH:
            raise ValueError(f"{count} places of a message")
        indexes = [_zigzag(rest) for _ in range(count)] or [0]
        message = self._message(indexes).FromString(bytes(rest))
        found = self._json.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=plain
        )
        return _with_numbers(found, message.DESCRIPTOR) if plain else found

    def encode(self, value: Any) -> bytes:
        message = self._json.ParseDict(value, self._message([0])())
        return b"\0" + bytes(message.SerializeToString())


def _with_numbers(found: Any, descriptor: Any) -> Any:
    """A message as JSON with its numbers of 64 bits as numbers. Google's types stay as they are."""
    if descriptor.file.name.startswith("google/protobuf/"):
        return found
    for field in descriptor.fields:
        value = found.get(field.name)
        if value is None:
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            content = kind.fields_by_name["value"]
            found[field.name] = {key: _number(one, content) for key, one in value.items()}
        elif isinstance(value, list):
            found[field.name] = [_number(one, field) for one in value]
        else:
            found[field.name] = _number(value, field)
    return found


def _number(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _with_numbers(value, field.message_type)
    is_wide = field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    return int(value) if is_wide else value


def _zigzag(data: Iterator[int]) -> int:
    """The next zigzag varint. Raises ValueError if there is none."""
    number = 0
    for place in range(MAX_VARINT_BYTES):
        byte = next(data, None)
        if byte is None:
            break
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("the data ends within a number")
