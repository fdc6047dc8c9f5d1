"""ssl.principal.mapping.rules: from the name in a client's certificate to the name of a user.

Job: `parse_rules` and `map_name`. Rules are tried in their order, the first whose pattern matches
the whole name counts: `RULE:pattern/replacement/[LU]` (to lower, to upper case) or `DEFAULT`,
the name as it is. Without a rule that matches the client is refused.

Invariants: pure; a rule that cannot be read is a BadRule when it is parsed. A name is bounded by
MAX_NAME_CHARACTERS, since a pattern may take long over it.

Mirrors `SslPrincipalMapper`. Patterns are Java's; nearly all mean the same here, and named groups
are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

DEFAULT_RULES: Final = "DEFAULT"
MAX_NAME_CHARACTERS: Final = 2048

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?<(?![=!])")
_NAMED_REFERENCE: Final = re.compile(r"(?<!\\)\\k<(\w+)>")

# A reference after a dollar; escaped characters are skipped.
_DOLLAR: Final = re.compile(r"\\.|\$(?:\{\w*\}|[0-9])?", re.DOTALL)


class BadRule(Exception):
    """A rule that cannot be read."""


class NoRuleApplies(Exception):
    """No rule maps the client's name to a user."""


class Rule(NamedTuple):
    """DEFAULT has no pattern. `case` is "L", "U" or nothing."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules in the key's text. Raises BadRule."""
    rules: list[Rule] = []
    for split in _SPLITTER.finditer(text.strip()):
        rule = split[1]
        match = _PARSER.match(rule)
        assert match is not None, "the pattern matches nothing at all too"
        if match.end() != len(rule):
            raise BadRule(f"Invalid rule: `{rule}`, unmatched substring: `{rule[match.end() :]}`")
        if match[1] is not None:
            rules.append(Rule())
        elif match[2] is not None:
            pattern = _compiled(match[2])
            _check_replacement(pattern, match[4])
            rules.append(Rule(pattern, match[4], match[6]))
    return tuple(rules)


def map_name(rules: Sequence[Rule], name: str) -> str:
    """The user of this name, by the first rule that fits. Raises NoRuleApplies."""
    if len(name) > MAX_NAME_CHARACTERS:
        raise NoRuleApplies(f"the name has more than {MAX_NAME_CHARACTERS} characters")
    for pattern, replacement, case in rules:
        if pattern is None:
            return name
        if pattern.fullmatch(name) is None:
            continue
        found = pattern.sub(partial(expand, replacement), name)
        return found.lower() if case == "L" else found.upper() if case == "U" else found
    raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {name}")


def expand(replacement: str, match: re.Match[str]) -> str:
    """`$1` is a group, with as many digits as there are groups for; `\\` escapes a character."""
    out: list[str] = []
    at, groups = 0, match.re.groups
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            out.append(replacement[at : at + 1])
            at += 1
        elif char == "$" and replacement[at : at + 1].isdecimal():
            number = int(replacement[at])
            if number > groups:
                out.append("$")  # not a group: kept
                continue
            at += 1
            while replacement[at : at + 1].isdecimal():
                longer = 10 * number + int(replacement[at])
                if longer > groups:
                    break
                number, at = longer, at + 1
            out.append(match[number] or "")
        elif char == "$" and (named := re.match(r"\{(\w+)\}", replacement[at:])) is not None:
            out.append(match[named[1]] or "")
            at += named.end()
        else:
            out.append(char)
    return "".join(out)


def _check_replacement(pattern: re.Pattern[str], replacement: str) -> None:
    """Refuse any other use of `$` at the start; Java refuses each client instead."""
    for match in _DOLLAR.finditer(replacement):
        found = match[0]
        number = found[1:2]
        good = (
            number.isdecimal() and (number == "0" or pattern.groups > 0)
            if not found.startswith("${")
            else found[2:-1] in pattern.groupindex
        )
        if found.startswith("$") and not good:
            raise BadRule(f"Invalid rule: the replacement `{replacement}` has no group for {found}")


def _compiled(pattern: str) -> re.Pattern[str]:
    translated = _NAMED_GROUP.sub("(?P<", pattern)
    translated = _NAMED_REFERENCE.sub(r"(?P=\1)", translated)
    try:
        return re.compile(translated)
    except re.error as error:
        raise BadRule(f"Invalid rule: the pattern `{pattern}`: {error}") from None
