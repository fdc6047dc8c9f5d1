"""The security settings of Kafka's clients, made into a connector.

Job: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config` and `ssl.*`, with Kafka's defaults.
Invariant: what is wrong with a setting is a `SettingsError` that names its key and quotes no value
that may be a secret. Files are read once, here; only a token's file is read at each login.

Mirrors SslConfigs, SaslConfigs, DefaultSslEngineFactory. Leaves out GSSAPI, login callback classes
of Java, and tokens fetched by HTTP.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...protocol.sasl import MECHANISMS, OAuthBearerClient, PlainClient, ScramClient
from ...protocol.sasl.jaas import MODULES, JaasError, LoginModule, login_module
from ..errors import SettingsError
from .connector import OPEN, Connector
from .login import Login
from .stores import StoreError, read_certificates, read_identity
from .unsecured_token import unsecured_token

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NONCE_BYTES = 24
MAX_TOKEN_BYTES = 1 << 20

Setting = Callable[[str], str | None]


def connector_from(settings: Mapping[str, str]) -> Connector:
    """Of a client's properties. Raises SettingsError."""

    def setting(key: str) -> str | None:
        return settings.get(key, "").strip() or None

    protocol = (setting("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"security.protocol={protocol} is not one of {', '.join(PROTOCOLS)}")
    # Set to nothing, it is switched off.
    identify = settings.get("ssl.endpoint.identification.algorithm", "https").strip()
    return build_connector(protocol, setting, identify)


def build_connector(protocol: str, setting: Setting, identification: str) -> Connector:
    """`setting` finds the text of a key, None without one. Raises SettingsError."""
    if protocol == "PLAINTEXT":
        return OPEN
    context = client_context(setting, identification) if protocol.endswith("SSL") else None
    login = login_from(setting) if protocol.startswith("SASL") else None
    return Connector(context, login)


# TLS


def client_context(setting: Setting, identification: str) -> ssl.SSLContext:
    """Without a truststore, what this machine trusts. Raises SettingsError."""
    if identification.lower() not in ("", "https"):
        raise SettingsError(
            f"ssl.endpoint.identification.algorithm={identification} is not https, nor nothing"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(identification)
    _set_versions(context, setting)
    ciphers = setting("ssl.cipher.suites")
    if ciphers is not None:
        _set_ciphers(context, ciphers)
    _load_trusted(context, setting)
    _load_identity(context, setting)
    return context


def _set_versions(context: ssl.SSLContext, setting: Setting) -> None:
    text = setting("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3"
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in TLS_VERSIONS]
    if unknown or not names:
        raise SettingsError(
            f"ssl.enabled.protocols={text} is not a list of {', '.join(TLS_VERSIONS)}"
        )
    versions = [TLS_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_ciphers(context: ssl.SSLContext, text: str) -> None:
    """Java's names of TLS 1.2 become those of OpenSSL; those of TLS 1.3 are always on."""
    names = [name.strip() for name in text.split(",")]
    older = [
        name.removeprefix("TLS_").replace("_WITH_", "_").replace("_", "-").replace("AES-", "AES")
        for name in names
        if "_WITH_" in name
    ]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise SettingsError(f"ssl.cipher.suites={text}: none of them is known here") from None


def _load_trusted(context: ssl.SSLContext, setting: Setting) -> None:
    inline, location = setting("ssl.truststore.certificates"), setting("ssl.truststore.location")
    key = "ssl.truststore.certificates" if inline else "ssl.truststore.location"
    try:
        if inline is not None:
            context.load_verify_locations(cadata=inline)
        elif location is not None:
            password = setting("ssl.truststore.password")
            kind = setting("ssl.truststore.type") or "JKS"
            context.load_verify_locations(cadata=read_certificates(Path(location), kind, password))
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except StoreError as error:
        raise SettingsError(f"{key}: {error}") from None
    except (ssl.SSLError, ValueError):
        raise SettingsError(f"{key} holds no certificates") from None


def _load_identity(context: ssl.SSLContext, setting: Setting) -> None:
    """The client's own certificate and key, for brokers that ask for them."""
    inline, location = setting("ssl.keystore.key"), setting("ssl.keystore.location")
    key_password = setting("ssl.key.password")
    key = "ssl.keystore.key" if inline else "ssl.keystore.location"
    if inline is not None:
        pem = f"{inline}\n{setting('ssl.keystore.certificate.chain') or ''}\n".encode()
    elif location is not None:
        kind = setting("ssl.keystore.type") or "JKS"
        try:
            store_password = setting("ssl.keystore.password")
            pem, key_password = read_identity(Path(location), kind, store_password, key_password)
        except StoreError as error:
            raise SettingsError(f"{key}: {error}") from None
    else:
        return
    # `ssl` reads keys from files only; this one is readable by us alone, and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=key_password or "")
        except (ssl.SSLError, OSError):
            raise SettingsError(
                f"{key}: no private key with its certificate can be read; is ssl.key.password "
                "right?"
            ) from None


# SASL


def login_from(setting: Setting) -> Login:
    """Raises SettingsError."""
    mechanism = (setting("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in _LOGINS:
        raise SettingsError(f"sasl.mechanism={mechanism} is not one of {', '.join(_LOGINS)}")
    text = setting("sasl.jaas.config")
    if text is None:
        options = "..." if mechanism == "OAUTHBEARER" else 'username="..." password="..."'
        raise SettingsError(
            f"sasl.jaas.config is not set; for {mechanism} it is: "
            f"{MODULES[mechanism]} required {options};"
        )
    try:
        found = login_module(text, mechanism)
    except JaasError as error:
        raise SettingsError(f"sasl.jaas.config: {error}") from None
    if mechanism == "OAUTHBEARER":
        return _bearer_login(setting, found)
    return _password_login(mechanism, found)


def _password_login(mechanism: str, module: LoginModule) -> Login:
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise SettingsError("sasl.jaas.config has no username and password")
    if mechanism == "PLAIN":
        return Login(mechanism, username, lambda: PlainClient(username, password))
    kind = MECHANISMS[mechanism]
    by_token = module.options.get("tokenauth", "").lower() == "true"

    def new_client() -> ScramClient:
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return ScramClient(kind, username, password, nonce, by_token=by_token)

    return Login(mechanism, username, new_client, is_slow=True)


def _bearer_login(setting: Setting, module: LoginModule) -> Login:
    """A token from a file, read at each login, or an unsecured one made from the options."""
    extensions = {
        key.removeprefix("extension_"): value
        for key, value in module.options.items()
        if key.startswith("extension_")
    } or {
        key.removeprefix("unsecuredLoginExtension_"): value
        for key, value in module.options.items()
        if key.startswith("unsecuredLoginExtension_")
    }
    key = "sasl.oauthbearer.token.endpoint.url"
    url = setting(key)
    if url is None:
        name = module.options.get("unsecuredLoginStringClaim_sub")
        if not name:
            raise SettingsError(
                f"OAUTHBEARER needs a token: {key}=file:///... , or in sasl.jaas.config "
                'unsecuredLoginStringClaim_sub="..." for one without a signature'
            )
        return Login(
            "OAUTHBEARER",
            name,
            lambda: OAuthBearerClient(unsecured_token(module.options, time.time()), extensions),
        )
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise SettingsError(f"{key}: only file:// is there; fetch the token into a file")
    path = Path(unquote(parts.path))

    def new_client() -> OAuthBearerClient:
        try:
            with path.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
            return OAuthBearerClient(token, extensions)
        except OSError as error:
            raise SettingsError(f"{key}: {error}") from None
        except ValueError:
            raise SettingsError(f"{key}: {path} holds no token") from None

    return Login("OAUTHBEARER", f"the token in {path}", new_client)
