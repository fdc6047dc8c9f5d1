"""What goes wrong between a client and its cluster, in words for whoever runs it."""


class ClientError(Exception):
    """The cluster cannot be reached or refuses; the message says what to do."""


class SettingsError(ClientError):
    """A setting of the client cannot be used; the message names it."""


class LoginError(ClientError):
    """The broker was reached, but it is not who it should be, or it does not let us in."""
