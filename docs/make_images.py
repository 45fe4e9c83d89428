"""Make the pictures of the README: the terminal output of a replay, and the page that it writes.

    python docs/make_images.py

`rich` draws the terminal with the results of a real replay; only its duration differs between runs. Chromium takes the
screenshot of the page.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from ugm import load_config
from ugm.cli.report.page import page
from ugm.cli.report.terminal import render
from ugm.simulation import JobMapping, Recorder, Report, SwfHeader, parse_swf, read_swf, simulate

ROOT: Final = Path(__file__).parents[1]
IMAGES: Final = ROOT / "docs" / "images"
TERMINAL: Final = IMAGES / "terminal.svg"
PAGE: Final = IMAGES / "report.png"

WORKLOAD: Final = ROOT / "examples" / "grid.swf.gz"

#: Lines of each table; fewer than in a terminal.
TOP: Final = 3
COMMAND: Final = f"ugm simulate examples/grid.swf.gz --config examples/grid.yaml --top {TOP}"
TITLE: Final = "grid.swf.gz under grid.yaml"

WIDTH: Final = 80
#: Black, red, green, yellow, blue, magenta, cyan and white; then the bright variants, with grey as bright black.
_COLOURS: Final = [
    *((24, 28, 34), (240, 113, 105), (112, 190, 135), (224, 178, 92)),
    *((116, 170, 240), (200, 140, 220), (100, 190, 200), (214, 220, 228)),
]
THEME: Final = TerminalTheme((24, 28, 34), (214, 220, 228), _COLOURS, [(92, 102, 116), *_COLOURS[1:]])

#: The template for rich; unlike the default one, it downloads no font.
SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="A run of ugm simulate">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#181c22"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def replay() -> tuple[Report, Recorder, float]:
    """Return the report and the history of the bundled workload, and the seconds of a replay without a recorder."""
    config = load_config(str(ROOT / "examples" / "grid.yaml")).partition()
    # Processor time does not depend on the load of the machine.
    began = time.process_time()
    simulate(JobMapping().jobs(read_swf(WORKLOAD)), config)
    seconds, recorder = max(round(time.process_time() - began, 1), 0.1), Recorder()
    return simulate(JobMapping().jobs(read_swf(WORKLOAD)), config, recorder=recorder), recorder, seconds


def start_of_log() -> int | None:
    """Return the second since 1970 at which the bundled workload begins."""
    header = SwfHeader()
    with WORKLOAD.open("rb") as stream:
        next(parse_swf(stream, WORKLOAD.name, header))
    return header.start_time


def terminal(report: Report, seconds: float) -> str:
    """Draw the output of the command in a terminal."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
    )
    console.print(f"[bright_black]$[/] {COMMAND}", highlight=False)
    render(report, console, title=TITLE, seconds=seconds, top=TOP)
    drawn = console.export_svg(title="", theme=THEME, code_format=SVG, unique_id="run")
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


def photograph(report: Report, recorder: Recorder) -> None:
    """Take a screenshot of the first screen of the page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed: no screenshot was taken")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        file.write_text(page(report, recorder, title=TITLE, start=start_of_log()), encoding="utf-8")
        options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"]
        options += [f"--user-data-dir={folder}/profile", f"--screenshot={PAGE}", "--window-size=1280,1056"]
        subprocess.run([browser, *options, file.as_uri()], check=True, capture_output=True)  # noqa: S603 - an installed program


def main() -> None:
    """Make both pictures."""
    IMAGES.mkdir(exist_ok=True)
    report, recorder, seconds = replay()
    TERMINAL.write_text(terminal(report, seconds), encoding="utf-8")
    photograph(report, recorder)


if __name__ == "__main__":
    main()
