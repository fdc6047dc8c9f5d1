"""`pybroker users list|add|alter|remove`: users who log in with SCRAM.

Invariants: no password is taken from the command line; one that is made here is shown once.

Mirrors: kafka-configs --entity-type users, of which it takes the passwords alone.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..client.admin.admin import Admin
from ..client.admin.rows import user_rows
from ..protocol.sasl import MECHANISMS, ScramHash
from ..protocol.sasl.scram import MIN_ITERATIONS
from .options import UserError, echo, escape, keep_local_password, show, show_json, table
from .target import Target, cluster_options

MADE_PASSWORD_BYTES = 18
MAX_PASSWORD_BYTES = 1024
MAX_ITERATIONS = 16384  # Kafka's own limit


def mechanism_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(sorted(MECHANISMS), case_sensitive=False),
        callback=lambda _context, _parameter, names: (
            [MECHANISMS[name] for name in names] or list(ScramHash)
        ),
        help="SCRAM mechanism; may be repeated.  [default: both]",
    )(command)


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options of `add` and `alter`."""
    options = (
        click.argument("name"),
        click.option(
            "--password-file",
            metavar="FILE",
            type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
            help="Read the password from the first line of FILE; - is standard input.",
        ),
        click.option("--generate", is_flag=True, help="Generate a password and show it once."),
        mechanism_option,
        click.option(
            "--iterations",
            default=MIN_ITERATIONS,
            show_default=True,
            type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
            help="Hash iterations of the password. More of them slow down attackers and every "
            "login; a number other than the default reveals to anyone who tries to log in that "
            "the user exists.",
        ),
        cluster_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def users() -> None:
    """Users who log in with a password (SCRAM): list, add, alter and remove them.

    \b
    pybroker users add alice                      asks for the password
    pybroker users add bob --generate             generates and shows one
    pybroker users add carol --password-file -  < password.txt
    pybroker users alter alice
    pybroker users list
    pybroker users remove bob

    pybroker acls sets the permissions of users.
    """


@users.command("list")
@cluster_options
def list_command(target: Target) -> None:
    """Show the users with a password, and their mechanisms. Passwords cannot be read."""
    found = sorted(target.ask(lambda admin: admin.users.list()).items())
    if target.as_json:
        show_json(
            [
                {"user": user, "mechanisms": {kind.mechanism: n for kind, n in kinds.items()}}
                for user, kinds in found
            ]
        )
        return
    if not found:
        echo("there are no users with a password; see: pybroker users add --help")
        return
    made = table("user", "mechanism", "iterations")
    for row in user_rows(dict(found)):
        made.add_row(escape(row["user"]), row["mechanism"], str(row["iterations"]))
    show(made)


@users.command()
@password_options
def add(name: str, **options: Any) -> None:
    """Add user NAME; the command asks for the password.

    A new user has only the permissions that ACLs give to everyone; see pybroker acls.
    """
    _set(name, is_new=True, **options)


@users.command()
@password_options
def alter(name: str, **options: Any) -> None:
    """Change the password of user NAME. Open connections stay logged in."""
    _set(name, is_new=False, **options)


def _set(
    name: str,
    *,
    is_new: bool,
    password_file: Path | None,
    generate: bool,
    mechanisms: list[ScramHash],
    iterations: int,
    target: Target,
) -> None:
    password = _password(name, password_file, generate=generate)

    async def work(admin: Admin) -> None:
        exists = name in await admin.users.list([name])
        if exists and is_new:
            raise UserError(f"there is a user {name!r}; see: pybroker users alter {name}")
        if not exists and not is_new:
            raise UserError(f"there is no user {name!r}; see: pybroker users add {name}")
        await admin.users.set_password(name, password, mechanisms, iterations)

    target.ask(work)
    if ScramHash.SHA_512 in mechanisms:
        keep_local_password(target.bootstrap, name, password)
    if target.as_json:
        made = {"password": password} if generate else {}
        kinds = [kind.mechanism for kind in mechanisms]
        show_json({"user": name, "mechanisms": kinds, **made})
        return
    names = " and ".join(kind.mechanism for kind in mechanisms)
    verb = "added user" if is_new else "set the password of"
    echo(f"{verb} {name}, for {names}")
    if generate:
        echo(f"password: {password}")


def _password(name: str, file: Path | None, *, generate: bool) -> str:
    """Raises UserError."""
    if generate:
        if file is not None:
            raise UserError("a password is made, or read from a file; not both")
        return secrets.token_urlsafe(MADE_PASSWORD_BYTES)
    if file is None:
        if not sys.stdin.isatty():
            raise UserError(
                "there is no terminal to ask at; give the password with --password-file FILE, or "
                "- for standard input, or have one made with --generate"
            )
        asked: str = click.prompt(
            f"password of {name}", hide_input=True, confirmation_prompt="once more"
        )
        return asked
    try:
        if str(file) == "-":
            line = sys.stdin.buffer.readline(MAX_PASSWORD_BYTES)
        else:
            with file.open("rb") as opened:
                line = opened.readline(MAX_PASSWORD_BYTES)
        password = line.decode().rstrip("\r\n")
    except (OSError, ValueError):
        raise UserError(f"{file} cannot be read as text") from None
    if not password:
        raise UserError("the password is empty; give one")
    return password


@users.command()
@click.argument("name")
@mechanism_option
@cluster_options
def remove(target: Target, name: str, mechanisms: list[ScramHash]) -> None:
    """Remove the password of user NAME, who can then no longer log in.

    Open connections stay logged in until they close. The user's ACLs remain.
    """

    async def work(admin: Admin) -> list[ScramHash]:
        has = (await admin.users.list([name])).get(name, {})
        kinds = [kind for kind in mechanisms if kind in has]
        if not kinds:
            raise UserError(f"there is no user {name!r} with such a password")
        await admin.users.remove_password(name, kinds)
        return kinds

    removed = [kind.mechanism for kind in target.ask(work)]
    if target.as_json:
        show_json({"user": name, "removed": removed})
    else:
        echo(f"removed {name}'s password for {' and '.join(removed)}")
