"""What the compiled readers and writers share: versions of fields, and source text with fused runs.

Job: `FieldPlan` sorts a struct's fields for one version; `Source` collects the lines of one
generated function and fuses neighbouring fixed-size values into one `struct.Struct`; `Generator`
holds the functions of one message in one version.
Invariants: a run is flushed before anything of variable length is read or written, so values keep
their order on the wire.
Leaves out: the grammar of each field kind (`codec_reader`, `codec_writer`).

Each function comes in two forms. The sliced one is a generator that does the same and yields within
its loops over elements, about once a millisecond: who drives it can do something else in between.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any, Final

from .schema import UNSET, Field, Message, Struct, shared_default, version_range

# Kinds of fixed size: their letter in a struct format, and their size.
FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


# Numbers of an array that a sliced function reads or writes at once.
SLICE_NUMBERS: Final = 4096


def in_range(versions: str | None, version: int) -> bool:
    if versions is None:
        return False
    low, high = version_range(versions)
    return low <= version <= high


class FieldPlan:
    """The fields of one struct in one version: on the wire in order, tagged, and absent."""

    __slots__ = ("absent", "regular", "tagged")

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.regular: list[Field] = []
        self.tagged: list[Field] = []
        self.absent: list[Field] = []
        for field in cls._fields:
            if not in_range(field.versions, version):
                self.absent.append(field)
            elif field.tag is None:
                self.regular.append(field)
            else:
                assert flexible, f"{cls.__name__}.{field.name} is tagged in a version without tags"
                self.tagged.append(field)
        self.tagged.sort(key=_tag_of)


def _tag_of(field: Field) -> int:
    assert field.tag is not None
    return field.tag


class Source:
    """Lines of one generated function. `names` is what the function sees as its globals."""

    __slots__ = ("depth", "lines", "names", "run")

    def __init__(self, signature: str, names: dict[str, Any]) -> None:
        self.lines = [signature]
        self.depth = 1
        self.names = names
        self.run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def fixed(self, letter: str, expression: str) -> None:
        """Adds a value of fixed size to the current run."""
        self.run.append((letter, expression))

    def take_run(self) -> tuple[str, list[str]]:
        letters = "".join(letter for letter, _ in self.run)
        expressions = [expression for _, expression in self.run]
        self.run = []
        return letters, expressions

    def layout(self, letters: str, method: str) -> str:
        """The name under which generated code calls `Struct(letters).method`."""
        name = f"{method}_{letters.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Layout(">" + letters), method)
        return name

    def constant(self, prefix: str, value: object) -> str:
        """The name under which generated code sees `value`."""
        name = f"{prefix}_{getattr(value, '__name__', type(value).__name__)}"
        known = self.names.setdefault(name, value)
        assert known is value, f"two values are called {name}"
        return name

    def default(self, field: Field) -> str:
        """An expression for the field's default; a fresh list for arrays."""
        if field.default is UNSET:
            return self.constant("DEFAULT", shared_default(field.element))
        return repr(field.default)


class Counter:
    """Unique names of local variables."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def new(self, prefix: str) -> str:
        self.last += 1
        return f"{prefix}{self.last}"


class Generator:
    """Makes the functions that read, or write, one message in one version."""

    def __init__(
        self, cls: type[Message], version: int, helpers: Mapping[str, Any], sliced: bool
    ) -> None:
        low, high = version_range(cls._spec.flexible)
        self.cls = cls
        self.version = version
        self.sliced = sliced
        self.flexible = low <= version <= high
        # What the functions see as their globals.
        self.names = dict(helpers)
        self.functions: list[Source] = []
        self.tag_functions: dict[type[Struct], str] = {}
        self.counter = Counter()

    def function(self, signature: str) -> Source:
        source = Source(f"def {signature}:", self.names)
        self.functions.append(source)
        return source

    @contextmanager
    def in_one_go(self) -> Iterator[None]:
        """Tagged fields are small: their functions are not sliced."""
        sliced, self.sliced = self.sliced, False
        yield
        self.sliced = sliced

    def compile(self, name: str) -> Any:
        """The function called `name`, with all that it calls."""
        text = "\n\n".join("\n".join(source.lines) for source in self.functions) + "\n"
        self.names["__source__"] = text
        title = f"{name} {self.cls.__name__} v{self.version}{' in slices' * self.sliced}"
        exec(compile(text, f"<{title}>", "exec"), self.names)
        return self.names[name]


Reader = Callable[[Any, int, int], tuple[Any, int]]
Writer = Callable[[Any, list[Any], list[Any]], None]
# It fills a new message.
SlicedReader = Callable[[Any, Any, int, int], abc.Generator[None, None, tuple[Any, int]]]
SlicedWriter = Callable[[Any, list[Any], list[Any]], abc.Generator[None, None, None]]
