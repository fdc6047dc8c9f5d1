"""docs/AUTHORIZATION.md, written from the access rules on the pages of the APIs."""

from __future__ import annotations

from collections.abc import Iterator

from pybroker_kafka.protocol.access_rules import ANY_NAME, AccessRules, Question
from pybroker_kafka.protocol.acls import ResourceType
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, pages

HEAD = """# Who may do what

This page is written by `python -m tests.pages` from the pages of the
APIs in `protocol/apis/`; do not edit it. It lists the permissions that each API requires, in the
order of their checks, and the answer to a denial, as in Apache Kafka 3.9 with ZooKeeper. Without
`authorizer.class.name` every client may do everything.

The logger `pybroker.authorizer` reports a denial at INFO, with the command that would allow the
operation: once for each connection and change of ACLs, and at most a hundred times in ten seconds.
It reports allowed operations at DEBUG.

"""


def authorization_page() -> str:
    lines = ["| API | permission | if denied |\n|---|---|---|\n"]
    for key, page in pages():
        for number, (asks, denied) in enumerate(_questions(page.access)):
            name = _name(key) if number == 0 else ""
            lines.append(f"| {name} | {asks} | {denied} |\n")
    return HEAD + "".join(lines)


def _name(key: ApiKey) -> str:
    return f"{API_TABLE[key].name} ({int(key)})"


def _questions(rules: AccessRules) -> Iterator[tuple[str, str]]:
    if rules.only_controller:
        yield (
            "",
            "NOT_CONTROLLER from any broker but the controller, before the permissions are checked",
        )
    for whole in rules.whole:
        when = f" ({whole.when.text})" if whole.when is not None else ""
        yield _any_of(whole.any_of) + when, f"{whole.denied.name} for the whole request"
    if rules.each is not None:
        each = rules.each
        unless = f", unless {_one(each.unless)}" if each.unless is not None else ""
        yield (
            _one(each.question) + unless,
            f"{each.denied.name} for that element; the others are processed",
        )
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
