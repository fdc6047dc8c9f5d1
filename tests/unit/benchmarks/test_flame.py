"""Sampled stacks as a table and as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.flame import Cost, costs, flame_graph, read_stacks

LINES = [
    "main (a.py:1);work (b.py:10);work (b.py:11) 3",
    "main (a.py:2);work (b.py:12) 2",
    "main (a.py:3);rest <x> (c.py:1) 5",
    "",
]


def test_functions_are_merged_over_their_lines() -> None:
    assert read_stacks(LINES) == {
        ("main (a.py)", "work (b.py)", "work (b.py)"): 3,
        ("main (a.py)", "work (b.py)"): 2,
        ("main (a.py)", "rest <x> (c.py)"): 5,
    }


def test_a_process_goes_by_its_number() -> None:
    line = 'process 12:"python -m pybroker_kafka start";main (a.py:1) 4'
    assert read_stacks([line]) == {("process 12", "main (a.py)"): 4}


def test_costs_are_shares_and_a_recursion_counts_once() -> None:
    assert sorted(costs(read_stacks(LINES))) == [
        Cost("main (a.py)", 0, 100),
        Cost("rest <x> (c.py)", 50, 50),
        Cost("work (b.py)", 50, 50),
    ]


def test_a_box_is_as_wide_as_its_share() -> None:
    root = ElementTree.fromstring(flame_graph(read_stacks(LINES), "title & more"))
    space = "{http://www.w3.org/2000/svg}"
    boxes = {
        group.findtext(f"{space}title"): group.find(f"{space}rect")
        for group in root.iter(f"{space}g")
    }
    assert set(boxes) == {
        "main (a.py): 100.0 %", "work (b.py): 50.0 %", "work (b.py): 30.0 %",
        "rest <x> (c.py): 50.0 %",
    }  # fmt: skip
    widths = {told: float(box.get("width", "0")) for told, box in boxes.items() if box is not None}
    ratio = widths["rest <x> (c.py): 50.0 %"] / widths["main (a.py): 100.0 %"]
    assert abs(ratio - 0.5) < 0.01


def test_no_samples_make_an_empty_picture() -> None:
    assert "</svg>" in flame_graph(read_stacks([]), "nothing")
