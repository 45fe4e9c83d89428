"""The recorded wire forms of all operations, to notice a change that needs a new version of the messages.

Print the current forms to record them: `PYTHONPATH=tests python tests/support/wire_forms.py > FILE`.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Final, get_type_hints

from ugm.partition import AbstractPartition
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.snapshot_parts import SnapshotParts
from ugm.service.operations import OPERATIONS
from ugm.service.session_interface import AbstractSessions
from ugm.service.shapes import ARGUMENTS, RESULTS
from ugm.service.wire import VERSION

__all__ = ["RECORDED", "current_forms", "declaration", "hints_of", "parameters_of"]

RECORDED: Final = Path(__file__).parents[1] / "vectors" / "service" / "operations.txt"


def declaration(name: str) -> Any:  # noqa: ANN401 - a function
    """Return the function that declares an operation."""
    interface = AbstractSessions if hasattr(AbstractSessions, name) else AbstractPartition
    member: Any = inspect.getattr_static(interface, name)
    return getattr(member, "fget", member)


def parameters_of(name: str) -> list[inspect.Parameter]:
    """Return the parameters of an operation that are sent."""
    return [] if name == "snapshot" else list(inspect.signature(declaration(name)).parameters.values())[1:]


def hints_of(name: str) -> dict[str, Any]:
    """Return the annotations of the parameters of an operation, and that of its result as ``return``."""
    hints = get_type_hints(declaration(name))
    return {**hints, "return": tuple[CompiledConfig, SnapshotParts]} if name == "snapshot" else hints


def current_forms() -> str:
    """Return a line with the version, and one with the plain types of each operation."""
    lines = [f"version {VERSION}"]
    for name, operation in OPERATIONS.items():
        hints = hints_of(name)
        sent = ", ".join(_text(ARGUMENTS.of(hints[one.name]).plain) for one in parameters_of(name))
        lines.append(f"{operation.number} {name}({sent}) -> {_text(RESULTS.of(hints['return']).plain)}")
    return "\n".join(lines) + "\n"


def _text(plain: Any) -> str:  # noqa: ANN401 - a type
    return inspect.formatannotation(plain).replace("typing.", "")


if __name__ == "__main__":
    print(current_forms(), end="")  # noqa: T201 - the purpose of the program
