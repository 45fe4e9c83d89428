"""Make the picture of a rejected cluster: what `examples/skypilot/run.sh` prints.

    python docs/make_skypilot.py

`rich` draws what SkyPilot has really printed. The script needs the packages of the tests.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from itertools import takewhile
from typing import Final

from make_images import IMAGES, ROOT, SVG, THEME
from rich.console import Console
from rich.text import Text

sys.path.insert(0, str(ROOT / "tests"))

from support.hosts import free_ports

PICTURE: Final = IMAGES / "skypilot-rejected.svg"
COMMAND: Final = "sky launch --cluster train --gpus A100:8 --num-nodes 2 'python train.py'"
LABEL: Final = "The output of sky launch: the limit of the user, the amounts, and what can help"


def transcript() -> list[str]:
    """Return what the command of the example prints."""
    port, own = map(str, free_ports(2))
    example = subprocess.Popen(  # noqa: S603 - the example
        [ROOT / "examples" / "skypilot" / "run.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "UGM_EXAMPLE_PORT": port, "SKYPILOT_API_SERVER_LOCAL_PORT": own},
    )
    try:
        lines = takewhile(lambda line: not line.startswith("SkyPilot asks"), example.stdout or ())
        return [line.replace(port, "8090") for line in lines]
    finally:
        example.terminate()
        example.wait()


def draw(lines: list[str]) -> str:
    """Draw a terminal with the output."""
    console = Console(
        record=True, width=96, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
    )
    console.print(Text.assemble(("$ ", "bright_black"), COMMAND))
    for line in lines:
        console.print(Text.from_ansi(line.rstrip()))
    template = SVG.replace("A run of ugm simulate", LABEL)
    drawn = console.export_svg(title="", theme=THEME, code_format=template, unique_id="launch")
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


if __name__ == "__main__":
    PICTURE.write_text(draw(transcript()), encoding="utf-8")
