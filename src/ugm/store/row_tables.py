"""The tables of a store, derived from the types of the rows.

Each table of a partition is one SQL table. A field of a row is a column if its type is simple: a text, a number, a bool
or a member of an enumeration. A user is two columns, the name and the groups. Any other value is a column with JSON. So
a new field of a row type is described once, in its class.

The same types give the form of a row in a change: a list of its fields in their order. A shorter list comes from a
version with fewer fields, and the new fields get their defaults.

Rows are decoded by column and not one by one, because a store may have millions. Equal values of a column become one
object, which saves time and memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import partial
from operator import itemgetter
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple, TypeAlias, cast, final, get_args, get_origin, get_type_hints

from ugm._json_values import Json
from ugm.configuration import PartitionConfig
from ugm.configuration.fields import from_data, to_data
from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.model import BudgetChange
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.rows import (
    Allocation,
    ApplicationRow,
    Change,
    ConfigurationRow,
    NodeRow,
    PartitionRow,
    QueueRow,
    RequestRow,
)
from ugm.queues import Acl
from ugm.resources import Resource
from ugm.store.usage import CurrentUsage, UsageInterval

#: A row of an SQL table.
SqlRow: TypeAlias = tuple[Any, ...]


class SqlColumn(NamedTuple):
    """A column of an SQL table."""

    name: str
    #: ``text``, ``bigint``, ``boolean``, ``json`` or ``bytes``; each database has its own names for them.
    kind: str


# Values and JSON


def _plain(value: object) -> Json:
    """Return the form of a value that JSON does not have."""
    if isinstance(value, Resource):
        return value.amounts
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, UserGroup):
        return [value.name, value.groups]
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Acl):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be stored")


#: Named tuples become lists of their fields.
to_json: Final = json.JSONEncoder(
    default=_plain, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode


def _parser(kind: Any) -> Callable[[Json], Any]:  # noqa: ANN401 - any annotation
    """Return the function that makes a value of a type from JSON."""
    if kind in _PARSERS:
        return _PARSERS[kind]
    required, arguments = _required(kind), get_args(kind)
    if required is not kind:
        parse = _parser(required)
        return lambda value: None if value is None else parse(value)
    if get_origin(kind) is tuple:
        item = _parser(arguments[0])
        return lambda values: tuple(map(item, values))
    if arguments:
        item = _parser(arguments[1])
        return lambda values: MappingProxyType({name: item(value) for name, value in values.items()})
    return _class_parser(kind)


def _class_parser(kind: type) -> Callable[[Json], Any]:
    """Return the function that makes an object of a class from JSON."""
    if issubclass(kind, StrEnum):
        return kind
    parsers = {name: _parser(of) for name, of in get_type_hints(kind).items()}
    if issubclass(kind, tuple):
        in_order = list(parsers.values())
        return lambda values: kind(*[parse(value) for parse, value in zip(in_order, values, strict=False)])
    return lambda values: kind(**{name: parsers[name](value) for name, value in values.items()})


def _unchanged(value: Json) -> Any:  # noqa: ANN401 - any value
    return value


def _required(kind: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return a type without None."""
    arguments = get_args(kind)
    return next(one for one in arguments if one is not NoneType) if NoneType in arguments else kind


#: How values of these types are made from JSON.
_PARSERS: Final[Mapping[object, Callable[[Json], Any]]] = {
    **dict.fromkeys((str, int, bool, Any), _unchanged),
    Resource: Resource,
    UserGroup: lambda value: UserGroup(*value),
    Acl: Acl.parse,
    # An empty object stands for no configuration.
    CompiledConfig: lambda value: CompiledConfig.of(from_data(PartitionConfig, value) if value else None),
}


# Fields and columns


