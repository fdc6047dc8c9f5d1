"""Where log lines go: a file a node, in Kafka's line format (`[time] LEVEL message (logger)`)."""

from __future__ import annotations

import logging
from pathlib import Path

LINE_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


def configure_logging(path: Path | None, *, verbose: bool = False) -> None:
    """Log to `path` (appending), or to the standard error output when it is None."""
    handler: logging.Handler = (
        logging.FileHandler(path, encoding="utf-8") if path else logging.StreamHandler()
    )
    handler.setFormatter(logging.Formatter(LINE_FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    for previous in list(root.handlers):
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.INFO if verbose else logging.ERROR)
