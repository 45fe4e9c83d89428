"""Values as JSON: the arguments and results of operations, and errors.

msgspec encodes and decodes all types of the interface by their annotations: texts, numbers, tuples, named tuples (as
arrays), dataclasses (as objects) and enumerations. This module adds the few classes that it does not know.

A receiver accepts arrays that are longer than its own type, and unknown names in objects. So a neighbouring version may
add fields at the end.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache, lru_cache
from importlib import import_module
from itertools import count
from types import UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, final, get_args, get_origin, get_type_hints

import msgspec

import ugm.errors
import ugm.service.errors
import ugm.store.database
from ugm.arguments import require_instance
from ugm.configuration import PartitionConfig
from ugm.configuration.fields import from_data, to_data
from ugm.decision import ALLOWED, LimitRise, Violation
from ugm.errors import RequestError, UgmError, printable, value_text
from ugm.identity import UserGroup
from ugm.model import AccountState
from ugm.partition import AllocationRequest, ConfigPlan
from ugm.partition.answers.snapshot import PartitionSnapshot, SnapshotParts
from ugm.partition.config.compiled import CompiledConfig
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.queues import Acl
from ugm.resources import Resource
from ugm.service.errors import ProtocolError, ServiceError

_LOGGER: Final = logging.getLogger(__name__)

#: Larger vectors are not cached, which bounds the memory of the cache.
_MOST_CACHED_NAMES: Final = 8
#: The maximum size of an argument of an error in bytes, and of the text of an unexpected one.
_LARGEST: Final = 4096
_LONGEST: Final = 1000


class _Names(dict[str, object]):
    """The names in the annotations of the interface, which it does not import: each is looked up when it is needed."""

    def __missing__(self, name: str) -> object:
        for package in ("partition", "decision", "preemption", "queues", "tracking", "model", "configuration"):
            found: object = getattr(import_module(f"ugm.{package}"), name, None)
            if found is not None:
                return found
        raise KeyError(name)


#: For `typing.get_type_hints` of the methods of a partition.
ANNOTATIONS: Final = _Names(Resource=Resource, UserGroup=UserGroup)


# Classes that msgspec does not know


@lru_cache(maxsize=4096)
def _cached_resource(items: tuple[tuple[str, int], ...]) -> Resource:
    return Resource(dict(items))


def _resource(amounts: Mapping[str, int]) -> Resource:
    """Return a vector; equal ones are usually one object, because the engine caches values in a vector."""
    return _cached_resource(tuple(amounts.items())) if len(amounts) <= _MOST_CACHED_NAMES else Resource(amounts)


def _simplified(value: object) -> object:
    """Return a value of a class that msgspec does not know, as one that it knows."""
    if isinstance(value, Resource):
        return value.amounts
    if isinstance(value, UserGroup):
        return value.name, value.groups
    if isinstance(value, (Acl, Fraction)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _completed(kind: type, value: Any) -> object:  # noqa: ANN401 - any JSON
    """Return the object of a class that msgspec does not know."""
    if kind is Resource and isinstance(value, dict):
        return _resource(value)
    if kind is UserGroup:
        return UserGroup(*msgspec.convert(value, tuple[str, tuple[str, ...]]))
    if kind is Acl:
        return Acl.parse(value)
    if kind is Fraction:
        return Fraction(value)
    if get_origin(kind) is Iterable:
        return msgspec.convert(value, list[_wire_hint(get_args(kind)[0])], dec_hook=_completed)  # type: ignore[misc]  # at run time
    raise TypeError(f"expected a {kind.__name__}")


#: Returns the JSON of a value.
encode: Final = msgspec.json.Encoder(enc_hook=_simplified).encode


# Values that are sent in another form


class _Form(NamedTuple):
    """The form in which values of an annotation are sent."""

    hint: Any
    to_form: Callable[[Any], object]
    from_form: Callable[[Any], object]


def _config_text(config: PartitionConfig | None) -> str:
    return encode(to_data(config)).decode()


def _config(data: Any) -> PartitionConfig | None:  # noqa: ANN401 - any JSON
    return None if data is None else from_data(PartitionConfig, data)


@lru_cache(maxsize=4)
def _compiled(text: str) -> CompiledConfig:
    return CompiledConfig.of(_config(msgspec.json.decode(text)))


#: A configuration with the entries of its schedule that are in force. The text is cached.
_CompiledForm: Any = tuple[str, tuple[int | None, ...] | None]


def _compiled_form(compiled: CompiledConfig) -> object:
    return _config_text(compiled.config), compiled.active


def _from_compiled(form: tuple[str, tuple[int | None, ...] | None]) -> CompiledConfig:
    return _compiled(form[0]).with_active(form[1])


def _require_config(config: object) -> object:
    if not isinstance(config, PartitionConfig | None):
        raise RequestError("config", config, "expected a value of type PartitionConfig | None")
    return to_data(config)


#: The fields of a plan that need no form.
_EFFECTS: Final = {name: hint for name, hint in get_type_hints(ConfigPlan).items() if hint is not CompiledConfig}


def _plan_form(plan: object) -> tuple[object, ...]:
    checked = require_instance("plan", plan, ConfigPlan)
    effects = (getattr(checked, name) for name in _EFFECTS)
    return _compiled_form(checked.base), _compiled_form(checked.compiled), *effects


def _plan(form: tuple[Any, ...]) -> ConfigPlan:
    base, compiled, *effects = form
    values = dict(zip(_EFFECTS, effects, strict=True))
    return ConfigPlan(base=_from_compiled(base), compiled=_from_compiled(compiled), **values)


def _pair(plan: object) -> tuple[object, object]:
    return (None, plan) if isinstance(plan, ReductionPlan) else (plan, None)


#: By the annotation of a parameter or of a result.
_FORMS: Final[Mapping[Any, _Form]] = {
    PartitionConfig | None: _Form(Any, _require_config, _config),
    ConfigPlan: _Form(tuple[(_CompiledForm, _CompiledForm, *_EFFECTS.values())], _plan_form, _plan),  # type: ignore[misc]  # made at run time
    PreemptionPlan | ReductionPlan: _Form(
        tuple[PreemptionPlan | None, ReductionPlan | None], _pair, lambda form: form[1] if form[0] is None else form[0]
    ),
    PartitionSnapshot: _Form(
        tuple[_CompiledForm, SnapshotParts],
        lambda snapshot: (_compiled_form(snapshot.compiled), snapshot.parts),
        lambda form: PartitionSnapshot(_from_compiled(form[0]), form[1]),
    ),
    tuple[AccountState, ...]: _Form(
        list[dict[str, Any]],
        lambda accounts: [one.to_dict() for one in accounts],
        lambda form: tuple(map(AccountState.from_dict, form)),
    ),
}


# Exceeded limits: quota models have classes of their own, which a client may not have


@final
class _ModelViolation(Violation):
    """A violation of another class: the leader sends what the class has computed."""

    can_wait: bool = False
    rise: LimitRise | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text


#: What is sent of violations of other classes, in the order of their occurrence: the number of the violation in the
#: result, `can_wait`, the text, and the change that helps.
_Special: TypeAlias = tuple[int, bool, str, tuple[int, int | None] | None]


def _rebuilt(value: Any, change: Callable[[Violation], Violation]) -> Any:  # noqa: ANN401 - any value
    """Return a value in which a function has changed the violations."""
    kind = type(value)
    if isinstance(value, Violation):
        return change(value)
    if isinstance(value, (tuple, list)):
        items: list[Any] = [_rebuilt(one, change) for one in value]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if kind is dict:
        return {key: _rebuilt(one, change) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        fields = {one.name: _rebuilt(getattr(value, one.name), change) for one in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)  # type: ignore[type-var]  # not a class
    return value


def _special_violations(result: object) -> list[_Special]:
    """Return what a client cannot compute."""
    found: list[_Special] = []
    numbers = count()

    def note(one: Violation) -> Violation:
        number = next(numbers)
        if type(one) is not Violation:
            found.append((number, one.can_wait, str(one), one.rise))
        return one

    _rebuilt(result, note)
    return found


def _with_special(result: object, special: Iterable[_Special]) -> object:
    """Return a decoded result with its special violations."""
    known: dict[int, Any] = {number: rest for number, *rest in special}
    numbers = count()

    def complete(one: Violation) -> Violation:
        rest = known.get(next(numbers))
        if rest is None:
            return one
        made = tuple.__new__(_ModelViolation, one)
        made.can_wait, made.text, made.rise = rest[0], rest[1], rest[2] and LimitRise(*rest[2])
        return made

    return _rebuilt(result, complete)


# Codecs


def _parts(hint: Any) -> Iterator[Any]:  # noqa: ANN401 - an annotation
    """Yield the annotations within an annotation: of the items, or of the fields."""
    yield from get_args(hint)
    if isinstance(hint, type) and (hasattr(hint, "_fields") or dataclasses.is_dataclass(hint)):
        yield from get_type_hints(hint, localns=ANNOTATIONS).values()


def _mentions_violations(hint: Any, seen: set[Any]) -> bool:  # noqa: ANN401 - as above
    if hint in seen:
        return False
    seen.add(hint)
    return hint is Violation or any(_mentions_violations(part, seen) for part in _parts(hint))


def _wire_hint(hint: Any) -> Any:  # noqa: ANN401 - as above
    """Return an annotation as msgspec accepts it."""
    if get_origin(hint) in (Union, UnionType):
        records = [one for one in get_args(hint) if hasattr(one, "_fields")]
        if records and any(get_origin(one) is tuple for one in get_args(hint)):
            # A tuple of the first fields is enough.
            return records[0]
    return hint


def _shortened(value: Any, hint: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON without the items that a later version has added to arrays."""
    parts = [one for one in _parts(hint) if one is not ...]
    if isinstance(value, list) and parts:
        is_record = hasattr(hint, "_fields") or (get_origin(hint) is tuple and ... not in get_args(hint))
        kinds = parts if is_record else parts * len(value)
        return [_shortened(*one) for one in zip(value, kinds, strict=False)]
    if isinstance(value, (list, dict)) and get_origin(hint) in (Union, UnionType):
        return _shortened(value, next((one for one in parts if list(_parts(one))), hint))
    if isinstance(value, dict) and dataclasses.is_dataclass(hint):
        kinds_by_name = get_type_hints(hint, localns=ANNOTATIONS)
        return {key: _shortened(one, kinds_by_name.get(key)) for key, one in value.items()}
    if isinstance(value, dict) and parts:
        return {key: _shortened(one, parts[-1]) for key, one in value.items()}
    return value