@final
class _Memo(dict[Any, Any]):
    """A function of the values of a column that is computed once for equal values; None stays None."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self._function: Final = function

    def __missing__(self, value: Any) -> Any:  # noqa: ANN401 - any value
        found = self[value] = self._function(value)
        return found


class _Field(NamedTuple):
    """A field of a row, with its columns."""

    columns: tuple[SqlColumn, ...]
    #: Returns the values of the columns.
    encode: Callable[[Any], SqlRow]
    #: Returns a function that decodes values of the columns, for one reading of the table; None to leave them.
    decoder: Callable[[], Callable[..., Any]] | None
    #: Makes the value from JSON.
    parse: Callable[[Json], Any]


def _field(name: str, kind: Any) -> _Field:  # noqa: ANN401 - any annotation
    """Return a field of an annotation."""
    parse, required = _parser(kind), _required(kind)
    if required is UserGroup:
        columns = (SqlColumn(name, "text"), SqlColumn(f"{name}_groups", "json"))
        return _Field(columns, lambda user: (user.name, to_json(user.groups)), lambda: _user, parse)
    if required is int:
        return _Field((SqlColumn(name, "bigint"),), lambda value: (value,), None, parse)
    if required is bool:
        # SQLite stores numbers.
        return _Field((SqlColumn(name, "boolean"),), lambda value: (value,), lambda: bool, parse)
    if isinstance(required, type) and issubclass(required, str):
        make = _unchanged if required is str else required
        return _Field((SqlColumn(name, "text"),), lambda value: (value,), lambda: _Memo(make).__getitem__, parse)
    return _Field(
        (SqlColumn(name, "json"),),
        lambda value: (None if value is None else to_json(value),),
        lambda: _Memo(lambda text: parse(json.loads(text))).__getitem__,
        parse,
    )


def _user(name: str, groups: str) -> UserGroup:
    return UserGroup(name, json.loads(groups))


@final
class RowTable:
    """A table of rows and its columns.

    Args:
        name: its name, in a partition and in SQL.
        key: the column of the keys; a field of this name is the key.
        types: the annotations of the fields.
        row_type: the class of the rows, a named tuple; None if a row is the value of the only field.
    """

    def __init__(self, name: str, key: str, types: Mapping[str, Any], row_type: type | None = None) -> None:
        self.name: Final = name
        self.key: Final = key
        self._fields: Final = [_field(*one) for one in types.items()]
        self._has_key_field: Final = key in types
        self._row_type: Final[Any] = row_type
        #: Whether rows are values of another package, whose old values nobody needs.
        self.is_opaque: Final = row_type is None
        own_key = () if self._has_key_field else (SqlColumn(key, "text"),)
        #: All columns besides the position.
        self.columns: Final = (*own_key, *(column for field in self._fields for column in field.columns))

    def prepare(self, row: Any) -> Sequence[Any]:  # noqa: ANN401 - a row of any table
        """Return the fields of a row as they are stored."""
        if type(row) is ConfigurationRow:
            return to_data(row.compiled.config) or {}, row.author
        return (row,) if self.is_opaque else cast("Sequence[Any]", row)

    def encode(self, key: str, row: Any) -> SqlRow:  # noqa: ANN401 - as above
        """Return the values of the columns."""
        own_key = () if self._has_key_field else (key,)
        values = zip(self._fields, self.prepare(row), strict=True)
        return own_key + tuple(column for field, value in values for column in field.encode(value))

    def decoder(self) -> Callable[[Sequence[SqlRow]], Iterator[tuple[str, Any]]]:
        """Return a function that returns keys and rows of the values of the columns, for one reading of the table."""
        parts = [(len(one.columns), one.decoder and one.decoder()) for one in self._fields]
        if self._has_key_field:
            # Keys differ, so remembering them would only take memory.
            parts[0] = (1, None)
        make = itemgetter(0) if self.is_opaque else partial(tuple.__new__, self._row_type)

        def decode(rows: Sequence[SqlRow]) -> Iterator[tuple[str, Any]]:
            columns = list(zip(*rows, strict=True))
            position, values = (0 if self._has_key_field else 1), []
            for count, function in parts:
                part = columns[position : position + count]
                values.append(map(function, *part) if function else part[0])
                position += count
            return zip(columns[0], map(make, zip(*values, strict=True)), strict=True)

        return decode

    def parse(self, values: Json) -> Any:  # noqa: ANN401 - a row of any table
        """Return the row of its form in a change; None for none."""
        if values is None:
            return None
        parsed = [field.parse(value) for field, value in zip(self._fields, values, strict=False)]
        return parsed[0] if self.is_opaque else self._row_type(*parsed)


# The tables


def _rows(name: str, key: str, row_type: Any) -> RowTable:  # noqa: ANN401 - a class of named tuples
    return RowTable(name, key, get_type_hints(row_type), row_type)


def _opaque(name: str, kind: Any) -> RowTable:  # noqa: ANN401 - any annotation
    return RowTable(name, "id", {"value": kind})


#: All tables of rows by name.
ROW_TABLES: Final[Mapping[str, RowTable]] = {
    table.name: table
    for table in (
        _rows("partition", "id", PartitionRow),
        _rows("configuration", "id", ConfigurationRow),
        _rows("node", "name", NodeRow),
        _rows("queue", "queue_path", QueueRow),
        _rows("application", "application_id", ApplicationRow),
        _rows("allocation", "allocation_id", Allocation),
        _rows("request", "allocation_id", RequestRow),
        # The last change of budgets by an operator.
        _opaque("budget", BudgetChange),
        # Those of a service; see `ugm.service.sessions`.
        _opaque("session", Mapping[str, Any]),
        _opaque("answer", Any),
        _opaque("owner", Any),
        _opaque("model", Mapping[str, Any]),
    )
}

#: The usage of applications in past intervals, and since the last one.
USAGE: Final = _rows("usage", "application_id", UsageInterval)
CURRENT_USAGE: Final = _rows("current_usage", "application_id", CurrentUsage)


# Changes

#: NUL in JSON: a backslash that is not escaped itself.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def has_nul(data: bytes) -> bool:
    """Return whether a text in JSON contains the character NUL, which PostgreSQL cannot store."""
    return b"\\u0000" in data and _NUL.search(data) is not None


def encode_changes(changes: Iterable[Change]) -> bytes:
    """Return the form of a list of changes in the table of changes.

    Raises:
        RequestError: a text has a character that databases cannot store, or a number is too long for Python to format.
    """
    try:
        data = to_json([_prepared(change) for change in changes]).encode()
    except ValueError as error:
        raise RequestError("changes", "...", f"it cannot be stored: {error}") from error
    if has_nul(data):
        raise RequestError("changes", "\0", "a text with this character cannot be stored")
    return data


def _prepared(change: Change) -> Change | Sequence[Any]:
    """Return a change with rows of simple values, as they are encoded."""
    table = ROW_TABLES[change.table]
    if change.table != "configuration" and not table.is_opaque:
        return change
    old, new = (None if row is None else table.prepare(row) for row in (change.old, change.new))
    return change.table, change.key, None if table.is_opaque else old, new, change.cause


def decode_changes(data: bytes) -> tuple[Change, ...]:
    """Return the changes of their form in the table of changes.

    Raises:
        ValueError: the form is not valid; or another error of decoding.
    """
    return tuple(
        Change(table, key, ROW_TABLES[table].parse(old), ROW_TABLES[table].parse(new), cause)
        for table, key, old, new, cause in json.loads(data)
    )
