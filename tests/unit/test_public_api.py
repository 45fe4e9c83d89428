"""The public face: what can be imported, what that loads, and that its types are public too."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from types import ModuleType

import pytest
from mypy import api

import ugm
from support.places import ROOT, TESTS, model_packages
from ugm.service.protocol.values import ANNOTATIONS

#: Every module that lists public names. The names of other modules are for ugm itself.
MODULES = [
    module
    for info in pkgutil.walk_packages(ugm.__path__, "ugm.")
    if not any(part.startswith("_") for part in info.name.split("."))
    and hasattr(module := importlib.import_module(info.name), "__all__")
]

#: The modules of the standard library whose classes occur in public signatures.
LIBRARY = ("builtins", "collections.abc", "fractions", "ssl", "types", "typing")

#: Everything that some module lists.
PUBLIC = {id(getattr(module, name)) for module in [ugm, *MODULES] for name in module.__all__}


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new interpreter."""
    program = f"import sys; sys.path[:] = {sys.path!r}; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    return set(done.stdout.split())


def signatures(name: str) -> list[tuple[str, object]]:
    """Return the functions that make up a public name: itself, or its public methods and properties."""
    thing = getattr(ugm, name)
    if not inspect.isclass(thing):
        return [(name, thing)] if inspect.isfunction(thing) else []
    members = [(f"{name}.{key}", value) for key, value in vars(thing).items() if key == "__init__" or key[0] != "_"]
    unwrapped = [(key, value.fget if isinstance(value, property) else value) for key, value in members]
    return [(key, getattr(value, "__func__", value)) for key, value in unwrapped if callable(value)]


def classes_in(annotation: object) -> set[type]:
    """Return the classes that an annotation is made of."""
    parts = {part for argument in typing.get_args(annotation) for part in classes_in(argument)}
    return parts | ({annotation} if inspect.isclass(annotation) else set())


@pytest.mark.parametrize("module", [ugm, *MODULES], ids=lambda module: module.__name__)
def test_all_is_importable(module: ModuleType) -> None:
    """Every module says what it gives, each name once, and gives it."""
    assert len(module.__all__) == len(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", ugm.__all__)
def test_public_names_have_docstrings(name: str) -> None:
    """Everything public says what it is."""
    assert inspect.getdoc(getattr(ugm, name))


@pytest.mark.parametrize("name", ugm.__all__)
def test_types_of_public_signatures_are_public(name: str) -> None:
    """Every class that a public signature names can be imported from a public module that lists it."""
    for where, function in signatures(name):
        hints = typing.get_type_hints(function, localns=ANNOTATIONS)
        # A function that is assigned as a method annotates its object with the parts that it uses.
        hints.pop("self", None)
        for argument, annotation in hints.items():
            for used in classes_in(annotation):
                listed = used.__module__ in LIBRARY or id(used) in PUBLIC
                assert listed, f"{where}, {argument}: {used}"


#: The packages of the kinds of quota models.
KINDS = {"ugm.kubernetes", *(f"ugm.{name}" for name in model_packages())}


@pytest.mark.parametrize(
    ("statement", "present", "absent"),
    [
        ("import ugm", {"ugm", "ugm._lazy"}, {"typing", "dataclasses", "logging", "ugm.errors", *KINDS}),
        ("import ugm; ugm.Manager()", set(), {"yaml", "hypothesis", "ugm.config"}),
        ("import ugm; ugm.elastic.ElasticQuota", {"ugm.elastic"}, set()),
        ("import ugm.partition; ugm.partition.Partition()", set(), {"yaml", "ugm.config", *KINDS}),
        ("import ugm; ugm.parse_config('partitions: [{queues: [{name: prod}]}]').partition()", {"ugm.config"}, KINDS),
    ],
)
def test_modules_are_loaded_when_used(statement: str, present: set[str], absent: set[str]) -> None:
    """A program loads yaml, the configuration and the kinds of quota models only if it uses them."""
    loaded = loaded_by(statement)

    assert present <= loaded
    assert not absent & loaded


def test_names_are_listed() -> None:
    """Completion offers the names that are not loaded yet."""
    program = "import ugm, ugm.tracking; print(*dir(ugm), *dir(ugm.tracking))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - our own program

    assert {*ugm.__all__, "GroupTracker"} <= set(done.stdout.split())


def test_version() -> None:
    """The version is that of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert ugm.__version__ == project["version"]


def test_unknown_attribute() -> None:
    """A name that is not there is an ordinary error."""
    with pytest.raises(AttributeError) as caught:
        ugm.nothing  # noqa: B018 - what is tested

    assert str(caught.value) == "module 'ugm' has no attribute 'nothing'"


def test_typed() -> None:
    """Type checkers read the package's own types."""
    assert (Path(ugm.__file__).parent / "py.typed").is_file()


@pytest.mark.ci
def test_face_as_a_type_checker_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every public operation has the types that it promises."""
    monkeypatch.setenv("MYPYPATH", str(Path(ugm.__file__).parent.parent))
    report, errors, status = api.run(
        ["--strict", "--config-file=", "--explicit-package-bases", str(TESTS / "typing" / "face.py")]
    )

    assert (report.splitlines()[-1:], errors, status) == (["Success: no issues found in 1 source file"], "", 0), report
