"""docs/CLIENT.md: its table of faults has a row for each fault that the command plays."""

from __future__ import annotations

from tests.faults.client_faults import ALL_FAULTS
from tests.support.processes import ROOT


def test_each_fault_has_a_row() -> None:
    page = (ROOT / "docs" / "CLIENT.md").read_text()
    section = page.partition("\n## Faults\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows == ["", *ALL_FAULTS]
