"""The TLS of one listener while it runs: its present context, and the principals of its clients.

Job: connections get their context and principal from `ServerTls`. A changed key store makes another
context, for later connections only.

Mirrors `SslFactory` and the SSL part of `DefaultKafkaPrincipalBuilder`.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from ....tls.contexts import Naming, server_context
from ....tls.distinguished_name import MalformedName, rfc2253, subject_name
from ..principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from .principal_mapping import NoRuleApplies, Rule, map_name

if TYPE_CHECKING:
    from ....tls.settings import TlsSettings


class CertificateNames(NamedTuple):
    """The names in a certificate."""

    subject: str
    alternatives: frozenset[str]


class ServerTls:
    """The TLS of one listener; its connections read it when they begin."""

    __slots__ = ("_rules", "context", "identity", "settings")

    def __init__(
        self, settings: TlsSettings, rules: tuple[Rule, ...] | None, *, name: Naming = str
    ) -> None:
        """Reads the key stores; `rules` are None where logins name the clients, not certificates.
        Raises TlsSettingsError.
        """
        self._rules = rules
        self.settings = settings
        self.context, self.identity = server_context(settings, name=name)

    @property
    def names(self) -> CertificateNames:
        """The broker's names for this listener's clients."""
        from cryptography import x509

        certificate = self.identity.certificate
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            others: frozenset[str] = frozenset()
        else:
            others = frozenset(f"{type(each).__name__}:{each.value}" for each in found.value)
        return CertificateNames(rfc2253(certificate.subject.public_bytes()), others)

    def take_over(self, other: ServerTls) -> None:
        """Take over the state of `other` for new connections."""
        self._rules = other._rules
        self.settings, self.context, self.identity = other.settings, other.context, other.identity

    def new_connection(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing, server_side=True)

    def principal_of(self, tls: ssl.SSLObject) -> KafkaPrincipal:
        """The principal of the client's certificate. Raises NoRuleApplies if no rule maps its
        name.
        """
        der = None if self._rules is None else tls.getpeercert(binary_form=True)
        if der is None or self._rules is None:
            return ANONYMOUS
        try:
            name = subject_name(der)
        except MalformedName:
            raise NoRuleApplies("the subject of its certificate cannot be read") from None
        return KafkaPrincipal(USER_TYPE, map_name(self._rules, name))
