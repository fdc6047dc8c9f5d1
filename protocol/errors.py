"""Kafka's error codes, and the two exceptions of this code base.

Job: `ErrorCode` names every code that 3.9 can put on the wire (-1..127), with a short description
for log lines and error-message fields, and whether the Java client retries it.
Invariants: wire bytes raise only `ProtocolError`; an expected failure of a request is a
`KafkaError` inside one room and an `ErrorCode` in results between rooms.
Mirrors: org.apache.kafka.common.protocol.Errors.
Leaves out: the Java exception classes.
"""

from __future__ import annotations

from enum import IntEnum


class ProtocolError(Exception):
    """Bytes that are not the message they claim to be, or a message that cannot be written."""


class InvalidRecord(ProtocolError):
    """A batch whose bytes are intact but whose records break the format's rules.

    The leader answers INVALID_RECORD for it, and CORRUPT_MESSAGE for any other ProtocolError.
    """


class EndlessLength(InvalidRecord):
    """The length of a record is a number that does not end, which Kafka has no code of its own for
    where the batch is not compressed."""


class ErrorCode(IntEnum):
    """The int16 error code of responses; `description` and `retriable` ride along."""

    _value_: int
    description: str
    retriable: bool

    def __new__(cls, code: int, description: str = "", retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.description = description
        member.retriable = retriable
        return member

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """A code of a newer broker, as Errors.forCode has it."""
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None

    UNKNOWN_SERVER_ERROR = -1, "The broker failed in a way that has no code of its own"
    NONE = 0, "No error"
    OFFSET_OUT_OF_RANGE = 1, "The offset lies outside the log of this partition"
    CORRUPT_MESSAGE = 2, "The records are damaged or break the rules of their format", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not know the topic or partition", True
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment", True
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker is not the leader, or not a replica, of the partition",
        True,
    )
    REQUEST_TIMED_OUT = 7, "The request was not completed in its time", True
    BROKER_NOT_AVAILABLE = 8, "The broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "The broker has no replica of the partition", True
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than max.message.bytes allows"
    STALE_CONTROLLER_EPOCH = 11, "A newer controller exists"
    OFFSET_METADATA_TOO_LARGE = 12, "The offset's metadata is longer than the broker allows"
    NETWORK_EXCEPTION = 13, "The connection was lost before the answer came", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available", True
    NOT_COORDINATOR = 16, "This broker is not the coordinator", True
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not valid for this operation"
    RECORD_LIST_TOO_LARGE = 18, "The records are larger than a segment of the topic"
    NOT_ENOUGH_REPLICAS = 19, "Fewer replicas are in sync than min.insync.replicas asks for", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were appended, but to fewer in-sync replicas than required",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "The acks value is none of -1, 0 and 1"
    ILLEGAL_GENERATION = 22, "The generation of the member is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "No assignment protocol is supported by all members of the group",
    )
    INVALID_GROUP_ID = 24, "The group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the bounds that the broker sets"
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; join it again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offsets of this commit are too large for one record batch"
    TOPIC_AUTHORIZATION_FAILED = 29, "Not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "Not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "Not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "The timestamp lies outside the bounds that the topic sets"
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL handshake"
    UNSUPPORTED_VERSION = 35, "This version of the request or feature is not supported"
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists already"
    INVALID_PARTITIONS = 37, "The number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or above the number of brokers",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is not valid"
    INVALID_CONFIG = 40, "The configuration is not valid"
    NOT_CONTROLLER = 41, "This broker is not the controller", True
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The message format of the topic does not support this"
    POLICY_VIOLATION = 44, "A policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The producer's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, "The producer's sequence number was seen already"
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is older than the newest one known"
    INVALID_TXN_STATE = 48, "The state of the transaction does not allow this operation"
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is larger than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "Another operation on this transaction is still in progress", True
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer coordinator of the transaction exists"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Not authorized for the transactional id"
    SECURITY_DISABLED = 54, "The broker runs without the security feature this needs"
    OPERATION_NOT_ATTEMPTED = (
        55,
        "The operation was not tried, because another one of the request failed",
    )
    KAFKA_STORAGE_ERROR = 56, "The disk of the partition failed", True
    LOG_DIR_NOT_FOUND = 57, "The log directory does not exist or is offline"
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "The state of this producer id is not known, or no longer"
    REASSIGNMENT_IN_PROGRESS = 60, "A reassignment of the partition is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "The delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to someone else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be managed over this kind of connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported"
    NON_EMPTY_GROUP = 68, "The group still has members"
    GROUP_ID_NOT_FOUND = 69, "The group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session does not exist, or no longer", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The epoch of the fetch session is not the expected one", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name this client connected to", True
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is switched off"
    FENCED_LEADER_EPOCH = 74, "The leader epoch of the request is older than the broker's", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch of the request is newer than the broker's", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client or topic does not support this compression type"
    STALE_BROKER_EPOCH = 77, "The broker epoch is not the current one"
    OFFSET_NOT_AVAILABLE = 78, "The offset is not available yet on this new leader", True
    MEMBER_ID_REQUIRED = 79, "The member must join again with the member id it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have"
    FENCED_INSTANCE_ID = 82, "Another member took over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica may be elected leader at the moment", True
    ELECTION_NOT_NEEDED = 84, "The partition has the leader that the election would choose", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment of the partition is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "The group is subscribed to the topic"
    INVALID_RECORD = 87, "A record was refused by the broker"
    UNSTABLE_OFFSET_COMMIT = 88, "Offsets of an open transaction are still to be decided", True
    THROTTLING_QUOTA_EXCEEDED = 89, "A quota is exhausted", True
    PRODUCER_FENCED = 90, "A newer producer took over this transactional id"
    RESOURCE_NOT_FOUND = 91, "The resource does not exist"
    DUPLICATE_RESOURCE = 92, "The resource is named more than once"
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not satisfy the broker's rules"
    INCONSISTENT_VOTER_SET = 94, "The voters differ from the ones this node knows"
    INVALID_UPDATE_VERSION = 95, "The feature update is not valid"
    FEATURE_UPDATE_FAILED = 96, "The feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "The snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "This broker does not know the topic id", True
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker is registered under this id"
    BROKER_ID_NOT_REGISTERED = 102, "No broker is registered under this id"
    INCONSISTENT_TOPIC_ID = 103, "The topic id differs from the one in the log", True
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id is not this cluster's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "Topic ids and topic names are mixed in one fetch session",
        True,
    )
    INELIGIBLE_REPLICA = 107, "The replica may not be in the in-sync set at the moment"
    NEW_LEADER_ELECTED = 108, "The leader changed while the request was handled"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in tiered storage only"
    FENCED_MEMBER_EPOCH = 110, "The member's epoch was fenced; it must join again"
    UNRELEASED_INSTANCE_ID = 111, "The group.instance.id is still used by another member"
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "The member's epoch is older than the group expects"
    MISMATCHED_ENDPOINT_TYPE = 114, "This kind of endpoint does not serve the request"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "The controller id is not known"
    UNKNOWN_SUBSCRIPTION_ID = 117, "The subscription id of the client metrics is not current"
    TELEMETRY_TOO_LARGE = 118, "The client metrics are larger than the broker allows"
    INVALID_REGISTRATION = 119, "The broker registration is not valid"
    TRANSACTION_ABORTABLE = 120, "The transaction must be aborted"
    INVALID_RECORD_STATE = 121, "The record is in a state that does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "The share session does not exist", True
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        "The epoch of the share session is not the expected one",
        True,
    )
    FENCED_STATE_EPOCH = 124, "The state epoch is not the current one"
    INVALID_VOTER_KEY = 125, "The voter's key does not match"
    DUPLICATE_VOTER = 126, "The voter is already in the set"
    VOTER_NOT_FOUND = 127, "The voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "The client's metadata is too old; it must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "The epoch of the topology is older than the group's"
    SHARE_SESSION_LIMIT_REACHED = 133, "There are as many share sessions as there may be", True


# Room for 32767 bytes of UTF-8, the most that a string of a response may have.
MAX_MESSAGE_LENGTH = 4096


class KafkaError(Exception):
    """An expected failure with its wire code; raised and caught inside one room.

    Its message fits into any response, even if it quotes a long part of a request.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        text = code.description if message is None else message
        if len(text) > MAX_MESSAGE_LENGTH:
            text = f"{text[:MAX_MESSAGE_LENGTH]}..."
        self.message = text

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
