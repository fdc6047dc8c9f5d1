"""The import statements of a file, which is parsed once: several checks of the tree ask for it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def imports_in(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Those in functions and under conditions included, in no order."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
