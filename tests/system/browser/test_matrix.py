"""Every view in light and dark colours, on small and large screens, and in all states of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from support.page_server import CUT_OFF
from support.page_worlds import SCENARIOS, open_place, open_tab

pytestmark = pytest.mark.ci

#: Elements that are cut off with dots, and have no tooltip with the whole text.
_WITHOUT_TOOLTIP: Final = """() => [...document.querySelectorAll('#view *, #top *')].filter((e) => {
  const style = getComputedStyle(e);
  const isClipped = style.textOverflow === 'ellipsis' ? e.scrollWidth > e.clientWidth + 1
    : /[0-9]/.test(style.webkitLineClamp) && e.scrollHeight > e.clientHeight + 1;
  return e.offsetParent && isClipped && !e.matches('select, input') && !e.closest('[title], .unseen')
    && !e.querySelector('[title]');
}).map((e) => `${e.tagName}.${e.className}: ${e.textContent}`)"""
#: Parts of rows of the tree that are outside of their row.
_OUT_OF_ROW: Final = """() => [...document.querySelectorAll('.rows > .row > *')].filter((e) => {
  const [part, row] = [e.getBoundingClientRect(), e.parentElement.getBoundingClientRect()];
  return part.height && (part.bottom > row.bottom + 1.5 || part.top < row.top - 1.5);
}).map((e) => `${e.className}: ${e.textContent}`)"""
#: Lists without rows and without an explanation.
_SILENT: Final = """() => [...document.querySelectorAll('#view tbody, #view ol, #view .rows')]
  .filter((e) => e.offsetParent && !e.childElementCount).map((e) => e.outerHTML)"""
#: The number of elements that the Tab key reaches; of a tree grid it is one row.
_CONTROLS: Final = """() => [...document.querySelectorAll('a, button, input, select, summary, [tabindex="0"]')]
  .filter((e) => e.tabIndex >= 0 && e.checkVisibility() && !e.disabled).length"""
#: Record the elements that get the focus, and those of them whose focus cannot be seen.
_WATCH_FOCUS: Final = """() => {
  window.reached = new Set();
  window.unclear = [];
  addEventListener('focusin', ({target}) => {
    window.reached.add(target);
    const {outlineStyle, outlineWidth} = getComputedStyle(target);
    if (outlineStyle === 'none' || Number.parseFloat(outlineWidth) < 1) window.unclear.push(target.outerHTML);
  });
}"""


#: The views whose contrast axe measures in dark colours: they have every kind of text, mark and field.
_CONTRASTS: Final = frozenset(("queues/root.ml", "budgets", "applications/app-2", "alerts", "check", "configuration"))


class Look(NamedTuple):
    """A state of the server, and the window of the reader: 640 pixels are 1280 at a zoom of 200 %."""

    scenario: str
    scheme: Literal["light", "dark"]
    width: int
    #: Whether axe looks at every view, and the Tab key has to reach every control.
    is_thorough: bool = False


LOOKS: Final = [
    Look("full", "light", 1280, is_thorough=True),
    Look("full", "dark", 390),
    Look("empty", "dark", 640),
    *(
        pytest.param(Look(scenario, "light", 390, is_thorough=True), marks=pytest.mark.deep)
        for scenario in ("full", "empty", "refused")
    ),
]


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_views(browser: Browser, tmp_path: Path, look: Look) -> None:
    """No view breaks a rule of axe, is wider than the window, cuts off its content, or has an unexplained gap.

    The Tab key reaches every control of every view, and the focus is always visible.
    """
    scenario = SCENARIOS[look.scenario]
    tab = open_tab(browser, look.scheme, look.width)
    found, problems = list[str](), dict[str, dict[str, object]]()
    tab.on("pageerror", lambda error: found.append(str(error)))
    # The browser logs every refused or lost request; the page shows them.
    tab.on("console", lambda message: found.extend([] if "Failed to load" in message.text else [message.text]))
    with scenario.serve(tmp_path) as address:
        for place in scenario.places:
            open_place(tab, address, place)
            problems[place.name] = _problems(tab, look.width)
            if look.is_thorough or place.view in _CONTRASTS:
                axe = Axe().run(tab)
                problems[place.name]["axe"] = axe.generate_report() if axe.violations_count else ""
            if look.is_thorough:
                # Nothing may change while the keys are pressed.
                tab.get_by_role("button", name="Pause").click()
                problems[place.name] |= _unreached(tab)
            problems[place.name]["console"] = [*found]
            found.clear()
        tab.context.close()
    assert [(name, kind, some) for name, kinds in problems.items() for kind, some in kinds.items() if some] == []


def _problems(tab: Page, width: int) -> dict[str, object]:
    shown_width = tab.evaluate("document.documentElement.scrollWidth")
    return {
        "wider": shown_width if shown_width > width else 0,
        "cut off": tab.evaluate(CUT_OFF),
        "without tooltip": tab.evaluate(_WITHOUT_TOOLTIP),
        "out of row": tab.evaluate(_OUT_OF_ROW),
        "silent": tab.evaluate(_SILENT),
    }


def _unreached(tab: Page) -> dict[str, object]:
    tab.locator("body").evaluate("(body) => { body.tabIndex = -1; body.focus(); body.removeAttribute('tabindex'); }")
    tab.evaluate(_WATCH_FOCUS)
    controls: int = tab.evaluate(_CONTROLS)
    # A field for a time has a stop for each of its parts.
    parts = 7 * tab.locator('[type="datetime-local"]').count()
    for _ in range(controls + 1 + parts):
        tab.keyboard.press("Tab")
    reached: int = tab.evaluate("reached.size")
    return {"controls that are not reached": controls - reached, "focus that is not visible": tab.evaluate("unclear")}
