"""Makes a connector from the security settings of Kafka's clients.

Job: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config` and `ssl.*`, with Kafka's defaults.
Invariant: a wrong setting raises a `SettingsError` that names its key and quotes no value that may
be a secret. Files are read once, here; only a token's file is read at each login.

If `sasl.jaas.config` is not set, the login module is read from a JAAS file
(`java.security.auth.login.config`), section KafkaClient.

Mirrors SslConfigs, SaslConfigs, DefaultSslEngineFactory, JaasContext.loadClientContext. Leaves out
login callback classes of Java, and tokens fetched by HTTP.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...protocol.sasl import MECHANISMS, OAuthBearerClient, PlainClient, ScramClient
from ...protocol.sasl.jaas import MODULES, JaasError, LoginModule, login_module, parse_file
from ..errors import SettingsError
from .connector import OPEN, Connector
from .kerberos import GSSAPI, SERVICE_NAME, kerberos_login
from .login import Login
from .unsecured_token import unsecured_token

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", GSSAPI)
JAAS_CONFIG, JAAS_FILE, CLIENT_SECTION = (
    "sasl.jaas.config", "java.security.auth.login.config", "KafkaClient",
)  # fmt: skip
JAAS_FILE_MAX_BYTES = 64 * 1024
NONCE_BYTES = 24
MAX_TOKEN_BYTES = 1 << 20

Setting = Callable[[str], str | None]


def connector_from(settings: Mapping[str, str]) -> Connector:
    """The connector for a client's properties. Raises SettingsError."""

    def setting(key: str) -> str | None:
        return settings.get(key, "").strip() or None

    protocol = (setting("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"security.protocol={protocol} is not one of {', '.join(PROTOCOLS)}")
    if protocol == "PLAINTEXT":
        return OPEN
    context = _context(settings) if protocol.endswith("SSL") else None
    return Connector(context, login_from(setting) if protocol.startswith("SASL") else None)


def _context(settings: Mapping[str, str]) -> ssl.SSLContext:
    from ...tls.contexts import client_context
    from ...tls.settings import TlsSettingsError, read_settings

    try:
        return client_context(read_settings(settings))
    except TlsSettingsError as error:
        raise SettingsError(str(error)) from None


def login_from(
    setting: Setting, names: Mapping[str, str] | None = None, module: LoginModule | None = None
) -> Login:
    """`setting` returns the text of a key, or None; `names` maps keys to their names in errors;
    `module` is the login module if it is not in the settings. Raises SettingsError."""
    names = names or {}
    mechanism = (setting("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in _LOGINS:
        name = names.get("sasl.mechanism", "sasl.mechanism")
        raise SettingsError(f"{name}={mechanism} is not one of {', '.join(_LOGINS)}")
    jaas = names.get(JAAS_CONFIG, JAAS_CONFIG)
    found = module or _module(setting, mechanism, jaas)
    if mechanism == "OAUTHBEARER":
        return _bearer_login(setting, found)
    if mechanism == GSSAPI:
        return kerberos_login(found.options, setting(SERVICE_NAME), jaas)
    return _password_login(mechanism, found, jaas)


def _module(setting: Setting, mechanism: str, jaas: str) -> LoginModule:
    text, file = setting(JAAS_CONFIG), setting(JAAS_FILE)
    try:
        if text is not None:
            return login_module(text, mechanism)
        if file is not None:
            return _module_in_file(Path(file), mechanism)
    except JaasError as error:
        raise SettingsError(f"{jaas if text else f'{JAAS_FILE}: {file}'}: {error}") from None
    options = {"OAUTHBEARER": "...", GSSAPI: "useTicketCache=true"}.get(
        mechanism, 'username="..." password="..."'
    )
    raise SettingsError(
        f"{jaas} is not set; for {mechanism} it is: {MODULES[mechanism]} required {options};"
    )


def _module_in_file(path: Path, mechanism: str) -> LoginModule:
    """The mechanism's login module in a JAAS file. Raises SettingsError, JaasError."""
    try:
        with path.open("rb") as file:
            text = file.read(JAAS_FILE_MAX_BYTES + 1).decode()
    except OSError as error:
        raise SettingsError(f"{JAAS_FILE}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{JAAS_FILE}: {path} is not UTF-8") from None
    if len(text) > JAAS_FILE_MAX_BYTES:
        raise SettingsError(f"{JAAS_FILE}: {path} has more than {JAAS_FILE_MAX_BYTES} bytes")
    for module in parse_file(text).get(CLIENT_SECTION, ()):
        if module.name == MODULES[mechanism]:
            return module
    raise JaasError(
        f"there is no section {CLIENT_SECTION} with the login module {MODULES[mechanism]}"
    )


def _password_login(mechanism: str, module: LoginModule, jaas: str) -> Login:
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise SettingsError(f"{jaas} has no username and password")
    if mechanism == "PLAIN":
        try:
            PlainClient(username, password)
        except ValueError as error:
            raise SettingsError(f"{jaas}: {error}") from None
        return Login(mechanism, username, lambda: PlainClient(username, password), user=username)
    kind = MECHANISMS[mechanism]
    by_token = module.options.get("tokenauth", "").lower() == "true"

    def new_client() -> ScramClient:
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return ScramClient(kind, username, password, nonce, by_token=by_token)

    user = None if by_token else username
    return Login(mechanism, username, new_client, is_slow=True, user=user)


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
