"""From Kerberos principals to users: `sasl.kerberos.principal.to.local.rules`.

A rule is `DEFAULT` (the first component of a principal of the own realm) or
`RULE:[n:format](match)s/from/to/g/L`; the first that applies counts.

Mirrors `KerberosShortNamer`, `KerberosRule` and `KerberosName`; patterns are Python's, which differ
from Java's only in constructs that such rules do not use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_RULE = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>L|U)?"
)
_NAME = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_PARAMETER = re.compile(r"\$(\d*)")


@dataclass(frozen=True, slots=True)
class _Rule:
    count: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    times: int
    case: str | None

    def apply(self, parameters: Sequence[str]) -> str | None:
        if len(parameters) - 1 != self.count:
            return None
        base = _PARAMETER.sub(lambda found: parameters[int(found[1])], self.format)
        if self.match is not None and not self.match.fullmatch(base):
            return None
        if self.pattern is not None:
            base = self.pattern.sub(self.replacement, base, self.times)
        if re.search("[/@]", base):
            return None
        if self.case == "L":
            return base.lower()
        return base.upper() if self.case == "U" else base


class NameRules:
    """ValueError names a rule that is none."""

    __slots__ = ("_default_realm", "_rules")

    def __init__(self, default_realm: str, rules: Sequence[str]) -> None:
        self._default_realm = default_realm
        self._rules = [_parsed(rule) for rule in rules]

    def short_name(self, principal: str) -> str | None:
        """The user of a principal; None if no rule applies: then the principal cannot log in."""
        found = _NAME.fullmatch(principal)
        if found is None:
            return None if "@" in principal else principal
        parameters = [found["realm"], found["service"]]
        if found["host"] is not None:
            parameters.append(found["host"])
        for rule in self._rules:
            if rule is not None:
                name = rule.apply(parameters)
            else:
                name = parameters[1] if parameters[0] == self._default_realm else None
            if name is not None:
                return name
        return None


def _parsed(text: str) -> _Rule | None:
    """A rule; None for DEFAULT."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"Invalid rule: {text}")
    if found["default"]:
        return None
    count = int(found["count"])
    for number in _PARAMETER.findall(found["format"]):
        if not number or int(number) > count:
            raise ValueError(f"Invalid rule: {text}: ${number} is none of its components")
    try:
        return _Rule(
            count,
            found["format"],
            None if found["match"] is None else re.compile(found["match"]),
            None if found["from"] is None else re.compile(found["from"]),
            re.sub(r"\$(\d)", r"\\g<\1>", found["to"] or ""),
            0 if found["all"] else 1,
            found["case"],
        )
    except re.error as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from None
