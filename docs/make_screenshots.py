"""Make the screenshots of the web page in docs/images.

    python docs/make_screenshots.py
    python docs/make_screenshots.py FOLDER [SCENARIO...]

They show the demo at one moment of its workload, and a partition with 10,000 users. The second form makes those of
every view in every state of a server, in light and dark colours and four sizes, for a reader to look at. The script
needs the packages of the tests, and Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from ugm.cli import demo

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.page_server import BROWSER, TIMEOUT, crowd, served  # noqa: E402 - found among the tests
from support.page_worlds import SCENARIOS, WIDTHS, open_place, open_tab  # noqa: E402 - found among the tests


class Picture(NamedTuple):
    """A view of the page, and the size and colours of its screenshot."""

    name: str
    view: str
    scheme: str = "light"
    width: int = 1280
    height: int = 800


OF_DEMO = (
    Picture("page-light", "queues/root.site1"),
    Picture("page-dark", "users/user1", scheme="dark"),
    Picture("page-elastic", "elastic", height=560),
    Picture("page-quota", "quota/site7", scheme="dark", height=760),
    Picture("page-waiting", "waiting", height=700),
    Picture("page-denials", "denials", height=600),
    Picture("page-narrow", "queues", width=390, height=720),
)
OF_CROWD = (Picture("page-crowd", "users?search=user12"),)


def take(browser: Browser, address: str, pictures: Iterable[Picture]) -> None:
    """Take screenshots of the page of one server."""
    for picture in pictures:
        context = browser.new_context(
            viewport={"width": picture.width, "height": picture.height},
            color_scheme="dark" if picture.scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(TIMEOUT)
        tab = context.new_page()
        tab.goto(f"{address}#/default/{picture.view}")
        tab.locator("#heading").wait_for()
        tab.locator("#detail-heading" if "/" in picture.view else ".tree, table, .denials").first.wait_for()
        tab.wait_for_timeout(300)
        tab.screenshot(path=HERE / "images" / f"{picture.name}.png")
        context.close()


def take_all(browser: Browser, folder: Path, names: Iterable[str]) -> None:
    """Take screenshots of every view in some states of a server."""
    for name in names:
        scenario = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as temporary, scenario.serve(Path(temporary)) as address:
            for scheme, width in product(("light", "dark"), WIDTHS):
                tab = open_tab(browser, "dark" if scheme == "dark" else "light", width)
                for number, place in enumerate(scenario.places):
                    open_place(tab, address, place)
                    path = folder / f"{name}-{scheme}-{width}-{number:02}-{place.name}.png"
                    tab.screenshot(path=path, full_page=True)
                tab.context.close()


def main(folder: str = "", *names: str) -> None:
    """Take the screenshots of the documentation, or all of them into a folder."""
    if folder:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            Path(folder).mkdir(parents=True, exist_ok=True)
            take_all(browser, Path(folder), names or SCENARIOS)
            browser.close()
        return
    replay, history = demo.create_demo()
    replay.run(demo.START)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        with served(replay.partition, history) as address:
            take(browser, address, OF_DEMO)
        with served(*crowd(3000, 10_000)) as address:
            take(browser, address, OF_CROWD)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
