"""The operations of a partition: each is described once, and every kind of partition has it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

import ugm
from ugm import Partition
from ugm.partition import AbstractPartition
from ugm.service.remote import RemotePartition
from ugm.store import StoredPartition

#: Every implementation of the interface.
IMPLEMENTATIONS: Final = (Partition, StoredPartition, RemotePartition)
#: The declared operations and properties by name.
DECLARED: Final = {
    name: inspect.getattr_static(AbstractPartition, name)
    for name in dir(AbstractPartition)
    # Each implementation holds something else that `close` releases.
    if not name.startswith("_") and name != "close"
}
#: Operations of one implementation that cannot be called through the interface.
OWN: Final = {
    Partition: {"load", "replace_model", "scheduling_pass", "waiting_list", "wake"},
    StoredPartition: {
        "load",
        "replace_model",
        "scheduling_pass",
        "waiting_list",
        "wake",
        "promise",
        "awaited",
    },
    # It refuses them.
    RemotePartition: {"scheduling_pass", "waiting_list", "wake"},
}


def parameters_of(member: object) -> list[tuple[str, object, object, object]]:
    """Return the parameters of an operation without the object, and its result, as they are written."""
    function = member.fget if isinstance(member, property) else member
    assert callable(function)
    signature = inspect.signature(function)
    listed = [(one.name, one.kind, one.default, one.annotation) for one in signature.parameters.values()]
    return [*listed[1:], ("return", None, None, signature.return_annotation)]


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("implementation", [RemotePartition])
def test_signature_and_docstring(implementation: type[AbstractPartition], name: str) -> None:
    """An operation has the declared signature, and the declared docstring."""
    member = inspect.getattr_static(implementation, name)
    assert member is not DECLARED[name]
    assert parameters_of(member) == parameters_of(DECLARED[name])
    assert inspect.getdoc(getattr(implementation, name)) == inspect.getdoc(DECLARED[name]) is not None


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_further_operations(implementation: type[AbstractPartition]) -> None:
    """An implementation has no public operation outside of the interface but those that only make sense there."""
    found = {name for name in dir(implementation) if not name.startswith("_")}
    assert found - DECLARED.keys() - {"close"} == OWN[implementation]
    assert not inspect.isabstract(implementation)


def test_docstrings_are_written_once() -> None:
    """No function in ugm has a second copy of the docstring of an operation."""
    declared = {(name, inspect.getdoc(member)) for name, member in DECLARED.items()}
    copies = [
        (file.name, node.lineno)
        for file in sorted(Path(ugm.__file__).parent.rglob("*.py"))
        if file.parent.name != "interface"
        for node in functions_with(declared, file.read_text(encoding="utf-8"))
    ]
    assert copies == []


def functions_with(docstrings: Collection[tuple[str, str | None]], source: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module that have one of the named docstrings."""
    # Few modules contain the name and the first line of one, and to parse all modules takes long.
    if not any(f"def {name}(" in source and (text or "").partition("\n")[0] in source for name, text in docstrings):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and (node.name, ast.get_docstring(node)) in docstrings:
            yield node
