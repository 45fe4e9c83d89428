"""Make the screenshot of a denial in JupyterHub in docs/images, with the hub of examples/jupyterhub.

    python docs/make_hub_screenshot.py

The script needs the packages of the tests, JupyterHub with configurable-http-proxy, and Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.hosts import processes  # noqa: E402 - found among the tests
from support.jupyter_hub import Hub, example  # noqa: E402 - as above
from support.page_server import BROWSER  # noqa: E402 - as above


def request_two_gpus(tab: Page, hub: Hub) -> None:
    """Let a user start a server with a GPU, and request another one."""
    tab.goto(f"{hub.address}/hub/login")
    tab.fill("#username_input", "ana")
    tab.fill("#password_input", "any")
    tab.click("#login_submit")
    tab.wait_for_url("**/hub/**")
    for path in ("ana", "ana/two"):
        tab.goto(f"{hub.address}/hub/spawn/{path}")
        tab.select_option("select[name=memory]", "2G")
        tab.select_option("select[name=gpu]", "1")
        tab.click("#spawn_form [type=submit]")
        tab.wait_for_load_state("networkidle")


def main() -> None:
    """Take the screenshot."""
    with processes() as owner, tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        hub = example(owner, Path(folder))
        hub.start()
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 400}, color_scheme="light")
        request_two_gpus(tab, hub)
        tab.get_by_text("Your limit allows 1 GPU").wait_for()
        tab.screenshot(path=HERE / "images" / "jupyterhub-denied.png")
        browser.close()


if __name__ == "__main__":
    main()
