"""The site is built from the pages as they are, with every link, anchor and section checked."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.support.page_blocks import pages
from tests.support.processes import ROOT

mkdocs = pytest.importorskip("mkdocs", reason="the extra `site` is not installed")
BUILD_SECONDS = 120.0
TAGS = {
    *["a", "article", "blockquote", "br", "button", "code", "div", "em", "h1", "h2", "h3", "h4"],
    *["hr", "img", "input", "label", "li", "nav", "ol", "p", "path", "pre", "span", "strong"],
    *["sub", "sup", "svg", "table", "tbody", "td", "th", "thead", "tr", "ul"],
}
LOADED = re.compile(r"<(?:script|link|img)[^>]* (?:src|href)=\"?(https?:[^\s\">]+)")
SECTIONS = ("Start", "Learn", "Use", "Operate", "Reference", "Inside")


@cache
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It takes 2 CPU seconds."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder


def test_each_page_is_there_and_the_sections(site: Path) -> None:
    built = sum(1 for file in site.rglob("index.html"))
    results = len(hooks().BESIDE_DOCS) - 2  # README and that of examples are pages of the list
    assert built == len(pages()) - len([p for p in pages() if p.parent.name == "testing"]) + results
    home = (site / "index.html").read_text()
    tabs = re.findall(r'md-tabs__link">\s*(.*?)\s*</a>', home, re.DOTALL)
    assert tuple(tabs) == SECTIONS


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """But mermaid, which the theme asks for where a page has a diagram."""
    for file in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img)[^>]* (?:src|href)=\"?(https?:[^\s\">]+)", file.read_text()
        )
        assert [one for one in loaded if not one.startswith("https://pybroker.github.io/")] == []


def test_search_finds_words_of_every_section(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    places = {entry["location"] for entry in found}
    for place in ("client/#transactions", "config/#topics", "operate/replace/#what-can-be-lost"):
        assert place in places


def test_programs_that_read_are_told_of_all_pages(site: Path) -> None:
    index, full = (site / "llms.txt").read_text(), (site / "llms-full.txt").read_text()
    assert re.findall(r"^## (.*)$", index, re.MULTILINE) == [*SECTIONS]
    entries = re.findall(r"^- \[(.+?)\]\((\S+)\): (.*)$", index, re.MULTILINE)
    assert len(entries) == sum(1 for file in site.rglob("index.html"))
    for title, address, sentence in entries:
        assert sentence, title
        assert f"<!-- {address} -->\n\n" in full
    assert "<!-- run by" not in full


def test_broken_links_and_forgotten_pages_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="x"></h1><a href="b.html"></a><a href="#y">')
    (tmp_path / "c.html").write_text('<a href="a.html#x"></a><a href="a.html#z"></a>')
    assert hooks().broken_links(tmp_path) == ["a.html: #y", "a.html: b.html", "c.html: a.html#z"]
    with pytest.raises(hooks().PluginError, match="FORGOTTEN"):
        hooks().sections(["index.md", "FORGOTTEN.md"])
    assert hooks().sections(["learn/1.md", "LEARN.md"]) == {"Learn": ["LEARN.md", "learn/1.md"]}


def test_tags_in_a_page_are_html(site: Path) -> None:
    """A name in angle brackets would be taken for a tag, and not be seen."""
    for file in site.rglob("*.html"):
        article = re.search(r"<article.*</article>", file.read_text(), re.DOTALL)
        assert article is not None
        assert set(re.findall(r"<([a-z][a-z0-9]*)", article[0])) <= TAGS, file


def test_the_theme_is_pinned_and_the_workflow_publishes_what_make_builds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pin,) = project["optional-dependencies"]["site"]
    assert re.fullmatch(r"mkdocs-material==[\d.]+", pin)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())
    steps = workflow["jobs"]["build"]["steps"]
    assert any(step.get("run") == "make site" for step in steps)
    (path,) = [step["with"]["path"] for step in steps if "pages-artifact" in step.get("uses", "")]
    config = (ROOT / "mkdocs.yml").read_text()
    assert f"\nsite_dir: {path}\n" in config
    assert project["urls"]["Repository"] in config
    assert project["urls"]["Documentation"] in config
