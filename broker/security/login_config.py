"""JAAS files: the login modules of each section, as `java.security.auth.login.config` names them.

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        username="kafka"
        password="secret";
    };

Mirrors the syntax of `javax.security.auth.login.Configuration`: comments as in Java, quoted and
bare values, any number of modules a section. Leaves out system properties inside of values
(`${...}`), which raise. What is raised names lines, never values: they hold passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
MAX_CHARACTERS = 64 * 1024

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<sign>[{};=])
    |"(?P<quoted>(?:[^"\\\n]|\\.)*)"
    |(?P<bare>[^\s{};="/]+(?:/[^\s{};="/*][^\s{};="]*)*)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class BadLoginConfig(Exception):
    """The text is no JAAS file; the message says where."""


class LoginModule(NamedTuple):
    """One module of a section. Its options hold secrets, so it shows none of them."""

    name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, {self.flag!r}, options of {sorted(self.options)})"


class _Token(NamedTuple):
    text: str
    line: int
    is_sign: bool


def parse_login_config(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The sections by name. Raises BadLoginConfig."""
    if len(text) > MAX_CHARACTERS:
        raise BadLoginConfig(f"it has more than {MAX_CHARACTERS} characters")
    tokens = _Tokens(_tokens(text))
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while (name := tokens.next_word_or_end()) is not None:
        if name in sections:
            raise BadLoginConfig(f"line {tokens.line}: a second section {name}")
        tokens.expect("{")
        modules = []
        while not tokens.take("}"):
            modules.append(_module(tokens))
        tokens.expect(";")
        sections[name] = tuple(modules)
    return sections


def _module(tokens: _Tokens) -> LoginModule:
    name, flag = tokens.word(), tokens.word().lower()
    if flag not in FLAGS:
        raise BadLoginConfig(f"line {tokens.line}: after a module stands one of {sorted(FLAGS)}")
    options: dict[str, str] = {}
    while not tokens.take(";"):
        option = tokens.word()
        tokens.expect("=")
        value = tokens.word()
        if "${" in value:
            raise BadLoginConfig(f"line {tokens.line}: ${{...}} in a value is not replaced here")
        options[option] = value
    return LoginModule(name, flag, options)


class _Tokens:
    __slots__ = ("_ahead", "_rest", "line")

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._rest = tokens
        self._ahead = next(tokens, None)
        self.line = 1

    def next_word_or_end(self) -> str | None:
        return None if self._ahead is None else self.word()

    def word(self) -> str:
        token = self._next()
        if token.is_sign:
            raise BadLoginConfig(f"line {token.line}: an unexpected {token.text}")
        return token.text

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise BadLoginConfig(f"line {self._next().line}: {sign} is expected")

    def take(self, sign: str) -> bool:
        token = self._ahead
        if token is None or not token.is_sign or token.text != sign:
            return False
        self._next()
        return True

    def _next(self) -> _Token:
        token = self._ahead
        if token is None:
            raise BadLoginConfig("it ends in the middle of a section")
        self._ahead = next(self._rest, None)
        self.line = token.line
        return token


def _tokens(text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadLoginConfig(f"line {line}: it cannot be read from here on")
        if match["sign"] is not None:
            yield _Token(match["sign"], line, True)
        elif match["quoted"] is not None:
            yield _Token(_ESCAPE.sub(_unescaped, match["quoted"]), line, False)
        elif match["bare"] is not None:
            yield _Token(match["bare"], line, False)
        line += match[0].count("\n")
        position = match.end()


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[1])
