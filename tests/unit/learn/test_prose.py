"""Markdown of the chapters as plain values."""

from __future__ import annotations

from pybroker_kafka.learn.prose import blocks, spans


def test_spans() -> None:
    assert spans("a `b*c*` **d** *e f* [g](h) 2 * 3 * 4") == [
        ("text", "a "),
        ("code", "b*c*"),
        ("text", " "),
        ("strong", "d"),
        ("text", " "),
        ("em", "e f"),
        ("text", " "),
        ("link", "g", "h"),
        ("text", " 2 * 3 * 4"),
    ]
    assert spans("") == []
    assert spans("`code`") == [("code", "code")]


def test_blocks() -> None:
    source = "## H `c`\nOne\ntwo.\n\n- a\n  b\n- c\n\n1. d\n2. e\n```\nx\n\n# y\n```\nlast"
    assert blocks(source) == [
        {"kind": "heading", "spans": [("text", "H "), ("code", "c")]},
        {"kind": "paragraph", "spans": [("text", "One two.")]},
        {"kind": "list", "is_numbered": False, "items": [[("text", "a b")], [("text", "c")]]},
        {"kind": "list", "is_numbered": True, "items": [[("text", "d")], [("text", "e")]]},
        {"kind": "code", "text": "x\n\n# y"},
        {"kind": "paragraph", "spans": [("text", "last")]},
    ]


def test_a_block_of_code_that_does_not_end() -> None:
    assert blocks("```\nx") == [{"kind": "code", "text": "x"}]
