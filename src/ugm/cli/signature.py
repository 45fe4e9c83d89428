"""Options of commands, derived from the signatures and docstrings of the functions that execute them.

The annotation of a keyword argument gives the type of its option, its default the default, and the section ``Args`` of
the docstring its description. Truth values are flags. Tuples of any length are options that may be repeated, others
options with several values. `Annotated` adds the name of the option if it differs (a text that begins with ``-``), a
placeholder for its value (another text), a type of click, and a function that reads the texts of an option that may be
repeated. Further keyword arguments with the fields of a `TypedDict` are options without defaults.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Unpack, get_args, get_origin, get_type_hints

import click

#: Whether a command prints JSON.
JsonFlag: TypeAlias = Annotated[bool, "--json"]
#: The name of a partition.
PartitionName: TypeAlias = Annotated[str, "--partition", "NAME"]
#: A maximum number of rows.
Rows: TypeAlias = Annotated[int, "N", click.IntRange(1, 1000)]

_F = TypeVar("_F", bound=Callable[..., Any])
#: A description in the section of arguments.
_DESCRIPTION: Final = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def options(function: _F) -> _F:
    """Add an option to a function for each keyword argument that has none yet; click makes a command of it then."""
    text, _, section = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    function.__doc__ = text
    known = {one.name for one in getattr(function, "__click_params__", ())}
    descriptions, hints = dict(_DESCRIPTION.findall(section)), get_type_hints(function, include_extras=True)
    found: list[tuple[str, Any, Any]] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD and get_origin(hints[one.name]) is Unpack:
            more = get_type_hints(get_args(hints[one.name])[0], include_extras=True)
            found += [(name, hint, None) for name, hint in more.items()]
        elif one.kind is one.KEYWORD_ONLY and one.name not in known:
            found.append((one.name, hints[one.name], one.default))
    # Click lists the options in the reverse order of their decorators.
    for name, hint, default in reversed(found):
        settings = _settings(name, hint)
        if "callback" not in settings:
            settings |= {"required": True} if default is inspect.Parameter.empty else {"default": default}
        description = " ".join(descriptions.get(name, "").split())
        click.option(*settings.pop("names"), **settings, help=description)(function)
    return function


def _settings(name: str, hint: Any) -> dict[str, Any]:  # noqa: ANN401 - an annotation
    """Return the names of an option, and the arguments of ``click.option`` for its annotation."""
    parts = get_args(hint)
    if hasattr(hint, "__metadata__"):
        found = _settings(name, parts[0])
        for one in hint.__metadata__:
            if isinstance(one, click.ParamType):
                found["type"] = one
            elif callable(one):
                found |= {"type": str, "multiple": True, "callback": _callback(one)}
            else:
                found |= {"names": (one, name)} if one.startswith("-") else {"metavar": one}
        return found
    if NoneType in parts:
        return _settings(name, parts[0])
    if get_origin(hint) is tuple:
        more = {"multiple": True} if parts[-1] is Ellipsis else {"nargs": len(parts)}
        return {**_settings(name, parts[0]), **more}
    names = (f"--{name.replace('_', '-')}", name)
    if hint is bool:
        return {"names": names, "is_flag": True}
    return {"names": names, "type": click.Choice(parts) if get_origin(hint) is Literal else hint}


def _callback(read: Callable[[tuple[str, ...]], object]) -> Callable[[click.Context, click.Parameter, Any], object]:
    return lambda _ctx, _param, texts: read(texts)
