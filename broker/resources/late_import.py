"""Modules that load at their first use, though a library imports them at its start.

Job: save the memory of what a process may never need: trio imports `idna`, whose tables are for
names of hosts beyond ASCII, and `ssl`; without both a ZooKeeper takes 0.9 MB of 20 less. Call it
before the library is imported.
Invariants: what took the module's place has all of its attributes once one of them is read; from
then on imports get the module itself. (`importlib.util.LazyLoader` loads at the next import,
which reads `__spec__`.)
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType


class _LateModule(ModuleType):
    def __getattr__(self, attribute: str) -> object:
        """Of an attribute that the module in place does not have yet."""
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(vars(module))
        return getattr(module, attribute)


def import_at_first_use(name: str) -> None:
    """Of a top-level module; one that is imported already, or missing, stays as it is."""
    if name not in sys.modules and (spec := find_spec(name)) is not None:
        late = _LateModule(name)
        late.__spec__ = spec
        sys.modules[name] = late
