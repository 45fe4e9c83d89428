"""Make the picture of a denial in kubectl in docs/images.

    python docs/make_kubernetes_image.py

The denial is the answer of the webhook with the quotas of examples/kubernetes/config.yaml. The words around it are
those of the API server and of kubectl.
"""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Final

import yaml
from rich.console import Console

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from make_images import SVG, THEME, WIDTH  # noqa: E402 - found in this folder

from support.kubernetes_reviews import pod, review  # noqa: E402 - found among the tests
from ugm import Partition, parse_config  # noqa: E402 - as above
from ugm.integrations import Grants, Work  # noqa: E402 - as above
from ugm.integrations.kubernetes.admission import OwnerPolicy, PodAdmission  # noqa: E402 - as above
from ugm.integrations.kubernetes.reviews import review_of  # noqa: E402 - as above
from ugm.kubernetes import NamespaceTerms  # noqa: E402 - as above

PICTURE: Final = HERE / "images" / "kubernetes-denied.svg"
MANIFESTS: Final = HERE.parent / "examples" / "kubernetes"


async def find_namespace(name: str) -> NamespaceTerms:
    """Return a namespace without annotations."""
    return NamespaceTerms(name)


async def messages() -> list[str]:
    """Return what kubectl prints for two pods of a user, one after the other."""
    config = yaml.safe_load((MANIFESTS / "config.yaml").read_text("utf-8"))["data"]["quota.yaml"]
    [webhook] = yaml.safe_load((MANIFESTS / "webhook.yaml").read_text("utf-8"))["webhooks"]
    grants = Grants(Partition(parse_config(config).partition()), "kubernetes")
    await grants.reconcile(lambda _: Work())
    admission = PodAdmission(grants, find_namespace, OwnerPolicy())
    lines = []
    for name in ("train", "tune"):
        made = pod("2", name=name, requests={"nvidia.com/gpu": "1"})
        answer = await admission.answer(review_of(review(made))[0])
        if answer["allowed"]:
            lines.append("".join(f"Warning: {text}\n" for text in answer["warnings"]) + f"pod/{name} created")
        else:
            status = answer["status"]
            head = f'Error from server ({status["reason"]}): error when creating "{name}.yaml": admission webhook'
            lines.append(f'{head} "{webhook["name"]}" denied the request: {status["message"]}')
    return lines


def draw() -> str:
    """Draw a terminal."""
    file = io.StringIO()
    console = Console(record=True, width=WIDTH, file=file, force_terminal=True, color_system="standard")
    for name, line in zip(("train", "tune"), asyncio.run(messages()), strict=True):
        console.print(f"[bright_black]$[/] kubectl apply -f {name}.yaml", highlight=False)
        console.print(line, highlight=False, markup=False)
    template = SVG.replace("A run of ugm simulate", "A denial in kubectl")
    drawn = console.export_svg(title="", theme=THEME, code_format=template, unique_id="kubectl")
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
