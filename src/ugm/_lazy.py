"""Names of packages that are loaded when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module

#: True for type checkers; the module `typing` takes long to import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable


def load(module: str, name: str) -> object:
    """Return a name of a module. The signature of a named tuple shows its types as they are written, for `help`.

    >>> load("ugm.model", "Claim").__new__.__annotations__["usage"]
    'Resource'
    """
    found = getattr(import_module(module), name)
    if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields"):
        for described in (found, found.__new__):
            hints = described.__annotations__
            described.__annotations__ = {name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()}
    return found


def on_first_use(package: str, modules: dict[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package that loads its names when they are first used.

    Args:
        package: the package.
        modules: the names that each module has, separated by spaces.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def load_name(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = load(module_of[name], name)
        setattr(sys.modules[package], name, found)
        return found

    return load_name, lambda: sorted({*vars(sys.modules[package]), *module_of})
