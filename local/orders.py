"""What may interrupt a wait of the supervisor: signals, the end of its owner, and commands.

Each wait of the supervisor is a `select` over these descriptors and over what it waits for. A
signal only sets a flag and wakes the wait. To stop is an order that is never taken back.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Iterator

from .cluster_control import ControlSocket

Execute = Callable[[str, str], str]
"""Carries out a command for a node; returns a text for the user."""


class Orders:
    def __init__(self, owner: int | None) -> None:
        """Something to read on the descriptor `owner`, or its end, is an order to stop."""
        self.is_stopping = False
        self.control: ControlSocket | None = None  # while the supervisor has its directory
        self._owner = owner
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)

    def install_signals(self) -> None:
        def note(_signal: int, _frame: object) -> None:
            self.is_stopping = True

        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGINT, note)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, note)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def descriptors(self) -> list[int]:
        """The descriptors that a forked node must close."""
        owner = [] if self._owner is None else [self._owner]
        control = self.control.descriptors() if self.control else []
        return [self._wake_read, self._wake_write, *owner, *control]

    @contextlib.contextmanager
    def signals(self) -> Iterator[selectors.BaseSelector]:
        """A selector that wakes at a signal, and takes neither orders of the owner nor commands."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            yield selector

    @contextlib.contextmanager
    def all(self) -> Iterator[selectors.BaseSelector]:
        """A selector that wakes at each order; those beside signals are for `take`."""
        assert self.control is not None
        with self.signals() as selector, self.control.watched_by(selector):
            if self._owner is not None:
                selector.register(self._owner, selectors.EVENT_READ)
            yield selector

    def take(self, key: selectors.SelectorKey, execute: Execute) -> bool:
        """Take an order of the owner, or a command; False if `key` is neither."""
        if key.fd == self._owner:
            self.is_stopping = True
        elif key.data is not None and key.data is self.control:
            self.control.serve(key.fileobj, execute)
        else:
            return False
        return True

    def patience(self, seconds: float | None = None) -> float | None:
        """How long a wait may last: `seconds` at most, and no longer than a caller has time."""
        assert self.control is not None
        of_callers = self.control.patience()
        if seconds is None or of_callers is None:
            return of_callers if seconds is None else seconds
        return min(seconds, of_callers)

    def forget_signals(self) -> None:
        """The signals that have woken a wait have been looked at."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 512):
                pass
