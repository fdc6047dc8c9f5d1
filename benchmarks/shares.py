"""Where a broker spends CPU time, below Python: `python -m benchmarks.shares LOAD...`

    python -m benchmarks.shares small-64x5 bulk-lz4     a table on the terminal
    python -m benchmarks.shares --write LOAD...         and the page benchmarks/PROFILES.md
    python -m benchmarks.shares --flames LOAD...        and flame graphs, as SVG, in build/profiles

perf (Linux) samples a broker, started as users start it, while a load of the benchmarks runs. Each
sample counts for the code that the processor executed: a system call of the kernel, the
interpreter, our compiled modules, or a library. A flame graph shows our compiled functions and the
calls below them; interpreted functions have no frame. (`benchmarks.profile` shows Python functions
instead.) A load that produces before it consumes is sampled as a whole.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.flame import flame_graph
from benchmarks.loads import chosen
from benchmarks.loads.base import Figures, Load
from benchmarks.machine import ROOT, describe_machine
from benchmarks.perf import recorded
from pybroker_kafka.compiled import REQUEST_PATH

STACKS_OF_THE_KERNEL = ("-g", "-F", "1999")
WHOLE_STACKS = ("--call-graph", "dwarf,24576", "-F", "499")
FLAMES = ROOT / "build" / "profiles"
SHOWN_PARTS = 9
SHOWN_FUNCTIONS = 6
PAGE = ROOT / "benchmarks" / "PROFILES.md"
HEAD = """# What the broker's CPU time is spent in

By `python -m benchmarks.shares --write`, which is perf beside the broker while a load runs alone
on it. Per cent of all samples of the broker's process; the least parts are left out. "kernel: X" is
all that a system call X does, for a socket the way through the loopback into the receiver's queue
included; the interpreter is libpython; compiled modules are what mypyc has made of ours. The last
column has the functions that take most, the kernel's left out, which say what the interpreter does:
`_PyEval_EvalFrameDefault` runs bytecode; `_PyObject_Malloc`, `_PyObject_Free` and the dealloc
functions make and drop objects.

Flame graphs: `small-64x5` [before](plots/flames/small-64x5-before.svg) anything was compiled, by
py-spy (`benchmarks.profile`), and [after](plots/flames/small-64x5-after.svg) it, by perf
(`--flames`); `offset-commits` [before](plots/flames/offset-commits-before.svg) and
[after](plots/flames/offset-commits-after.svg). Width is the share of samples, depth goes down.
"""

_COMPILED = "CPyDef_"
_PATHS = {name.rpartition(".")[2]: f"{name.replace('.', '/')}.py" for name in REQUEST_PATH.modules}
_FRAME = re.compile(r"^\s+[0-9a-f]+ (.+) \((.*)\)$")
_SYSTEM_CALL = re.compile(r"^__(?:x64|arm64|se|do)_sys_(\w+)$")
_LIBRARIES = (
    ("libpython", "interpreter"),
    ("__mypyc", "compiled modules"),
    ("_crc32c", "CRC-32C"),
    ("lz4", "lz4"),
    ("zstd", "zstd"),
    ("_cffi_backend", "zstd"),
    ("snappy", "snappy"),
    ("libssl", "TLS"),
    ("libcrypto", "TLS"),
    ("_ssl", "TLS"),
    ("libz", "gzip"),
    ("libc.so", "libc"),
    ("vdso", "clock"),
    ("lib-dynload", "interpreter"),
)


class Sample(NamedTuple):
    part: str
    function: str


class Shares(NamedTuple):
    """Of one load, in per cent of its samples, most first."""

    samples: int
    parts: list[tuple[str, float]]
    functions: list[tuple[str, float]]


Stack = list[tuple[str, str]]  # (function, library) of each frame, the innermost one first


def read_frames(lines: Iterable[str]) -> Iterator[Stack]:
    """Of `perf script -F ip,sym,dso`: stacks with a line between. What is inlined is left out."""
    stack: Stack = []
    for line in lines:
        if line.endswith("(inlined)"):
            continue
        if found := _FRAME.match(line):
            stack.append((found[1], found[2]))
        elif not line.strip() and stack:
            yield stack
            stack = []
    if stack:
        yield stack


def read_samples(lines: Iterable[str]) -> Iterator[Sample]:
    return map(_sample, read_frames(lines))


def flame_stacks(lines: Iterable[str]) -> Counter[tuple[str, ...]]:
    """Our compiled functions, outermost first, then the part and the function it was in."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for stack in read_frames(lines):
        sample = _sample(stack)
        ours = [_our_function(name) for name, _ in stack if name.startswith(_COMPILED)]
        rest = [sample.part]
        if sample.part != "compiled modules":
            rest.append(sample.function)
        stacks[*reversed(ours), *rest] += 1
    return stacks