@final
class ValueCodec:
    """The codec of the values of an annotation."""

    def __init__(self, hint: Any) -> None:  # noqa: ANN401 - an annotation
        self._form: Final = _FORMS.get(hint)
        #: The annotation for msgspec.
        self.hint: Final = _wire_hint(hint) if self._form is None else self._form.hint
        #: Returns the form of JSON, or raises a ValueError.
        self.decode_strictly: Final = msgspec.json.Decoder(self.hint, dec_hook=_completed).decode
        self._has_violations: Final = _mentions_violations(self.hint, set())

    @property
    def is_converted(self) -> bool:
        """True if values are sent in another form."""
        return self._form is not None

    def to_wire(self, value: object) -> object:
        """Return a value in the form in which it is sent."""
        return value if self._form is None else self._form.to_form(value)

    def from_wire(self, value: object) -> object:
        """Return the value of a decoded form."""
        return value if self._form is None else self._form.from_form(value)

    def encode(self, value: object) -> bytes:
        """Return the JSON of a value, followed by a comma and that of the special violations if there are any."""
        form = value if self._form is None else self._form.to_form(value)
        data = encode(form)
        special = self._has_violations and value != ALLOWED and _special_violations(form)
        return b"%b,%b" % (data, encode(special)) if special else data

    def decode(self, data: msgspec.Raw | bytes, special: Iterable[_Special] = ()) -> Any:  # noqa: ANN401 - the value
        """Return the value of JSON, with its special violations.

        Raises:
            ProtocolError: it is not such a value.
        """
        try:
            try:
                value = self.decode_strictly(data)
            except msgspec.ValidationError:
                plain = _shortened(msgspec.json.decode(data), self.hint)
                value = msgspec.convert(plain, self.hint, dec_hook=_completed)
            if special:
                value = _with_special(value, special)
            if self._form is not None:
                value = self._form.from_form(value)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ProtocolError("malformed", f"an answer cannot be decoded: {error}") from error
        return value


