"""What comes from outside is one line, and moves no cursor."""

from __future__ import annotations

import json

import pytest

from pybroker_kafka.broker.resources.visible_text import visible, visible_json, visible_lines

FORGERIES = [
    ("a\nb", "a\\nb"), ("a\r\nb", "a\\r\\nb"), ("\x1b[2J", "\\x1b[2J"), ("\x9b2J", "\\x9b2J"),
    ("a\x85b", "a\\x85b"), ("a\u2028b\u2029", "a\\u2028b\\u2029"), ("\x00\x7f\t", "\\x00\\x7f\\t"),
    ("\u202eevil\u2066", "\\u202eevil\\u2066"), ("\udc80", "\\udc80"), ("\x0b\x0c", "\\x0b\\x0c"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), FORGERIES)
def test_what_is_hidden_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(text).isprintable()
    visible(text).encode()


@pytest.mark.parametrize("text", ["", "plain", "C:\\new\\table", "Grüße, 世界 🎉", "é́", "a b"])
def test_all_else_stays(text: str) -> None:
    assert visible(text) == text
    assert visible_lines(text) == text


def test_lines_and_tabs_may_stay() -> None:
    assert visible_lines("a\n\tb\x1b\r\n") == "a\n\tb\\x1b\\r\n"


@pytest.mark.parametrize("text", [text for text, _ in FORGERIES] + ["世界"])
def test_json_means_the_same(text: str) -> None:
    shown = visible_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert shown.isprintable()
    shown.encode()
