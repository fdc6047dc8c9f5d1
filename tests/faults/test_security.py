"""Passwords, certificates, ACLs and tokens that change or fail while clients write, once each.

About 15 s in all; `python -m tests.faults.security` does it again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.faults.security import FAULTS, SecuredPair, secured_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPair]:
    with secured_pair(tmp_path_factory.mktemp("secured-pair")) as running:
        yield running


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_opens_and_nothing_is_lost(
    fault: Callable[[SecuredPair], str], pair: SecuredPair
) -> None:
    assert fault(pair)
