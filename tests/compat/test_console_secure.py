"""The console of a secured cluster: an administrator's, and a user's who may see less.

One cluster of one broker, two consoles, and one browser; about 10 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import (
    browser_page,
    chromium,
    console_process,
    keep_picture,
    never_pressed,
    press_what_only_copies,
    skip_unless_whole,
)

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    chromium()
    with KafkaCluster(secure=True) as cluster:
        cluster.topic("orders")
        yield cluster


@pytest.fixture(scope="module")
def admin(kafka: KafkaCluster) -> Iterator[Page]:
    """Of the administrator, who may change things."""
    with (
        console_process(kafka.data_dir, "--console-write") as address,
        browser_page() as page,
    ):
        page.goto(address)
        page.goto(address.split("?")[0] + "#/security")
        yield page


def section(page: Page, title: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=title))


@pytest.mark.nightly
def test_acls_are_added_found_and_removed(admin: Page) -> None:
    from playwright.sync_api import expect

    acls = section(admin, "ACLs")
    acls.get_by_text("Add an ACL").first.click()
    acls.get_by_label("Principal").fill("alice")
    acls.get_by_label("Operation").select_option("read")
    acls.get_by_label("With the name").fill("logs-")
    acls.get_by_label("and all that begins so").check()
    acls.get_by_role("button", name="Add an ACL").click()
    acls.get_by_label("ACLs that have").fill("alice")
    expect(acls.locator("tbody tr")).to_have_count(1)
    expect(acls.locator("tbody tr")).to_contain_text("User:alice")
    expect(acls.locator("tbody tr")).to_contain_text("logs-…")
    keep_picture(admin, "security")
    acls.get_by_role("button", name="remove the ACL of User:alice").click()
    expect(acls.locator("tbody")).to_contain_text("there are none")


@pytest.mark.nightly
def test_users_and_quotas_are_set_and_removed(admin: Page) -> None:
    from playwright.sync_api import expect

    users = section(admin, "Users")
    users.get_by_text("Set a password").first.click()
    users.get_by_label("User", exact=True).fill("carol")
    users.get_by_label("Password").fill("a-secret-of-carol")
    users.get_by_role("button", name="Set a password").click()
    users.get_by_label("Users that have").fill("carol")
    expect(users.locator("tbody tr")).to_contain_text("SCRAM-SHA-512")
    assert "a-secret-of-carol" not in admin.content()
    users.get_by_role("button", name="remove SCRAM-SHA-512 of carol").click()
    expect(users.locator("tbody")).to_contain_text("there are none")
    quotas = section(admin, "Quotas")
    quotas.get_by_text("Set a quota").first.click()
    quotas.get_by_label("Called").fill("carol")
    quotas.get_by_label("Value").fill("1048576")
    quotas.get_by_role("button", name="Set a quota").click()
    expect(quotas.locator("tbody tr")).to_contain_text("1,048,576")
    quotas.get_by_role("button", name="remove producer_byte_rate of user carol").click()
    expect(quotas.locator("tbody")).to_contain_text("there are none")


@pytest.mark.nightly
def test_tokens_are_made_renewed_and_ended(admin: Page) -> None:
    from playwright.sync_api import expect

    tokens = section(admin, "Delegation tokens")
    tokens.get_by_text("Make a token").first.click()
    tokens.get_by_label("May be renewed by").fill("scheduler")
    tokens.get_by_role("button", name="Make a token").click()
    expect(tokens.locator("tbody tr")).to_contain_text("User:scheduler")
    expect(tokens.locator("code")).to_have_count(2)
    tokens.get_by_role("button", name="renew token").click()
    expect(admin.locator("#told")).to_contain_text("is renewed")
    tokens.get_by_role("button", name="expire token").click()
    expect(tokens.locator("tbody")).to_contain_text("there are none")


@pytest.mark.nightly
def test_every_button_was_pressed(admin: Page, request: pytest.FixtureRequest) -> None:
    skip_unless_whole(request)
    press_what_only_copies(admin)
    left = never_pressed(admin, "security")
    assert not left, "\n".join(left)


def test_a_user_sees_what_it_may(kafka: KafkaCluster, admin: Page) -> None:
    from playwright.sync_api import expect

    browser = admin.context.browser
    assert browser is not None
    with (
        console_process(kafka.data_dir, "--as", "user") as address,
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.goto(address)
        page.goto(address.split("?")[0] + "#/security")
        expect(page.locator("p.late:not(:empty)")).to_have_count(3)
        expect(page.locator("p.late:not(:empty)").first).to_contain_text(
            "User:user is not allowed DESCRIBE"
        )
        expect(page.get_by_role("button", name="Add an ACL")).to_have_count(0)
        page.get_by_role("link", name="Topics").click()
        expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
