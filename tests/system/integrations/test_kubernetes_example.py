"""The example of Kubernetes: its manifests, its script, and the page about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from support.hosts import free_ports
from support.places import DOCS, EXAMPLES
from ugm import parse_config
from ugm.integrations.kubernetes.admission import EXEMPT
from ugm.integrations.kubernetes.reviews import TEMPLATES

pytestmark = pytest.mark.hosts

FOLDER: Final = EXAMPLES / "kubernetes"
PAGE: Final = (DOCS / "howto" / "kubernetes-webhook.md").read_text("utf-8")
CONSOLE: Final = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MANIFESTS: Final = sorted(FOLDER.glob("*.yaml"))


def objects(name: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest."""
    return [*yaml.safe_load_all((FOLDER / name).read_text("utf-8"))]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_manifests_are_valid(file: Path, version: str) -> None:
    """Every object has only fields of the schema, from the first supported version of Kubernetes on."""
    for manifest in objects(file.name):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_webhook_is_asked_for_what_it_decides() -> None:
    """The rules name all workloads, and exempt the namespaces that the webhook exempts."""
    [webhook] = objects("webhook.yaml")[0]["webhooks"]
    asked = {(group, name) for rule in webhook["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    workloads = {(group, f"{kind.lower()}s") for group, kind in TEMPLATES}
    assert asked == {("", "pods"), ("", "pods/resize"), *workloads}
    assert {*webhook["namespaceSelector"]["matchExpressions"][0]["values"]} == EXEMPT
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 5, "NoneOnDryRun")


def test_options_of_the_deployment() -> None:
    """The arguments in the Deployment are options of the command, which the page names, and its files are mounted."""
    container = objects("deployment.yaml")[1]["spec"]["template"]["spec"]["containers"][0]
    shown = _run([sys.executable, "-m", "ugm.integrations.kubernetes", "--help"])
    assert set(re.findall(r"^ +(--[a-z-]+)", shown, re.MULTILINE)) - {"--help"} <= set(re.findall(r"--[a-z-]+", PAGE))
    assert all(argument.partition("=")[0] in shown for argument in container["args"][1:])
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = [argument.partition("=")[2] or argument for argument in container["args"]]
    assert {str(Path(file).parent) for file in files if file.startswith("/")} == mounts


def test_limits_of_the_config_map() -> None:
    """The quotas are a configuration without warnings."""
    [manifest] = objects("config.yaml")
    assert parse_config(manifest["data"]["quota.yaml"]).partition().queues


def test_the_script(tmp_path: Path) -> None:
    """The script prints what the page shows."""
    [port] = free_ports(1)
    environment = {**os.environ, "UGM_EXAMPLE": str(tmp_path), "PYTHON": sys.executable, "PYTHONPATH": _modules()}
    printed = _run(["bash", str(FOLDER / "run.sh"), str(port)], environment)
    assert f"$ bash examples/kubernetes/run.sh\n{printed}" == CONSOLE[0]


def test_commands_of_the_page() -> None:
    """The commands name files that exist, or that the script for the certificate makes."""
    for file in re.findall(r"[\w-]+\.(?:yaml|sh)", CONSOLE[1]):
        assert (FOLDER / file).is_file()
    assert {"tls.crt", "tls.key"} == set(re.findall(r"tls\.\w+", CONSOLE[1]))
    assert "CA_BUNDLE" in CONSOLE[1]
    assert objects("webhook.yaml")[0]["webhooks"][0]["clientConfig"]["caBundle"] == "CA_BUNDLE"


def test_certificate(tmp_path: Path) -> None:
    """The certificate is for the name by which the API server calls the webhook."""
    _run(["bash", str(FOLDER / "certificate.sh"), str(tmp_path)])
    service = objects("webhook.yaml")[0]["webhooks"][0]["clientConfig"]["service"]
    shown = _run(["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", str(tmp_path / "tls.crt")])
    assert f"DNS:{service['name']}.{service['namespace']}.svc" in shown


def _modules() -> str:
    return os.pathsep.join(part for part in sys.path if part)


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    given = environment or {**os.environ, "PYTHONPATH": _modules()}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    return done.stdout
