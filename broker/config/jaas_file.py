"""The JAAS file of a broker: the login modules of its listeners, and the one for ZooKeeper.

Job: read the modules of a section from `pybroker.jaas.file`, which is also set by
`-Djava.security.auth.login.config` in KAFKA_OPTS. A listener has `<listener>.KafkaServer`, in lower
case, or, without it, `KafkaServer`; its key
`listener.name.<listener>.<mechanism>.sasl.jaas.config` comes before both.
A section has modules for several mechanisms: the first module of its class counts for a mechanism.

Invariants: an error names the file, the line where there is one, and the remedy, and quotes no
value. A file is read again once it has changed.

Mirrors `JaasContext.loadServerContext`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from ...protocol.sasl.jaas import MODULES, JaasError, LoginModule, parse_file
from .errors import ConfigError
from .kafka_config import KafkaConfig

JAAS_FILE: Final = "pybroker.jaas.file"
JVM_OPTION: Final = "-Djava.security.auth.login.config"
SERVER_SECTION: Final = "KafkaServer"
LOGIN_FILE_MAX_BYTES: Final = 64 * 1024
MAX_FILES: Final = 4  # remembered


class Section(NamedTuple):
    """`where` is for errors."""

    where: str
    modules: tuple[LoginModule, ...]

    def module_for(self, mechanism: str) -> LoginModule:
        """The module of a mechanism. Raises ConfigError if there is none."""
        for module in self.modules:
            if module.name == MODULES[mechanism]:
                return module
        raise ConfigError(
            f"{self.where}: no login module for {mechanism}; add: "
            f"{MODULES[mechanism]} required ...;"
        )


def section_of(config: KafkaConfig, *names: str) -> Section | None:
    """The first of these sections that is in the file; None without a file, or without any of them.

    Raises ConfigError if the file does not exist, or is no JAAS file.
    """
    file = config.get_optional_string(JAAS_FILE)
    if file is None:
        return None
    sections = sections_in(Path(file))
    for name in names:
        if name in sections:
            return Section(f"{JAAS_FILE}: section {name} of {file}", tuple(sections[name]))
    return None


def server_sections(listener: str) -> tuple[str, str]:
    """The names of a listener's sections, in order of preference."""
    return f"{listener.lower()}.{SERVER_SECTION}", SERVER_SECTION


def sections_in(path: Path) -> dict[str, list[LoginModule]]:
    """The modules of each section. Raises ConfigError."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ConfigError(
            f"{JAAS_FILE} ({JVM_OPTION}): cannot read {path}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{JAAS_FILE}: {path} is not UTF-8") from None
    except JaasError as error:
        raise ConfigError(
            f"{JAAS_FILE}: {path} is no JAAS file: {error}; it has sections, as in "
            f'{SERVER_SECTION} {{ {MODULES["PLAIN"]} required user_alice="..."; }};'
        ) from None


@lru_cache(MAX_FILES)
def _read(path: Path, _changed_ns: int, _size: int) -> dict[str, list[LoginModule]]:
    with path.open("rb") as file:
        text = file.read(LOGIN_FILE_MAX_BYTES + 1)
    if len(text) > LOGIN_FILE_MAX_BYTES:
        raise ConfigError(f"{JAAS_FILE}: {path} has more than {LOGIN_FILE_MAX_BYTES} bytes")
    return parse_file(text.decode())
