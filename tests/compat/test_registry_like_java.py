"""Avro's text and verdicts beside Java's Schema.toString and SchemaCompatibility, by many pairs."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.registry.avro_rules import Ambiguous, Comparison
from pybroker_kafka.registry.entities import Content
from pybroker_kafka.registry.formats import AvroSchema, parse
from tests.support.maven import compiled, maven_jars
from tests.support.short_lived_java import JVM_OPTIONS
from tests.unit.registry.test_avro import FORMS, VERDICTS

pytestmark = pytest.mark.nightly

SOURCE = Path(__file__).parent.parent / "support" / "java" / "AvroVerdicts.java"
JARS = {"org.apache.avro:avro": "1.12.0", "org.slf4j:slf4j-nop": "2.0.16"}
PAIRS = 3000
SEED = 32
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Schemas:
    """Random schemas, whose named types are few, so that pairs are often alike."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._names: list[str] = []

    def schema(self) -> Any:
        self._names = []
        return self._kind(3)

    def _kind(self, depth: int, *, in_union: bool = False) -> Any:
        choice = self._random.randrange(10 if depth else 4)
        if choice < 4:
            if self._names and self._random.random() < 0.3:
                return self._random.choice(self._names)
            return self._random.choice(PRIMITIVES)
        if choice == 4:
            return {"type": "array", "items": self._kind(depth - 1)}
        if choice == 5:
            return {"type": "map", "values": self._kind(depth - 1)}
        if choice == 6 and not in_union:
            return self._union(depth)
        if choice == 7:
            return self._named("E", type="enum", **self._symbols())
        if choice == 8:
            return self._named("F", type="fixed", size=self._random.randint(1, 2))
        return self._record(depth)

    def _union(self, depth: int) -> list[Any]:
        found: dict[str, Any] = {}
        for _ in range(self._random.randint(1, 3)):
            one = self._kind(depth - 1, in_union=True)
            label = one if isinstance(one, str) else one.get("name", one["type"])
            found.setdefault(label.rpartition(".")[2], one)
        return list(found.values())

    def _symbols(self) -> dict[str, Any]:
        symbols = self._random.sample("ABC", self._random.randint(1, 3))
        return {"symbols": symbols} | ({"default": symbols[0]} if self._chance(0.3) else {})

    def _named(self, name: str, **parts: Any) -> Any:
        if name in self._names:
            return name
        self._names.append(name)
        made = {"name": name, **parts}
        if self._chance(0.2):
            made["aliases"] = [self._random.choice("EFRS")]
        if self._chance(0.2):
            made["doc"] = "some \u00e9"
        if self._chance(0.2):
            made["extra"] = {"b": 1, "a": [2]}
        return made

    def _record(self, depth: int) -> Any:
        name = self._random.choice("RS")
        if name in self._names:
            return name
        made = self._named(name, type="record", fields=[])
        for field in self._random.sample("abc", self._random.randint(0, 3)):
            one: dict[str, Any] = {"name": field, "type": self._kind(depth - 1)}
            if one["type"] == "int" and self._chance(0.6):
                one["default"] = 7
            if isinstance(one["type"], list) and one["type"][0] == "null":
                one["default"] = None
            if self._chance(0.2):
                one["aliases"] = [self._random.choice("abc")]
            made["fields"].append(one)
        return made

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def ours(text: str) -> AvroSchema:
    found = parse(Content(text), {}, strict=True)
    assert isinstance(found, AvroSchema)
    return found


def told(reader: AvroSchema, writer: AvroSchema) -> str:
    try:
        problems = Comparison().pair(reader.node, writer.node, ())
    except Ambiguous:
        return "ambiguous"
    return "|".join(f"{one.kind}@{one.place}@{one.detail}" for one in problems)


def test_text_and_verdicts_are_javas() -> None:
    schemas = Schemas(random.Random(SEED))
    pairs = [(schemas.schema(), schemas.schema()) for _ in range(PAIRS)]
    pairs += [(reader, writer) for writer, reader, _ in VERDICTS]
    pairs += [(given, given) for given, _ in FORMS if not isinstance(given, str)]
    texts = [(json.dumps(reader), json.dumps(writer)) for reader, writer in pairs]
    changes = [('"int"', '"long"'), ('"string"', '"bytes"'), ('"A"', '"D"'), ('"a"', '"d"')]
    for number in range(PAIRS // 2):
        (before, after), text = changes[number % len(changes)], texts[number][0]
        texts.append((text.replace(before, after), text))
    path = compiled(SOURCE, maven_jars("avro-1.12.0", JARS))
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", path, "AvroVerdicts"],
        input="".join(f"{reader}\t{writer}\n" for reader, writer in texts),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    verdicts = 0
    for (reader, writer), answer in zip(texts, answers, strict=True):
        text, _, problems = answer.partition("\t")
        one = ours(reader)
        assert one.text == text
        assert told(one, ours(writer)) == problems, f"{reader} reads {writer}"
        verdicts += not problems
    assert verdicts > PAIRS / 4
