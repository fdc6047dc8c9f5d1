"""What goes wrong between a client and its cluster, in words for whoever runs it."""

from ..protocol.errors import ErrorCode


class ClientError(Exception):
    """The cluster cannot be reached or refuses; the message says what to do."""


class SettingsError(ClientError):
    """A setting of the client cannot be used; the message names it."""


class LoginError(ClientError):
    """The broker was reached, but it is not who it should be, or it does not let us in."""


class ConnectionFailed(ClientError):
    """No answer came: whether the request had an effect is not known."""


class Unsupported(ClientError):
    """The broker's version does not have this: asking again is in vain."""


class Refused(ClientError):
    """The cluster has said no, and will again: `code` has its reason."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


class DeliveryTimeout(ClientError):
    """A record was not acknowledged in its time; it may be written all the same."""


class ProducerClosed(ClientError):
    """The producer has ended, or cannot go on: the record was not acknowledged."""


class ProducerFenced(Refused):
    """Another producer has this transactional id now."""


class TransactionAborted(ClientError):
    """Sent in a transaction that is aborted, or can only be aborted; the message says why."""
