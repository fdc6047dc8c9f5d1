"""The cluster of a command that names none: variables, profiles, local clusters.

In this order: --bootstrap-server; --profile or $PYBROKER_PROFILE; $PYBROKER_BOOTSTRAP; the cluster
that runs in $PYBROKER_DATA_DIR or ~/.pybroker; unless that variable is set, the one ephemeral
cluster that runs here (of several a user at a terminal chooses); port 9092.

A profile is a file of properties, `~/.config/pybroker/NAME.properties`: bootstrap.servers, and the
login settings, as --command-config has them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ..local import cluster_state

USUAL_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_KEY = "bootstrap.servers"


class AddressError(Exception):
    """The cluster cannot be determined; the message gives the remedy."""


class SeveralClusters(AddressError):
    """Several clusters run, and none is named."""

    def __init__(self, clusters: Sequence[cluster_state.ClusterState]) -> None:
        which = " or ".join(f"--bootstrap-server {one.bootstrap}" for one in clusters)
        super().__init__(f"{len(clusters)} local clusters are running; say which: {which}")
        self.clusters = tuple(clusters)


def profile_directory() -> Path:
    """The directory of profiles: below $XDG_CONFIG_HOME or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME") or cluster_state.home_directory() / ".config"
    return Path(base) / "pybroker"


def profile_named(name: str | None) -> Path | None:
    """The file of a profile, of that in the environment without a name. Raises AddressError."""
    chosen = name or os.environ.get("PYBROKER_PROFILE")
    if not chosen:
        return None
    path = profile_directory() / f"{chosen}.properties"
    if path.is_file():
        return path
    there = sorted(one.stem for one in profile_directory().glob("*.properties"))
    raise AddressError(
        f"there is no profile {chosen!r}: {path} is not there"
        + (f"; there are: {', '.join(there)}" if there else "")
    )


def bootstrap_of(profile: Path | None) -> str:
    """The cluster of a command without an address. Raises AddressError."""
    if profile is not None:
        found = read_properties(profile).get(BOOTSTRAP_KEY, "").strip()
        if not found:
            raise AddressError(f"{profile} has no {BOOTSTRAP_KEY}")
        return found
    if chosen := os.environ.get("PYBROKER_BOOTSTRAP"):
        return chosen
    with contextlib.suppress(cluster_state.ClusterError):
        return cluster_state.load(cluster_state.default_data_dir().absolute()).bootstrap
    if os.environ.get("PYBROKER_DATA_DIR"):
        return USUAL_BOOTSTRAP
    return _only(_ephemeral_clusters())


def _ephemeral_clusters() -> list[cluster_state.ClusterState]:
    found = []
    for path in cluster_state.ephemeral_directories():
        with contextlib.suppress(cluster_state.ClusterError, ValueError, TypeError):
            found.append(cluster_state.load(path))
    return found


def _only(clusters: Sequence[cluster_state.ClusterState]) -> str:
    """Raises SeveralClusters."""
    if len(clusters) > 1:
        raise SeveralClusters(clusters)
    return clusters[0].bootstrap if clusters else USUAL_BOOTSTRAP


def read_properties(path: Path) -> dict[str, str]:
    """Raises AddressError."""
    import javaproperties

    try:
        return dict(javaproperties.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise AddressError(f"{path} cannot be read as properties: {error}") from None
