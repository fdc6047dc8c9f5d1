"""`pybroker tokens create|list|renew|expire`: delegation tokens (KIP-48).

Invariant: a token's HMAC is its password: it is shown once, by `create`, and never taken from the
command line; renew and expire take the token's id, and ask the cluster for the rest.

Mirrors: kafka-delegation-tokens.
"""

from __future__ import annotations

import base64
import time

import click

from ..client.admin.admin import Admin
from ..client.admin.rows import token_row
from ..client.admin.tokens import Token
from ..protocol.sasl.jaas import MODULES
from ..storage.retention import date_text
from .options import echo, escape, principal, show, show_json, table
from .target import Target, cluster_options

HOUR_MS = 3_600_000
AT_ONCE = -1


def _parts(text: str) -> tuple[str, str]:
    kind, _, name = principal(text).partition(":")
    return kind, name


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def tokens() -> None:
    """Delegation tokens: logins for programs that should not know a password.

    \b
    pybroker tokens create --renewer scheduler --hours 24
    pybroker tokens list
    pybroker tokens renew TOKEN_ID
    pybroker tokens expire TOKEN_ID

    A token has the permissions of its owner until it expires. All brokers need the same
    delegation.token.secret.key. A client that is logged in with a token cannot create tokens.
    """


@tokens.command()
@click.option(
    "--owner", metavar="WHO", help="Create the token for another user; needs an ACL on --user WHO."
)
@click.option(
    "--renewer",
    "renewers",
    multiple=True,
    metavar="WHO",
    help="Another user who may renew the token; may be repeated.",
)
@click.option("--hours", type=click.FloatRange(min=0.001), help="Maximum lifetime of the token.")
@cluster_options
def create(
    target: Target,
    owner: str | None,
    renewers: tuple[str, ...],
    hours: float | None,
) -> None:
    """Create a token and show the client settings for it, once."""
    made: Token = target.ask(
        lambda admin: admin.tokens.create(
            _parts(owner) if owner else None,
            [_parts(one) for one in renewers],
            -1 if hours is None else int(hours * HOUR_MS),
        )
    )
    hmac = base64.b64encode(made.hmac).decode()
    if target.as_json:
        show_json(
            {
                "token_id": made.token_id,
                "hmac": hmac,
                "owner": ":".join(made.owner),
                "expires_ms": made.expires_ms,
                "ends_ms": made.ends_ms,
            }
        )
        return
    echo(
        f"made token {made.token_id} of {':'.join(made.owner)}, good until "
        f"{date_text(made.expires_ms)}; it can be renewed until {date_text(made.ends_ms)}"
    )
    click.echo(
        "\nA client logs in with it so; this is shown only now:\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={MODULES['SCRAM-SHA-512']} required "
        f'username="{made.token_id}" password="{hmac}" tokenauth="true";'
    )


@tokens.command("list")
@click.option("--owner", "owners", multiple=True, metavar="WHO", help="Only the tokens of WHO.")
@cluster_options
def list_command(target: Target, owners: tuple[str, ...]) -> None:
    """Show the tokens that you own, may renew or may describe, without their HMACs."""
    wanted = [_parts(one) for one in owners] or None
    found: list[Token] = target.ask(lambda admin: admin.tokens.list(wanted))
    if target.as_json:
        show_json([token_row(token) for token in found])
        return
    made = table("token", "owner", "renewers", "expires", "renewable until")
    for token in found:
        made.add_row(
            token.token_id,
            escape(":".join(token.owner)),
            escape(", ".join(":".join(who) for who in token.renewers)),
            date_text(token.expires_ms),
            date_text(token.ends_ms),
        )
    show(made)


@tokens.command()
@click.argument("token_id")
@click.option(
    "--hours",
    type=click.FloatRange(min=0.001),
    help="Hours from now. Default: the brokers' delegation.token.expiry.time.ms.",
)
@cluster_options
def renew(target: Target, token_id: str, hours: float | None) -> None:
    """Extend a token within its maximum lifetime, as its owner or as a renewer."""

    async def work(admin: Admin) -> int:
        token = await admin.tokens.find(token_id)
        return await admin.tokens.renew(token, -1 if hours is None else int(hours * HOUR_MS))

    _tell_end(target, token_id, target.ask(work))


@tokens.command()
@click.argument("token_id")
@click.option("--hours", type=click.FloatRange(min=0.001), help="Hours from now. Default: at once.")
@cluster_options
def expire(target: Target, token_id: str, hours: float | None) -> None:
    """Expire a token, now or later; it is no login from then on."""

    async def work(admin: Admin) -> int:
        token = await admin.tokens.find(token_id)
        period_ms = AT_ONCE if hours is None else int(hours * HOUR_MS)
        return await admin.tokens.expire(token, period_ms)

    _tell_end(target, token_id, target.ask(work))


def _tell_end(target: Target, token_id: str, expires_ms: int) -> None:
    if target.as_json:
        show_json({"token_id": token_id, "expires_ms": expires_ms})
    elif expires_ms <= time.time() * 1000:
        echo(f"token {token_id} has ended")
    else:
        echo(f"token {token_id} is good until {date_text(expires_ms)}")
