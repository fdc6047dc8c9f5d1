"""Temporary directories: what is used is never removed, what was left behind is."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_state import ClusterError
from pybroker_kafka.local.ephemeral import EphemeralDirectory, remove_left_behind


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_while_it_is_used_it_stays() -> None:
    used = EphemeralDirectory()
    EphemeralDirectory().release()
    assert used.path.is_dir()
    used.release()
    used.release()
    EphemeralDirectory()
    assert not used.path.exists()


@pytest.mark.parametrize("name", [cluster_state.LOCK_FILE, cluster_state.NODES_LOCK_FILE])
def test_whoever_made_it_is_gone_and_others_are_not(name: str) -> None:
    used = EphemeralDirectory()
    if name == cluster_state.LOCK_FILE:
        descriptor = cluster_state.claim(used.path)
    else:
        descriptor = cluster_state.claim_nodes(used.path, print)
    used.release()
    remove_left_behind()
    assert used.path.is_dir()
    os.close(descriptor)
    remove_left_behind()
    assert not used.path.exists()


def test_what_is_to_be_kept_is_never_looked_at(here: Path) -> None:
    kept = here / "pybroker-mine"
    os.close(cluster_state.claim(kept))
    (here / "pybroker-notes").write_text("mine")
    (here / "pybroker-link").symlink_to(kept)
    remove_left_behind()
    assert sorted(path.name for path in here.iterdir()) == [
        "pybroker-link",
        "pybroker-mine",
        "pybroker-notes",
    ]


def test_no_place_at_all(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here / "nowhere"))
    with pytest.raises(ClusterError, match="there is no place for temporary files: No such"):
        EphemeralDirectory()
