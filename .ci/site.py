"""Hooks of mkdocs: the site shows the pages of the repository as they are, and copies none.

Job: README.md, that of examples/ and the results of benchmarks/ are pages, too; SECTIONS is the
navigation; links that leave the site go to the repository; llms.txt lists the pages, and
llms-full.txt has their text. At the end every link and anchor of the built pages is followed.
Invariants: each page of docs/ is in one section; an address is its file's name in lower case; a
page reads the same on the site and in the repository, so nothing here changes text but links and
comments.
"""

from __future__ import annotations

import os
import posixpath
import re
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# Pages from elsewhere, by their place on the site.
BESIDE_DOCS = {
    "index.md": "README.md",
    "examples.md": "examples/README.md",
    "benchmarks/RESULTS.md": "benchmarks/RESULTS.md",
    "benchmarks/SPARK.md": "benchmarks/SPARK.md",
    **{
        f"learn/{path.name}": path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "learn" / "chapters").glob("*.md"))
    },
}
# Files of docs/ and BESIDE_DOCS, in this order; a pattern may stand for pages that are to come.
SECTIONS = {
    "Start": ["index.md", "START.md"],
    "Learn": ["LEARN.md", "learn/*.md", "examples.md", "GLOSSARY.md"],
    "Use": [
        *["CLIENT.md", "TESTING.md", "FRAMEWORKS.md", "CONSOLE.md"],
        *["REGISTRY.md", "SPARK.md", "SPARK_SOURCE.md"],
        *["MIRROR.md", "TOOLS.md"],
    ],
    "Operate": [
        *[
            "operate/README.md",
            "operate/*.md",
            "CONTAINER.md",
            "SECURITY.md",
            "SCALE.md",
            "TIERED.md",
            "TABLES.md",
        ],
    ],
    "Reference": [
        *["COMMANDS.md", "CONFIG.md", "METRICS.md", "APIS.md", "AUTHORIZATION.md"],
        *["VERSIONS.md", "CHANGELOG.md"],
    ],
    "Inside": [
        *["ARCHITECTURE.md", "SEMANTICS.md", "decisions/README.md", "decisions/*.md"],
        *["CONTRIBUTING.md", "benchmarks/RESULTS.md", "benchmarks/SPARK.md"],
    ],
}

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^ *<!-- .*? -->\n", re.MULTILINE)
_LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)

# What the pages of one build say: their Markdown, by their place on the site.
_texts: dict[str, str] = {}


def sections(names: list[str]) -> dict[str, list[str]]:
    """The pages of each section. Raises PluginError for a page that is in none."""
    left = sorted(names)
    found: dict[str, list[str]] = {}
    for title, patterns in SECTIONS.items():
        for pattern in patterns:
            for name in [name for name in left if fnmatch(name, pattern)]:
                found.setdefault(title, []).append(name)
                left.remove(name)
    if left:
        raise PluginError(f"these pages are in no section of {Path(__file__).name}: {left}")
    return found


def place_in_repository(name: str) -> str:
    return BESIDE_DOCS.get(name, f"docs/{name}")


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    names = [str(path.relative_to(docs)) for path in docs.rglob("*.md")]
    config.nav = [{title: found} for title, found in sections([*names, *BESIDE_DOCS]).items()]
    _texts.clear()
    return config


def on_files(files: Files, config: Any) -> Files:
    for name, path in BESIDE_DOCS.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    for picture in (ROOT / "benchmarks").rglob("*.png"):
        name = picture.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    for file in files.documentation_pages():
        file.dest_uri = file.dest_uri.lower()
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    name = page.file.src_uri
    if name in BESIDE_DOCS:
        page.edit_url = f"{config.repo_url}/edit/main/{BESIDE_DOCS[name]}"
    text = _outside_fences(markdown, lambda part: _with_links(part, name, config, files))
    _texts[name] = text
    return text


def _outside_fences(text: str, change: Any) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _with_links(text: str, name: str, config: Any, files: Files) -> str:
    """Without comments, and with links that lead to the site's pages or to the repository."""
    here = posixpath.dirname(place_in_repository(name))
    on_site = {
        Path(file.abs_src_path).relative_to(ROOT).as_posix(): file.src_uri
        for file in files
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(ROOT)
    }

    def link(found: re.Match[str]) -> str:
        target, anchor = urldefrag(found[2])
        if not target or ":" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if f"{path}/README.md" in on_site:
            path = f"{path}/README.md"
        if path in on_site:
            goal = posixpath.relpath(on_site[path], posixpath.dirname(name) or ".")
        elif (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            goal = f"{config.repo_url}/{kind}/main/{path}"
        else:
            raise PluginError(f"{place_in_repository(name)}: no such file: {found[2]}")
        return f"{found[1]}{goal}{'#' if anchor else ''}{anchor}"

    return _LINK.sub(link, _COMMENT.sub("", text))


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    index, full = [f"# {config.site_name}\n\n> {config.site_description}\n"], []
    for title, names in sections(list(_texts)).items():
        index.append(f"\n## {title}\n\n")
        for name in names:
            address = config.site_url + _address(name)
            text = _texts[name]
            heading = _TITLE.search(text)
            assert heading is not None, name
            index.append(f"- [{heading[1]}]({address}): {_first_sentence(text)}\n")
            full.append(f"<!-- {address} -->\n\n{text.strip()}\n\n")
    (site / "llms.txt").write_text("".join(index))
    (site / "llms-full.txt").write_text("".join(full))
    wrong = broken_links(site)
    if wrong:
        raise PluginError("links that lead nowhere:\n  " + "\n  ".join(wrong))


def _address(name: str) -> str:
    page = name.lower().removesuffix(".md")
    page = re.sub(r"(^|/)(index|readme)$", r"\1", page)
    return page if not page or page.endswith("/") else f"{page}/"


def _first_sentence(text: str) -> str:
    """Of the first paragraph that says something of the subject, without links."""
    for part in re.split(r"\n\s*\n", _FENCE.sub("", text)):
        plain = " ".join(part.split()).removeprefix("**Context.** ")
        plain = re.sub(r"^This page is written by .*?; do not edit it\. ?", "", plain)
        if plain and plain[0] not in "#|!<-" and not plain.startswith("Written from"):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
            return re.split(r"(?<=[.:]) ", plain)[0].rstrip(":")
    return ""


class _Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value is None:
                continue
            if key in ("id", "name"):
                self.anchors.add(value)
            elif key in ("href", "src") and tag != "base":
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """Links inside the site to a file or an anchor that is not there, each with its page."""
    pages = {path: _Links(path.read_text()) for path in site.rglob("*.html")}
    wrong = []
    for page, found in pages.items():
        for link in sorted(found.links):
            target, anchor = urldefrag(link)
            if re.match(r"[a-z]+:|//", target) or page.name == "404.html":
                continue
            path = Path(os.path.normpath(page.parent / unquote(target))) if target else page
            path = path / "index.html" if path.is_dir() else path
            is_there = path.exists()
            if anchor and is_there and path in pages:
                is_there = unquote(anchor) in pages[path].anchors
            if not is_there:
                wrong.append(f"{page.relative_to(site)}: {link}")
    return wrong
