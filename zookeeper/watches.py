"""Watches: the watchers to notify of changes to a path.

Mirrors `WatchManager` (two tables, data and children), `WatcherMode` and the watch side of
`DataTree`. A watcher is any hashable token (a connection). Rules:
- a standard watch fires once; a persistent one stays, a persistent recursive one is also notified
  of changes to all descendants, but never of NodeChildrenChanged (it stands in the data table
  only);
- a watcher is notified of a change once, even if it watches in several ways: a deletion goes to the
  data watchers of the path, then to those of its child watchers that were not notified yet.
"""

from collections.abc import Hashable, Iterator

from ..protocol.zookeeper.constants import AddWatchMode, EventType, WatcherType

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4
ANY_MODE = STANDARD | PERSISTENT | RECURSIVE

_NOBODY: dict[Hashable, None] = {}


class WatchTable:
    """Watchers by path with their modes (bits), and paths by watcher."""

    __slots__ = ("_paths", "_recursive_count", "_watchers")

    def __init__(self) -> None:
        self._watchers: dict[str, dict[Hashable, int]] = {}
        self._paths: dict[Hashable, set[str]] = {}
        self._recursive_count = 0

    def add(self, path: str, watcher: Hashable, mode: int = STANDARD) -> None:
        watchers = self._watchers.setdefault(path, {})
        modes = watchers.get(watcher, 0)
        if modes & mode:
            return
        watchers[watcher] = modes | mode
        self._paths.setdefault(watcher, set()).add(path)
        if mode == RECURSIVE:
            self._recursive_count += 1

    def has(self, path: str, watcher: Hashable, modes: int) -> bool:
        return bool(self._watchers.get(path, {}).get(watcher, 0) & modes)

    def remove(self, path: str, watcher: Hashable, modes: int) -> bool:
        """Take these modes away from the watcher of a path; False if it had none of them."""
        old = self._watchers.get(path, {}).get(watcher, 0)
        if not old & modes:
            return False
        if old & modes & RECURSIVE:
            self._recursive_count -= 1
        left = old & ~modes
        if left:
            self._watchers[path][watcher] = left
        else:
            self._unlink(path, watcher)
        return True

    def remove_watcher(self, watcher: Hashable) -> None:
        for path in tuple(self._paths.get(watcher, ())):
            self.remove(path, watcher, ANY_MODE)

    def trigger(self, path: str) -> dict[Hashable, None]:
        """The watchers to notify of a change to `path`; standard watches on it are removed."""
        found: dict[Hashable, None] = {}
        watchers = self._watchers.get(path)
        if watchers:
            for watcher in tuple(watchers):
                found[watcher] = None
                self.remove(path, watcher, STANDARD)
        if self._recursive_count:
            for ancestor in _ancestors(path):
                for watcher, modes in self._watchers.get(ancestor, {}).items():
                    if modes & RECURSIVE:
                        found[watcher] = None
        return found or _NOBODY

    def by_path(self) -> Iterator[tuple[str, list[Hashable]]]:
        """Each watched path with its watchers."""
        for path, watchers in self._watchers.items():
            yield path, list(watchers)

    def by_watcher(self) -> Iterator[tuple[Hashable, set[str]]]:
        """Each watcher with the paths that it watches."""
        yield from self._paths.items()

    @property
    def watcher_count(self) -> int:
        return len(self._paths)

    @property
    def path_count(self) -> int:
        return len(self._watchers)

    @property
    def watch_count(self) -> int:
        return sum(len(paths) for paths in self._paths.values())

    def _unlink(self, path: str, watcher: Hashable) -> None:
        watchers = self._watchers[path]
        del watchers[watcher]
        if not watchers:
            del self._watchers[path]
        paths = self._paths[watcher]
        paths.remove(path)
        if not paths:
            del self._paths[watcher]


def _ancestors(path: str) -> Iterator[str]:
    end = len(path)
    while end > 1:
        end = path.rindex("/", 0, end)
        yield path[:end] or "/"


class Watches:
    """The two tables, and the effects of each kind of change and of request on them."""

    __slots__ = ("children", "data")

    def __init__(self) -> None:
        self.data = WatchTable()
        self.children = WatchTable()

    def trigger(self, event: EventType, path: str) -> Iterator[Hashable]:
        """The watchers to notify, each once. The caller must exhaust it before the next change."""
        if event is EventType.CHILDREN_CHANGED:
            yield from self.children.trigger(path)
            return
        told = self.data.trigger(path)
        yield from told
        if event is EventType.DELETED:
            for watcher in self.children.trigger(path):
                if watcher not in told:
                    yield watcher

    def add(self, path: str, watcher: Hashable, mode: AddWatchMode) -> None:
        if mode is AddWatchMode.PERSISTENT_RECURSIVE:
            self.data.add(path, watcher, RECURSIVE)
        else:
            self.data.add(path, watcher, PERSISTENT)
            self.children.add(path, watcher, PERSISTENT)

    def has(self, path: str, watcher: Hashable, kind: WatcherType) -> bool:
        if kind is WatcherType.CHILDREN:
            return self.children.has(path, watcher, STANDARD)
        if kind is WatcherType.ANY:
            return self.children.has(path, watcher, ANY_MODE) or self.data.has(
                path, watcher, ANY_MODE
            )
        return self.data.has(path, watcher, _DATA_MODES[kind])

    def remove(self, path: str, watcher: Hashable, kind: WatcherType) -> bool:
        if kind is WatcherType.CHILDREN:
            return self.children.remove(path, watcher, STANDARD)
        modes = _DATA_MODES[kind]
        removed = self.data.remove(path, watcher, modes)
        if kind in (WatcherType.PERSISTENT, WatcherType.ANY):
            removed |= self.children.remove(path, watcher, modes)
        return removed

    def remove_watcher(self, watcher: Hashable) -> None:
        self.data.remove_watcher(watcher)
        self.children.remove_watcher(watcher)


_DATA_MODES = {
    WatcherType.DATA: STANDARD,
    WatcherType.PERSISTENT: PERSISTENT,
    WatcherType.PERSISTENT_RECURSIVE: RECURSIVE,
    WatcherType.ANY: ANY_MODE,
}
