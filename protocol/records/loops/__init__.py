"""The loops over encoded records: plain typed functions over ``bytes``, interpreted or compiled.

Each takes the decompressed records block of a v2 batch, or makes one. They know nothing of CRCs or
codecs, nor, but for one, of headers; they hold no state beyond a call or a small object, and raise
only ``InvalidRecord``.

| module | loop |
|---|---|
| `scan` | check every record, as a leader does before it appends |
| `small_batch` | the same for a small batch, of which it takes the header too |
| `places` | where keys, values and headers lie, and each record's offset and time |
| `keys` | keys, and which records stay: the cleaner |
| `encode` | the records of a new batch |
| `varint` | the numbers of all of them |

mypyc compiles these files (setup.py) to modules of the same names in `compiled/`, in a folder for
each interpreter. They are imported instead of the sources only if the digest that was recorded with
them is that of the sources which lie here now. After an edit or a `git checkout` the sources run,
until they are compiled again. `PYBROKER_COMPILED=0` in the environment makes them run in any case.

To stay alike both ways, the loops keep every number within 64 bits, and let nothing but an
``IndexError`` of ``bytes`` go up to where it is caught.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, source_hash, spec_from_file_location
from typing import Final

# What all of the compiled modules are in; it has to be loaded by the time they ask for it.
_LIBRARY: Final = "pybroker_record_loops__mypyc"


def _use_compiled(sources: str) -> bool:
    """Put the folder of compiled modules before that of the sources, if it is theirs."""
    suffix = EXTENSION_SUFFIXES[0]
    folder = os.path.join(sources, "compiled", suffix.strip(".").removesuffix(".so"))
    try:
        with open(os.path.join(folder, "digest"), encoding="ascii") as file:
            recorded = file.read()
    except OSError:
        return False
    if os.environ.get("PYBROKER_COMPILED") == "0" or recorded != _digest(sources):
        return False
    spec = spec_from_file_location(_LIBRARY, os.path.join(folder, _LIBRARY + suffix))
    assert spec is not None
    assert spec.loader is not None
    try:
        library = module_from_spec(spec)
        spec.loader.exec_module(library)
    except ImportError:
        return False
    sys.modules[_LIBRARY] = library
    __path__.insert(0, folder)
    try:
        import_module(f"{__name__}.places")  # the one that asks for more: librt, mypyc's own
    except (ImportError, ValueError):  # it is not there, or another one than it was compiled with
        __path__.remove(folder)
        return False
    return True


def _digest(folder: str) -> str:
    """Of all sources but this one."""
    contents = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name != "__init__.py":
            with open(os.path.join(folder, name), "rb") as file:
                contents.append(file.read())
    return source_hash(b"\0".join(contents)).hex()


COMPILED: Final = _use_compiled(__path__[0])
