"""`Admin` has each subject once, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.client.admin.admin import Admin


@pytest.mark.parametrize("name", sorted(Admin.__annotations__))
def test_a_subject_is_made_once(name: str) -> None:
    cluster: Any = object()
    admin = Admin(cluster)
    subject = getattr(admin, name)
    assert type(subject).__name__ == Admin.__annotations__[name]
    assert subject is getattr(admin, name)
    assert subject._cluster is admin.client is cluster


def test_there_is_no_other() -> None:
    admin: Any = Admin(object())  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = admin.nothing_such
