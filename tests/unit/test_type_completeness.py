"""The types of the public interface are complete for users of other type checkers than ours.

pyright looks at an installed package, and every name that is not private counts. The test therefore copies the package
into a virtual environment of its own, which finds the other packages through a path file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import ugm

pytestmark = pytest.mark.ci


def test_every_public_type_is_known(tmp_path: Path) -> None:
    """Pyright finds an unambiguous type for every public name, parameter and result."""
    environment = tmp_path / "environment"
    venv.create(environment)
    site = next(environment.glob("lib/python*/site-packages"))
    shutil.copytree(Path(ugm.__file__).parent, site / "ugm")
    others = [entry for entry in sys.path if Path(entry).name == "site-packages"]
    (site / "others.pth").write_text("\n".join(others), encoding="utf-8")
    search_path = os.pathsep.join((str(environment / "bin"), os.environ["PATH"]))
    command = [sys.executable, "-m", "pyright", "--verifytypes", "ugm", "--ignoreexternal", "--outputjson"]
    variables = {**os.environ, "PATH": search_path, "VIRTUAL_ENV": str(environment)}
    # The status is 1 if a type is incomplete, and the report says which one.
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    report = json.loads(done.stdout)["typeCompleteness"]
    incomplete = [
        f"{symbol['name']}: {finding['message']}"
        for symbol in report["symbols"]
        for finding in symbol["diagnostics"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    ]
    assert not incomplete, "\n".join(incomplete)
    assert report["completenessScore"] == 1
    assert len(report["symbols"]) > 1000
