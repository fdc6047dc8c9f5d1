"""Records as text, and back."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.cli.meter import Meter, duration
from pybroker_kafka.cli.options import UserError
from pybroker_kafka.cli.record_format import (
    RecordText,
    Template,
    json_line,
)
from pybroker_kafka.cli.record_input import parse_header, parse_hex, parse_json
from pybroker_kafka.cli.starts import End, Start, parse_end, parse_start

data = st.none() | st.binary(max_size=20)
records = st.builds(
    RecordText,
    topic=st.text(max_size=5),
    partition=st.integers(0, 9),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(-1, 2**63 - 1),
    key=data,
    value=data,
    headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=3),
)


@given(records)
def test_json_lines_are_read_as_they_were_printed(record: RecordText) -> None:
    line = json_line(record)
    assert line.count(b"\n") == 1
    read = parse_json(line, 1)
    assert (read.partition, read.timestamp_ms) == (record.partition, record.timestamp)
    assert (read.key, read.value) == (record.key, record.value)
    assert list(read.headers) == list(record.headers)


@given(records)
def test_every_field_prints_something(record: RecordText) -> None:
    line = Template("%t%p%o%k%v%h%T%d%K%V%{k:hex}%{v:base64}%{v:json}%%\\x0a\\t", "-").line(record)
    assert line.endswith(b"%\n\t\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 7 is not JSON ("),
        (b"[1]", 'line 7 is not an object, as {"key": "k", "value": "v"}: '),
        (b'{"kye": 1}', "line 7 has 'kye'; there are: headers, key, key_base64, offset, "),
        (b'{"partition": "1"}', "line 7: its partition is no number: "),
        (b'{"timestamp": true}', "line 7: its timestamp is no number: "),
        (b'{"value_base64": "?"}', "line 7: "),
        (b'{"headers": [1]}', "line 7: "),
        (b'{"headers": 1}', "line 7: "),
    ],
)
def test_lines_that_are_no_records(line: bytes, told: str) -> None:
    with pytest.raises(UserError) as error:
        parse_json(line, 7)
    assert error.value.message.startswith(told)


def test_other_json_is_a_value_as_it_is() -> None:
    assert parse_json(b'{"value": {"a": [1, "\xc3\xa9"]}}', 1).value == '{"a": [1, "é"]}'.encode()


def test_numbers() -> None:
    record = RecordText("t", 0, 0, 0, b"\xff\xff\xff\xfe", b"\x01\x02", ())
    form = "%{k:big32} %{k:little32} %{v:big16} %{v:little16} %{v:big64}"
    assert Template(form, "-").line(record) == b"-2 -16777217 258 513 0x0102\n"
    assert Template("%{v:big8}", "-").line(record._replace(value=None)) == b"-\n"


def test_hexadecimal_and_headers() -> None:
    assert parse_hex(b"00 ff", 1) == b"\0\xff"
    with pytest.raises(UserError, match="line 3 is not hexadecimal"):
        parse_hex(b"0g", 3)
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a") == ("a", None)
    with pytest.raises(UserError, match="'=b' is not NAME=VALUE"):
        parse_header("=b")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start(word="beginning")), ("latest", Start(word="end")),
        ("17", Start(offset=17)), ("-3", Start(last=3)), ("@5", Start(at_ms=5)),
    ],
)  # fmt: skip
def test_starts(text: str, start: Start) -> None:
    assert parse_start(text) == start


def test_what_is_no_place() -> None:
    for wrong in ("", "+1", "x", "--1", "1.5"):
        with pytest.raises(UserError, match="is not beginning, end, OFFSET"):
            parse_start(wrong)
    assert (parse_end(None), parse_end("end"), parse_end("@7")) == (End(), End(True), End(at_ms=7))
    with pytest.raises(UserError, match="is not end or @TIME"):
        parse_end("17")


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))
def test_the_last_records(first: int, count: int, last: int) -> None:
    offset = Start(last=last).offset_in(first, first + count)
    assert offset is not None
    assert len(range(first, first + count)[-last:] if last else ()) == first + count - offset


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def test_a_meter_tells_rate_share_and_time_left() -> None:
    terminal = Terminal()
    meter = Meter(100.0, total=1000, file=terminal)
    meter.add(100, 1_000_000, 100.2)
    assert terminal.getvalue() == ""
    meter.add(100, 1_000_000, 101.0)
    assert terminal.getvalue() == "\r200 records  200/s  2.00 MB/s  20%  4 s left"
    meter.close()
    assert terminal.getvalue().endswith("\r")
    assert (meter.records, meter.bytes) == (200, 2_000_000)
    silent = Meter(0.0, file=io.StringIO())
    silent.add(1, 1, 99.0)
    silent.close()


def test_durations() -> None:
    assert [duration(s) for s in (-1, 4.9, 125, 3725)] == ["0 s", "4 s", "2:05", "1:02:05"]
