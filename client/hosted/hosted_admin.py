"""The subjects of `Admin` over a cluster in the trio thread, as the faces have them in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..admin.admin import Admin
from ..cluster import Cluster
from .host import Host

Wait = Callable[[Future[Any]], Any]  # of a face: for the result of a call


class Subject:
    """A subject; each of its methods runs in the trio thread."""

    def __init__(self, host: Host[Cluster], wait: Wait, subject: object) -> None:
        self._host = host
        self._wait = wait
        self._subject = subject

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._subject, name)
        if name.startswith("_"):
            raise AttributeError(name)

        @functools.wraps(method)
        def call(*arguments: Any, **keywords: Any) -> Any:
            return self._wait(self._host.call(method, *arguments, **keywords))

        setattr(self, name, call)
        return call


def subject_of(face: object, host: Host[Cluster], wait: Wait, name: str) -> Subject:
    """The subject of this name, which stays an attribute of the face. Raises AttributeError."""
    if name not in Admin.__annotations__:
        raise AttributeError(name)
    subject = Subject(host, wait, getattr(Admin(host.client), name))
    setattr(face, name, subject)
    return subject
