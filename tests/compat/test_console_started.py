"""`pybroker start --console`: the console comes and goes with its cluster; in a real browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.support.browser import browser_page, chromium
from tests.support.processes import ROOT
from tests.support.schema_registry import schema_registry

pytestmark = pytest.mark.nightly

READY = re.compile(r"console: (http://127\.0\.0\.1:\d+/\?token=\S+)")
START = (
    *(sys.executable, "-m", "pybroker_kafka", "start", "--ephemeral", "--port", "0"),
    *("--zookeeper-port", "0", "--console", "--console-port", "0", "--console-write"),
)


def test_it_comes_and_goes_with_its_cluster() -> None:
    from playwright.sync_api import expect

    chromium()
    with schema_registry() as registry, browser_page() as page:
        process = subprocess.Popen(
            [*START, "--registry-url", registry], stdout=subprocess.PIPE, text=True, cwd=ROOT.parent
        )
        assert process.stdout is not None
        try:
            address = next(found[1] for line in process.stdout if (found := READY.search(line)))
            page.goto(address)
            expect(page.locator("main")).to_contain_text("broker 1")
            page.goto(address.split("?")[0] + "#/topics")
            page.get_by_text("Create a topic").click()
            page.get_by_label("Name").fill("users")
            page.get_by_role("button", name="Create").click()
            page.get_by_role("link", name="users", exact=True).wait_for()
            page.goto(address.split("?")[0] + "#/messages/users")
            page.get_by_label("Schema of the value").fill("1")
            page.get_by_label("Value", exact=True).fill('{"id": 7, "name": "by-avro"}')
            page.get_by_role("button", name="Write").click()
            expect(page.locator("#told")).to_contain_text("written to users")
            page.get_by_role("button", name="Read").click()
            expect(page.locator("main tbody tr")).to_contain_text("by-avro")
            page.goto("about:blank")  # what it listens to ends with the console
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            process.stdout.close()
        with pytest.raises(urllib.error.URLError, match="refused"):
            urllib.request.urlopen(address)


def test_a_registry_that_cannot_be_one_keeps_it_from_starting() -> None:
    command = [*START, "--registry-url", "ftp://nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT.parent, check=False)
    assert done.returncode == 2
    assert "--registry" in done.stderr
    assert "ready" not in done.stdout
