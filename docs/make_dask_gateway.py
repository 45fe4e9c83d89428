"""Make the picture of a denial in Dask Gateway: the session of a user with the gateway of examples/dask_gateway.

    python docs/make_dask_gateway.py

`rich` draws what the session has really printed. The script needs the packages of the tests. Of tracebacks, the session
shows the last line only, and the address is that of the example.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from make_images import IMAGES, ROOT, SVG, THEME
from rich.console import Console
from rich.text import Text

sys.path.insert(0, str(ROOT / "tests"))

from support.hosts import free_ports, processes, wait_until

PICTURE: Final = IMAGES / "dask-gateway-denied.svg"
ADDRESS: Final = "http://127.0.0.1:8000"
LABEL: Final = "A session of a user of Dask Gateway: a warning about workers that wait, and a denied cluster"

#: Runs statements like the prompt of Python.
SESSION: Final = """
import code, sys, warnings
sys.tracebacklimit = 0
warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\\n"
prompt = code.InteractiveInterpreter()
for line in sys.argv[1].splitlines():
    if not line.startswith("#"):
        print(">>>", line, flush=True)
    prompt.runsource(line.removeprefix("#"))
"""
STATEMENTS: Final = """\
#import time
from dask_gateway import BasicAuth, Gateway
gateway = Gateway("{address}", auth=BasicAuth("ana"))
cluster = gateway.new_cluster()
cluster.scale(3)
#cluster.get_client().wait_for_workers(3)
cluster.scale(5)
gateway.new_cluster()
#cluster.shutdown()
#gateway.close()
"""


def transcript() -> str:
    """Return what the session prints."""
    port, private = free_ports(2)
    with tempfile.TemporaryDirectory() as temporary, processes() as owner:
        folder = Path(temporary)
        for name in ("dask_gateway_config.py", "quota.yaml"):
            shutil.copy(ROOT / "examples" / "dask_gateway" / name, folder)
        server = Path(sys.executable).parent / "dask-gateway-server"
        options = [f"--Proxy.address=127.0.0.1:{port}", f"--DaskGateway.address=127.0.0.1:{private}"]
        gateway = owner.start(
            [server, "-f", "dask_gateway_config.py", *options],
            folder / "log",
            environment={"DASK_GATEWAY_ENCRYPT_KEYS": "A" * 43 + "="},
        )
        wait_until(lambda: "200 GET /api/v1/routes" in gateway.output(), "the gateway answers")
        address = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", SESSION, STATEMENTS.format(address=address)]
        done = subprocess.run(  # noqa: S603 - our own program
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, env={**os.environ}
        )
        return done.stdout.replace(address, ADDRESS)


def draw(session: str) -> str:
    """Draw a session in a terminal."""
    console = Console(
        record=True, width=96, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
    )
    for line in session.splitlines():
        kind, mark, rest = line.partition(": ")
        if line.startswith(">>> "):
            console.print(Text.assemble((">>> ", "bright_black"), line[4:]))
        elif mark and kind.isidentifier():
            console.print(Text.assemble((kind, "yellow" if kind.endswith("Warning") else "red"), mark, rest))
    template = SVG.replace("A run of ugm simulate", LABEL)
    drawn = console.export_svg(title="", theme=THEME, code_format=template, unique_id="session")
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


if __name__ == "__main__":
    PICTURE.write_text(draw(transcript()), encoding="utf-8")
