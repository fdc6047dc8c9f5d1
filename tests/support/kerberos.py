"""A Kerberos of the tests' own: MIT's KDC, if it is installed, in a directory and on a port."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import free_port

REALM = "TEST.PYBROKER"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
START_SECONDS = 120.0


def _program(name: str) -> str:
    found = shutil.which(name, path=SEARCHED)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: krb5-kdc, krb5-user)")
    return found


class Kerberos:
    """A realm with principals; its files are found by the variables of `environment`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.programs = {name: _program(name) for name in PROGRAMS}
        directory.mkdir(parents=True)
        (directory / "krb5.conf").write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\nrdns = false\n"
            "dns_canonicalize_hostname = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{self.port}\n}}\n"
        )
        (directory / "kdc.conf").write_text(
            f'[kdcdefaults]\nkdc_ports = ""\nkdc_tcp_ports = {self.port}\n'
            f"[realms]\n{REALM} = {{\n database_name = {directory}/principal\n"
            f" key_stash_file = {directory}/stash\n acl_file = {directory}/acl\n}}\n"
            f"[logging]\nkdc = FILE:{directory}/kdc.log\n"
        )
        self.environment = {
            "KRB5_CONFIG": str(directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
        }

    def run(self, program: str, *arguments: str, said: str = "") -> None:
        subprocess.run(
            [self.programs[program], *arguments],
            env={**os.environ, **self.environment}, input=said.encode(), check=True,
            capture_output=True,
        )  # fmt: skip

    def key_table(self, principal: str) -> Path:
        path = self.directory / f"{principal.partition('/')[0]}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def log_in(self, principal: str, key_table: Path) -> None:
        """As `kinit`: the ticket is in the cache of `environment`."""
        self.run("kinit", "-k", "-t", str(key_table), principal)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        process = subprocess.Popen(
            [self.programs["krb5kdc"], "-n"], env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None, (self.directory / "kdc.log").read_text()
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    break
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def kerberos(directory: Path) -> Iterator[Kerberos]:
    """A realm that serves tickets; skipped where its programs or the package are missing."""
    if importlib.util.find_spec("gssapi") is None:
        pytest.skip("the package gssapi is not installed (pip install 'pybroker-kafka[gssapi]')")
    realm = Kerberos(directory)
    realm.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-password")
    with realm.serving():
        yield realm
