"""ZooKeeper's numbers: operations, error codes, events, permissions, create and watch modes.

Mirrors `ZooDefs`, `KeeperException.Code`, `Watcher.Event`, `CreateMode` and `EphemeralType` (with
extended types on, so that TTL nodes work without a flag).
"""

from enum import IntEnum, IntFlag

from .jute import ACL, Id


class Op(IntEnum):
    """Operation codes of request headers and multi headers."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


class ZkCode(IntEnum):
    """Result codes of operations, as reply headers have them; those that we give or understand."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124


class KeeperError(Exception):
    """An expected failure of one operation; it ends up as the code in the reply."""

    def __init__(self, code: ZkCode) -> None:
        super().__init__(code.name)
        self.code = code


class EventType(IntEnum):
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


SYNC_CONNECTED = 3
NOTIFICATION_XID = -1
PING_XID = -2
AUTH_XID = -4
NO_ZXID = -1


class Perm(IntFlag):
    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class CreateMode(IntEnum):
    """The kinds of node, as in the flags of a create."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6

    @property
    def is_ephemeral(self) -> bool:
        return self in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)

    @property
    def is_sequential(self) -> bool:
        return self in (
            CreateMode.PERSISTENT_SEQUENTIAL,
            CreateMode.EPHEMERAL_SEQUENTIAL,
            CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
        )

    @property
    def has_ttl(self) -> bool:
        return self >= CreateMode.PERSISTENT_WITH_TTL


class WatcherType(IntEnum):
    """The kinds of watch in CheckWatches and RemoveWatches."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class AddWatchMode(IntEnum):
    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


ANYONE = Id("world", "anyone")
OPEN_ACL: tuple[ACL, ...] = (ACL(Perm.ALL.value, ANYONE),)
READ_ONLY_ACL: tuple[ACL, ...] = (ACL(Perm.READ.value, ANYONE),)

# An ephemeral owner with only the high bit set is a container; with the high byte 0xff and 0x0000
# below it, the other five bytes are a time to live.
CONTAINER_OWNER = -(1 << 63)
_TTL_HIGH_BITS = -1 << 56
MAX_TTL_MS = (1 << 40) - 1


class OwnerKind(IntEnum):
    NONE = 0
    SESSION = 1
    CONTAINER = 2
    TTL = 3


def ttl_owner(ttl_ms: int) -> int:
    assert 0 < ttl_ms <= MAX_TTL_MS
    return _TTL_HIGH_BITS | ttl_ms


def owner_kind(owner: int) -> OwnerKind:
    if owner == 0:
        return OwnerKind.NONE
    if owner == CONTAINER_OWNER:
        return OwnerKind.CONTAINER
    if owner >> 56 == -1:
        return OwnerKind.TTL
    return OwnerKind.SESSION


def owner_ttl_ms(owner: int) -> int:
    return owner & MAX_TTL_MS


def to_int32(value: int) -> int:
    """Wrap as Java's int does: versions overflow quietly."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
