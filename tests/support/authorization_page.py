"""docs/AUTHORIZATION.md, written from the access rules on the pages of the APIs."""

from __future__ import annotations

from collections.abc import Iterator

from pybroker_kafka.protocol.access_rules import ANY_NAME, AccessRules, Question
from pybroker_kafka.protocol.acls import ResourceType
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, pages

HEAD = """# Who may do what

This page is written by `python -m tests.pages` from the pages of the
APIs in `protocol/apis/`; do not edit it. It says which permissions each API asks for, in
this order, and what is answered when one is denied, as Apache Kafka 3.9 does with ZooKeeper.
Without `authorizer.class.name` nothing is asked.

A denial is logged at INFO by `pybroker.authorizer`, with the command that would allow it, once for
each connection and change of ACLs, at most a hundred in ten seconds; what is allowed, at DEBUG.

"""


def authorization_page() -> str:
    lines = ["| API | asks | if denied |\n|---|---|---|\n"]
    for key, page in pages():
        for number, (asks, denied) in enumerate(_questions(page.access)):
            name = _name(key) if number == 0 else ""
            lines.append(f"| {name} | {asks} | {denied} |\n")
    return HEAD + "".join(lines)


def _name(key: ApiKey) -> str:
    return f"{API_TABLE[key].name} ({int(key)})"


def _questions(rules: AccessRules) -> Iterator[tuple[str, str]]:
    if rules.only_controller:
        yield "", "NOT_CONTROLLER by others than the controller, before anything is asked"
    for whole in rules.whole:
        when = f" ({whole.when.text})" if whole.when is not None else ""
        yield _any_of(whole.any_of) + when, f"{whole.denied.name} for all of it"
    if rules.each is not None:
        each = rules.each
        unless = f", unless {_one(each.unless)}" if each.unless is not None else ""
        yield _one(each.question) + unless, f"{each.denied.name} for that one, others are done"
    for asked in rules.by_handler:
        yield _any_of(asked.any_of), asked.denied
    for hidden in rules.hidden:
        unless = f", unless {_one(hidden.unless)}" if hidden.unless is not None else ""
        yield _one(hidden.question) + unless, "left out of the answer"
    if rules.note:
        yield "", rules.note


def _any_of(questions: tuple[Question, ...]) -> str:
    return " or ".join(map(_one, questions))


def _one(question: Question) -> str:
    if question.kind is ResourceType.CLUSTER:
        of = "the cluster"
    elif question.field == ANY_NAME:
        of = f"any {_words(question.kind)}"
    else:
        of = f"the {_words(question.kind)}"
    return f"{question.operation.name} on {of}"


def _words(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")
