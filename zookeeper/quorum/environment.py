"""zoo.cfg from variables of the environment, as the entry point of the image `zookeeper` makes it.

| variable | becomes |
|---|---|
| `ZOO_SERVERS` | the lines `server.N=...`, apart by spaces; without it there is no ensemble here |
| `ZOO_MY_ID` | the file `myid`, unless there is one |
| `ZOO_DATA_DIR` | `dataDir`; `/data` without it |
| `ZOO_TICK_TIME`, `ZOO_INIT_LIMIT`, `ZOO_SYNC_LIMIT`, `ZOO_MAX_CLIENT_CNXNS` | the same keys |
| `ZOO_CFG_EXTRA` | more lines `KEY=VALUE`, apart by spaces |

Leaves out: variables of things without effect here (purging, the admin server, logging), and
`ZOO_CONF_DIR`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from .ensemble_config import ConfigurationError

SERVERS = "ZOO_SERVERS"
MY_ID = "ZOO_MY_ID"
_KEYS = MappingProxyType(
    {
        "ZOO_DATA_DIR": ("dataDir", "/data"),
        "ZOO_TICK_TIME": ("tickTime", "2000"),
        "ZOO_INIT_LIMIT": ("initLimit", "5"),
        "ZOO_SYNC_LIMIT": ("syncLimit", "2"),
        "ZOO_MAX_CLIENT_CNXNS": ("maxClientCnxns", "60"),
    }
)


def has_ensemble(environment: Mapping[str, str]) -> bool:
    return bool(environment.get(SERVERS, "").strip())


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Raises ConfigurationError."""
    found = {key: environment.get(name) or value for name, (key, value) in _KEYS.items()}
    for name in ("ZOO_CFG_EXTRA", SERVERS):
        for entry in environment.get(name, "").split():
            key, separator, value = entry.partition("=")
            if not separator or not key:
                raise ConfigurationError(f"{name}: {entry!r} is not KEY=VALUE")
            found[key] = value
    return found