def _our_function(symbol: str) -> str:
    """As mypyc calls it: `CPyDef_module___Class___method`."""
    module, _, function = symbol.partition("+")[0].removeprefix(_COMPILED).partition("___")
    path = _PATHS.get(module.replace("___", "."), module)
    return f"{function.replace('___', '.')} ({path})"


def _sample(stack: Sequence[tuple[str, str]]) -> Sample:
    function, library = stack[0]
    name = function.partition("+")[0]
    if "kernel" in library or library.endswith(".ko"):
        return Sample(f"kernel: {_system_call(stack)}", name)
    for word, part in _LIBRARIES:
        if word in library:
            return Sample(part, name)
    return Sample(Path(library).name.partition(".")[0], name)


def _system_call(stack: Sequence[tuple[str, str]]) -> str:
    for function, _ in stack:
        if found := _SYSTEM_CALL.match(function.partition("+")[0]):
            return found[1]
        if "page_fault" in function:
            return "page faults"
    return "the rest"


def shares_of(samples: Iterable[Sample]) -> Shares:
    parts: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for sample in samples:
        parts[sample.part] += 1
        if not sample.part.startswith("kernel"):
            functions[sample.function] += 1
    total = parts.total()
    share = 100 / max(total, 1)
    return Shares(
        total,
        [(name, count * share) for name, count in parts.most_common()],
        [(name, count * share) for name, count in functions.most_common()],
    )


def sample(load: Load, seconds: float, *, with_flame: bool = False) -> tuple[Figures, Shares, str]:
    """What the load measured, the shares, and the flame graph if wanted, else ""."""
    # A flame graph needs whole stacks, which Python's libraries show at a price only.
    how = WHOLE_STACKS if with_flame else STACKS_OF_THE_KERNEL
    figures, told_lines = recorded(load, seconds, how, ["-F", "ip,sym,dso"])
    flame = ""
    if with_flame:
        flame = flame_graph(flame_stacks(told_lines), f"pybroker under {load.name}, compiled")
    return figures, shares_of(read_samples(told_lines)), flame


def table_of(load: str, found: Shares) -> Table:
    table = Table("%", "part", "%", "function", title=f"{load}: {found.samples} samples")
    for number in range(SHOWN_PARTS):
        part = found.parts[number] if number < len(found.parts) else ("", 0.0)
        function = found.functions[number] if number < len(found.functions) else ("", 0.0)
        table.add_row(f"{part[1]:.0f}", part[0], f"{function[1]:.0f}", function[0])
    return table


def row_of(load: str, figures: Figures, found: Shares) -> str:
    name, value = next(iter(figures.items()))
    kernel = sum(share for part, share in found.parts if part.startswith("kernel"))
    parts = ", ".join(f"{part} {share:.0f}" for part, share in found.parts[:SHOWN_PARTS])
    functions = ", ".join(
        f"`{function}` {share:.0f}" for function, share in found.functions[:SHOWN_FUNCTIONS]
    )
    return f"| `{load}` | {name} {value:,.1f} | {kernel:.0f} | {parts} | {functions} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loads", nargs="+", metavar="LOAD")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of a small load")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--flames", action="store_true", help="also draw flame graphs")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    if shutil.which("perf") is None:
        console.print("samples are taken with perf: install linux-perf")
        return 1
    try:
        loads = chosen(arguments.loads)
    except KeyError as word:
        parser.error(f"there is no load {word}")
    rows = []
    for load in loads:
        figures, found, flame = sample(load, arguments.seconds, with_flame=arguments.flames)
        if not found.samples:
            console.print(f"{load.name}: no samples; perf needs the right to trace processes")
            return 1
        console.print(table_of(load.name, found))
        if flame:
            FLAMES.mkdir(parents=True, exist_ok=True)
            graph = FLAMES / f"{load.name}-compiled.svg"
            graph.write_text(flame)
            console.print(f"flame graph: {graph.relative_to(ROOT)}")
        rows.append(row_of(load.name, figures, found))
    if arguments.write:
        table = "| load | figure | kernel % | parts, % | functions, % |\n|---|---|---:|---|---|\n"
        told = "".join(f"- {name}: {value}\n" for name, value in describe_machine().items())
        PAGE.write_text(f"{HEAD}\n{table}" + "\n".join(rows) + f"\n\n{told}")
        console.print(f"page: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