#: The codec of woken requests.
WOKEN: Final = ValueCodec(tuple[AllocationRequest, ...])


# Errors


@final
class _Shown(str):
    """The representation of an argument of an error that was not sent; its own is the same."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


#: The documented errors of operations by name: those of the modules of errors.
_ERRORS: Final[Mapping[str, type[UgmError]]] = {
    name: kind
    for module in (ugm.errors, ugm.store.database, ugm.service.errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, UgmError)
}


@cache
def _argument_hints(name: str) -> list[Any]:
    """Return the annotations of the arguments of a documented error."""
    hints = get_type_hints(_ERRORS[name].__init__)
    hints.pop("return", None)
    return [Any if hint is object else hint for hint in hints.values()]


def _argument(value: object, hint: Any) -> bytes:  # noqa: ANN401 - an annotation
    """Return the JSON of an argument of an error: of any type, it may become an object with its representation."""
    kind = type(value)
    if hint is not Any or kind in {bool, int, float, type(None)} or (kind is str and len(str(value)) <= _LARGEST):
        with suppress(TypeError, ValueError):
            return encode(value)
    return encode({"text": value_text(value)})


def encode_error(error: Exception) -> bytes:
    """Return the JSON of the class, the arguments, the code and the text of an error, separated by commas.

    An undocumented error is logged, and becomes a `ServiceError`, because its class may not exist at the client.
    """
    kind = type(error)
    if _ERRORS.get(kind.__name__) is not kind:
        _LOGGER.error("an operation failed with an unexpected error", exc_info=error)
        error = ServiceError(f"{kind.__name__}: {error}"[:_LONGEST])
    name = type(error).__name__
    arguments = b",".join(map(_argument, error.args, _argument_hints(name)))
    code, text = encode(getattr(error, "code", "")), encode(printable(str(error)))
    return b'"%b",[%b],%b,%b' % (name.encode(), arguments, code, text)


def decode_error(name: str, data: msgspec.Raw) -> UgmError:
    """Return the error of its class and its arguments in JSON.

    Raises:
        ProtocolError: they do not belong together.
    """
    kind = _ERRORS.get(name)
    if kind is None:
        return ServiceError(f"the leader raised an error of an unknown class, {name}")
    try:
        hints = _argument_hints(name)
        given = msgspec.json.decode(data, type=list[msgspec.Raw])
        values = [msgspec.json.decode(one, type=hint) for one, hint in zip(given, hints, strict=False)]
        return kind(*[_Shown(one["text"]) if isinstance(one, dict) else one for one in values])
    except (msgspec.MsgspecError, TypeError, ValueError, LookupError) as error:
        raise ProtocolError("malformed", f"an error cannot be decoded: {error}") from error
