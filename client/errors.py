"""Errors between a client and its cluster, with messages for its users."""

from ..protocol.errors import ErrorCode


class ClientError(Exception):
    """The cluster cannot be reached or refuses; the message says what to do."""


class SettingsError(ClientError):
    """A setting of the client cannot be used; the message names it."""


class LoginError(ClientError):
    """The broker was reached, but its identity is wrong, or it refuses our login."""


class ConnectionFailed(ClientError):
    """No answer arrived: the request may have had an effect."""


class Unsupported(ClientError):
    """The broker's version does not support this: a retry is in vain."""


class Refused(ClientError):
    """The cluster has refused, and will refuse again: `code` has its reason."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


class DeliveryTimeout(ClientError):
    """A record was not acknowledged in time; it may be written all the same."""


class ProducerClosed(ClientError):
    """The producer has ended, or cannot go on: the record was not acknowledged."""


class ProducerFenced(Refused):
    """Another producer owns this transactional id now."""


class TransactionAborted(ClientError):
    """The record's transaction is aborted, or can only be aborted; the message says why."""
