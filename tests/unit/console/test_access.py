"""Who is answered by the console."""

from __future__ import annotations

import pytest

from pybroker_kafka.console.access import Access, Asked

HOST = "127.0.0.1:8080"
OWN = {"host": HOST}
COOKIE = {"cookie": "console=session"}
ORIGIN = {"origin": f"http://{HOST}", "content-type": "application/json"}
READS = Access((HOST, "localhost:8080"), "console", False, token="token", session="session")
WRITES = Access((HOST, "localhost:8080"), "console", True, token="token", session="session")


def _status(access: Access, asked: Asked) -> int | None:
    denied = access.refusal(asked)
    return None if denied is None else denied.status


def test_a_page_with_the_cookie_is_answered() -> None:
    assert _status(READS, Asked("GET", OWN | COOKIE)) is None
    assert _status(READS, Asked("GET", {"host": "localhost:8080"} | COOKIE)) is None


@pytest.mark.parametrize(
    "cookie", [{}, {"cookie": "console=other"}, {"cookie": "other=session"}, {"cookie": '"\x00;='}]
)
def test_without_the_cookie_nothing_is_answered(cookie: dict[str, str]) -> None:
    assert _status(WRITES, Asked("GET", OWN | cookie)) == 401
    assert _status(WRITES, Asked("POST", OWN | ORIGIN | cookie)) == 401
    assert _status(WRITES, Asked("POST", OWN | ORIGIN | cookie, "token")) == 401


def test_the_token_lets_in_once_and_another_does_not() -> None:
    asked = Asked("GET", OWN, "token")
    assert _status(READS, asked) is None
    assert READS.brings_token(asked)
    assert _status(READS, Asked("GET", OWN, "tokem")) == 401
    assert _status(READS, Asked("GET", OWN, "tök\u0000")) == 401


def test_a_name_bound_to_our_address_by_others_gets_nothing() -> None:
    for host in ("evil.example:8080", "127.0.0.1", "127.0.0.1:8081", ""):
        assert _status(WRITES, Asked("GET", {"host": host} | COOKIE, "token")) == 421
    assert _status(WRITES, Asked("GET", COOKIE, "token")) == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_is_refused(site: str) -> None:
    by_other = {"sec-fetch-site": site, "sec-fetch-mode": "cors"}
    assert _status(WRITES, Asked("GET", OWN | COOKIE | by_other)) == 403
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert _status(WRITES, Asked("GET", OWN | link, "token")) is None
    assert _status(WRITES, Asked("POST", OWN | COOKIE | ORIGIN | link)) == 403
    foreign = {"origin": "http://evil.example"}
    assert _status(WRITES, Asked("GET", OWN | COOKIE | foreign)) == 403


def test_changes_come_from_our_own_pages_as_json_where_that_is_allowed() -> None:
    change = OWN | COOKIE | ORIGIN
    assert _status(WRITES, Asked("POST", change)) is None
    assert _status(READS, Asked("POST", change)) == 403
    assert _status(WRITES, Asked("POST", OWN | COOKIE)) == 403
    form = change | {"content-type": "application/x-www-form-urlencoded"}
    assert _status(WRITES, Asked("POST", form)) == 415
    assert _status(WRITES, Asked("DELETE", OWN | COOKIE)) == 403


def test_secrets_are_in_no_repr() -> None:
    assert "token=" not in repr(READS)
    assert "session=" not in repr(READS)
