"""A crash that a runtime survives fails the run all the same.

The product's runtimes log an unexpected exception, with its traceback, and go on. In a simulation
each of them is a finding: the step that logged it ends the run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.kernel import Kernel


class _Crashes(logging.Handler):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(logging.WARNING)
        self._kernel = kernel

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._kernel.crashed(record.getMessage(), error)


@contextmanager
def noticing_crashes(kernel: Kernel) -> Iterator[None]:
    """Tell the kernel of all exceptions that are logged; other lines are not even made."""
    logger, handler = logging.getLogger("pybroker"), _Crashes(kernel)
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logging.disable(disabled)
