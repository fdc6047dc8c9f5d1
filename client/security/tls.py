"""TLS of a client: a stream encrypted, the broker's certificate checked, failures explained.

Mirrors SslTransportLayer and SslFactory of a client.
"""

from __future__ import annotations

import ssl

import trio

from .tls_stream import TlsStream

_HAS_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
# X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK
_TOO_WEAK = {66, 67, 68}
_NAME_MISMATCHES = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class TlsFailure(Exception):
    """A failure of TLS; the message says what to do."""


async def start_tls(stream: trio.SocketStream, context: ssl.SSLContext, host: str) -> TlsStream:
    """Run the TLS handshake over a TCP stream. Raises TlsFailure."""
    encrypted = TlsStream(stream, context, host)
    try:
        await encrypted.do_handshake()
    except OSError as error:  # includes errors of TLS
        raise TlsFailure(explained(error, host)) from error
    return encrypted


def explained(error: BaseException, host: str = "this name") -> str:
    """The meaning of an error of TLS, and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, host)
    # The end of a connection is the one or the other, by Python's version.
    is_the_end = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    if isinstance(error, ssl.SSLError) and not is_the_end:
        reason = (error.reason or "").replace("_", " ").lower()
        if "certificate" in reason:
            return f"it does not take our certificate ({reason}); see ssl.keystore.location"
        if "wrong version number" in reason or "record layer" in reason or "unexpected" in reason:
            return "it does not speak TLS on this port; security.protocol is wrong, or the port"
        return f"no TLS connection: {reason or error}"
    return (
        "it ends the connection during the TLS handshake; is there TLS on this port "
        "(security.protocol)?"
    )


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _NAME_MISMATCHES:
        return (
            f"its certificate is not for {host}: use a name that is in the certificate, or give "
            "the broker one with this name (or, to check no name, set "
            "ssl.endpoint.identification.algorithm to nothing)"
        )
    if error.verify_code in _TOO_WEAK:
        return (
            f"its certificate is too weak ({error.verify_message}): replace it; where it is "
            "itself in ssl.truststore.location, it is taken as Java takes it"
        )
    if error.verify_code == _HAS_EXPIRED:
        return "its certificate has expired: the broker needs a new one"
    return (
        f"its certificate is not trusted ({error.verify_message}): put the CA that has signed it "
        "into ssl.truststore.location"
    )
