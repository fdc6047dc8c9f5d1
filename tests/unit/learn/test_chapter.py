"""A page becomes a chapter; what is not understood is named with its line."""

from __future__ import annotations

import pytest

from pybroker_kafka.learn.chapter import Ask, BadChapter, Run, Text, parse

PAGE = """# A title
<!-- topics: learn-a learn-b -->
<!-- groups: learn-g -->
<!-- watch: topics/learn-a -->

First.

## A section

<!-- do -->
```sh
pybroker topics list
# no title
```

Between.

```
shown, not run
```

<!-- ask: leader learn-a 0 -->
<!-- hint: Look. -->
> Which broker
> leads?

<!-- watch: cluster -->

<!-- background: ANN -->
```python
print(1)
```

<!-- break -->
```sh
kill $ANN
```

Last.
"""


def test_a_page() -> None:
    chapter = parse(3, "name", PAGE)
    assert (chapter.number, chapter.name, chapter.title) == (3, "name", "A title")
    assert chapter.topics == ("learn-a", "learn-b")
    assert chapter.groups == ("learn-g",)
    watch = "topics/learn-a"
    assert chapter.parts == (
        Text("First.\n\n## A section", watch),
        Run("sh", "pybroker topics list\n# no title\n", False, "", watch),
        Text("Between.\n\n```\nshown, not run\n```", watch),
        Ask(("leader", "learn-a", "0"), "Which broker leads?", "Look.", watch),
        Run("python", "print(1)\n", False, "ANN", "cluster"),
        Run("sh", "kill $ANN\n", True, "", "cluster"),
        Text("Last.", "cluster"),
    )


def test_parts_of_a_step() -> None:
    chapter = parse(3, "name", PAGE)
    assert [len(chapter.parts_of(step)) for step in range(5)] == [2, 2, 1, 1, 1]
    assert sum((chapter.parts_of(step) for step in range(5)), ()) == chapter.parts
    assert len(chapter.steps) == 4


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("no title", "the first line is not its title"),
        ("", "the first line is not its title"),
        ("# T\n<!-- do -->\n", "nothing follows do"),
        ("# T\n<!-- do -->\nwords\n", "line 3: do: neither a block nor a quote follows"),
        ("# T\n<!-- do -->\n> why?\n", "line 3: a quote is a question, and needs a fact"),
        ("# T\n<!-- ask: leader -->\n```sh\n```\n", "line 3: a block to run is one of sh, python"),
        ("# T\n<!-- do -->\n```\nx\n```\n", "line 3: a block to run is one of sh, python"),
        ("# T\n<!-- do -->\n```sh\nx\n", "a block of code does not end"),
        ("# T\n<!-- do -->\n<!-- break -->\n", "break behind do"),
        ("# T\n<!-- hint: x -->\n", "hint is no mark of the course"),
        ("# T\n<!-- frobnicate: x -->\n", "frobnicate is no mark of the course"),
        ("# T\n<!-- topics: learn-a orders -->\n", "topics of the course begin with learn-"),
        ("# T\n<!-- groups: billing -->\n", "groups of the course begin with learn-"),
    ],
)
def test_what_is_not_understood(page: str, problem: str) -> None:
    with pytest.raises(BadChapter, match=problem):
        parse(1, "name", page)
