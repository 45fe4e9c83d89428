"""The browser, and tabs that must write nothing to their console."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from support.page_server import BROWSER, TIMEOUT


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the browser once."""
    if BROWSER is None:
        pytest.skip("no browser: the page is not tested; install Debian's package chromium, or name one in UGM_BROWSER")
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a tab that must write nothing to its console, and send requests only to the server."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(TIMEOUT)
    tab = context.new_page()
    found: list[str] = []
    tab.on("console", lambda message: found.extend(_console_text(message)))
    tab.on("pageerror", lambda error: found.append(str(error)))
    tab.on("request", lambda request: found.extend([request.url] if "//127.0.0.1:" not in request.url else []))
    yield tab
    context.close()
    assert found == []


def _console_text(message: ConsoleMessage) -> list[str]:
    # The browser logs every refused request; the page shows the refusal. The server of a test stops before its tab,
    # which may still load a file.
    is_refusal = "Failed to load resource" in message.text and re.search("/(api|ws)/v1/", message.location["url"])
    is_late = "ERR_CONNECTION_REFUSED" in message.text
    return [] if is_refusal or is_late else [f"{message.type}: {message.text}"]
