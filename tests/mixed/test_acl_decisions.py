"""Random ACLs, random questions: our AclAuthorizer decides as Apache Kafka's own class does.

The class runs in a JVM without broker or ZooKeeper. 120 sets of ACLs that change while they are
asked, 23 000 questions: 4 seconds.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from pybroker_kafka.broker.security.acl_authorizer import AclAuthorizer
from pybroker_kafka.broker.security.acls import AccessControlEntry, ResourcePattern
from pybroker_kafka.broker.security.principal import KafkaPrincipal, parse_principals
from pybroker_kafka.protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from tests.support.apache_kafka import java_answers

SETS = 120
CHANGES = 12
QUESTIONS = 28  # after each change
BY_TYPE = 4
SUPER_USERS = "User:root;Group:x:y"
TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY][:3]
OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ANY]
ASKED = [operation for operation in OPERATIONS if operation is not AclOperation.ALL]
# Addresses as our sockets have them and as ACLs do.
HOSTS = {"10.0.0.1": "10.0.0.1", "10.0.0.2": "10.0.0.2", "::1": "0:0:0:0:0:0:0:1"}
PRINCIPALS = ("User:a", "User:b:c", "User:é", "Group:a")


class Question(NamedTuple):
    words: tuple[str, ...]
    ours: bool

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: ours says {self.ours}"


class Series:
    """Commands for Kafka's class, and what ours says to the questions among them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.lines: list[str] = []
        self.questions: list[Question] = []
        self._authorizer = AclAuthorizer()

    def _tell(self, *words: str) -> None:
        self.lines.append("\t".join(words))

    def run(self) -> None:
        for _ in range(SETS):
            pick = self._random
            by_default = pick.random() < 0.3
            self._authorizer = AclAuthorizer(
                parse_principals(SUPER_USERS), allow_if_no_acl_found=by_default
            )
            self._tell("new", SUPER_USERS, str(by_default).lower())
            for _ in range(pick.randrange(1, CHANGES)):
                self._change(pick.randrange(4))
                for _ in range(QUESTIONS):
                    self._ask()
                for _ in range(BY_TYPE):
                    self._ask_by_type()

    def _name(self, longest: int) -> str:
        pick = self._random
        letters = "ab" if pick.random() < 0.8 else "ab*:é\U0001f600"
        return "".join(pick.choices(letters, k=pick.randrange(1, longest)))

    def _change(self, entries: int) -> None:
        pick = self._random
        kind = pick.choice(TYPES)
        pattern = pick.choice((PatternType.LITERAL, PatternType.PREFIXED))
        name = "*" if pick.random() < 0.25 else self._name(4)
        new = {self._entry() for _ in range(entries)}
        self._authorizer.update(ResourcePattern(kind, pattern, name), new)
        fields = [
            word
            for entry in sorted(new)
            for word in (entry.principal, entry.host, entry.operation.name, entry.permission.name)
        ]
        self._tell("acls", kind.name, pattern.name, name, *fields)

    def _entry(self) -> AccessControlEntry:
        pick = self._random
        return AccessControlEntry(
            pick.choice((*PRINCIPALS, "User:*", "Group:*")),
            pick.choice((*HOSTS.values(), "*", "*", "::1")),
            pick.choice((*OPERATIONS[:6], AclOperation.DESCRIBE, pick.choice(OPERATIONS))),
            AclPermission.DENY if pick.random() < 0.35 else AclPermission.ALLOW,
        )

    def _sender(self) -> tuple[KafkaPrincipal, str]:
        pick = self._random
        users = (*PRINCIPALS, *SUPER_USERS.split(";")[pick.randrange(2) :][:1])
        kind, _, name = pick.choice(users).partition(":")
        if pick.random() < 0.03:
            name = "*"
        return KafkaPrincipal(kind, name), pick.choice(list(HOSTS))

    def _ask(self) -> None:
        pick = self._random
        who, host = self._sender()
        operation, kind, name = pick.choice(ASKED[:6] * 2 + ASKED), pick.choice(TYPES), "*"
        if pick.random() < 0.97:
            name = self._name(6)
        words = ("ask", who.type, who.name, host, operation.name, kind.name, name)
        ours = self._authorizer.allows(who, host, operation, kind, name)
        self._tell(*words)
        self.questions.append(Question(words, ours))

    def _ask_by_type(self) -> None:
        pick = self._random
        who, host = self._sender()
        operation, kind = pick.choice(ASKED[:2] * 4 + ASKED), pick.choice(TYPES)
        ours = self._authorizer.allows_by_type(who, host, operation, kind)
        words = ("any", who.type, who.name, host, operation.name, kind.name)
        self._tell(*words)
        self.questions.append(Question(words, ours))


@pytest.mark.parametrize("seed", [1])
def test_kafkas_class_decides_alike(seed: int) -> None:
    series = Series(seed)
    series.run()
    answers = java_answers("AclDecisions", series.lines, source="AclDecisions.java").strip()
    assert len(answers) == len(series.questions)
    wrong = [
        str(question)
        for question, theirs in zip(series.questions, answers, strict=True)
        if question.ours is not (theirs == "1")
    ]
    assert wrong == []
    for kind in ("ask", "any"):
        allowed = sum(question.ours for question in series.questions if question.words[0] == kind)
        asked = sum(question.words[0] == kind for question in series.questions)
        assert 0.1 < allowed / asked < 0.9, "the questions are not all of one kind"
