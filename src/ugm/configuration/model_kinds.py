"""The registry of the kinds of quota models that a configuration can declare.

The problem: a partition, and the reader of configurations, work with every kind of model: elastic groups, quota trees,
budgets, fair shares. They must not depend on any of them, and most configurations declare none.

The idea: a kind is an object that makes definitions from a configuration, builds models from definitions, checks rules
and describes itself. The package of the models defines it, and one table here names its module. The module is imported
when a configuration first declares such a model.

A definition is an immutable part of a configuration from which a model is made. Equal definitions stand for equal
models, so a new configuration replaces only the models whose definition has changed.

`ugm.configuration.GroupSource` describes how a declared model finds the group of a claim. If all sources of a model are
queues, the group of every request follows from the configuration alone. So the queues are known whose requests belong
to no group, and are all denied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from ugm._json_values import JsonMapping
from ugm.configuration.fields import ConfigValue
from ugm.configuration.scheduler import ElasticGroup, Finding, GroupSource, PartitionConfig, Path, QuotaTreeDocument
from ugm.errors import RequestError, UgmError, quote
from ugm.identity import UserGroup
from ugm.model import BUDGET, Claim, QuotaModel
from ugm.resources import Resource

#: The tag of a namespace, unless the source names another one.
NAMESPACE_TAG: Final = "namespace"
#: The sources that a tag names.
_TAGGED: Final = ("tag", "namespace")
#: Returns the group of a claim; None if the source has no name for it.
GroupFinder: TypeAlias = Callable[[Claim], str | None]


def finder_of(source: GroupSource) -> GroupFinder:
    """Return the function that finds the group of a claim in one source.

    >>> from ugm import Resource, UserGroup
    >>> claim = Claim("a-1", "app", Resource(), "root.prod.web", UserGroup("sue"), {"team": "ml"})
    >>> finder_of(GroupSource(source="tag", tag="team"))(claim)
    'ml'
    >>> finder_of(GroupSource(source="queue", names={"root.prod": "production"}))(claim)
    'production'
    """
    names = source.names
    if source.source == "queue":
        return _queue_finder({path.lower(): group for path, group in names.items()})
    values = _values_of(source)
    if not names:
        return lambda claim: next(values(claim), None)
    return lambda claim: next((names[value] for value in values(claim) if value in names), None)


def _values_of(source: GroupSource) -> Callable[[Claim], Iterator[str]]:
    """Return the function that yields the values of the property of a claim."""
    if source.source == "user":
        return lambda claim: iter((claim.user.name,))
    if source.source == "group":
        return lambda claim: iter(claim.user.groups)
    tag = source.tag or NAMESPACE_TAG
    return lambda claim: iter((value,)) if (value := claim.tags.get(tag)) else iter(())


def _queue_finder(names: Mapping[str, str]) -> GroupFinder:
    if not names:
        return lambda claim: claim.queue_path.rpartition(".")[2]

    def nearest(claim: Claim) -> str | None:
        path = claim.queue_path
        while path and path not in names:
            path = path.rpartition(".")[0]
        return names.get(path)

    return nearest


def source_findings(
    sources: Sequence[GroupSource], groups: Collection[str], path: Path, declared: Path
) -> Iterator[Finding]:
    """Yield every source that names no tag or an unknown group.

    Args:
        sources: the sources.
        groups: the groups that accept claims.
        path: the path of the model.
        declared: the path of its groups.
    """
    for at, source in enumerate(sources):
        below = (*path, "groupby", at)
        if source.source == "tag" and not source.tag:
            yield Finding(below, "group-source-tag-missing", "a source of the kind 'tag' needs the name of a tag")
        if source.tag and source.source not in _TAGGED:
            message = f"a source of the kind {quote(source.source)} does not use a tag"
            yield Finding((*below, "tag"), "group-source-tag-unused", message, ((*below, "source"),))
        for value, group in source.names.items():
            if group not in groups:
                message = f"there is no group {quote(group)} that accepts claims"
                yield Finding((*below, "names", value), "group-source-group-unknown", message, (below, declared))


class UnmappedQueue(NamedTuple):
    """A queue in which a quota model denies every request."""

    queue_path: str
    #: ``the elastic groups`` or the name of a quota tree.
    model: str
    #: The group that a source names and the model does not have; None if no source maps the queue.
    group: str | None

    def __str__(self) -> str:
        reason = "no source of a group maps it" if self.group is None else f"there is no group {self.group!r} for it"
        return f"the queue {self.queue_path} denies every request: {reason} in {self.model}"


def queues_without_group(
    config: PartitionConfig, sources: tuple[GroupSource, ...], groups: Collection[str], model: str
) -> Iterator[UnmappedQueue]:
    """Yield the leaf queues whose requests belong to none of the groups, if only their queue decides.

    Args:
        config: the partition with the queues.
        sources: the sources of the group of a claim.
        groups: the groups that accept claims.
        model: the model, for the message.
    """
    if not sources or any(source.source != "queue" for source in sources):
        return
    finders = [finder_of(source) for source in sources]
    for path, queue in config.root.walk():
        if not queue.parent:
            claim = Claim("", "", Resource(), path, UserGroup("anyone"), {})
            group = next((name for find in finders if (name := find(claim))), None)
            if group not in groups:
                yield UnmappedQueue(path, model, group)


#: A part of a declared model: its kind and its name, and its properties as texts.
ModelPart: TypeAlias = tuple[tuple[str, str], dict[str, str]]


class _Entry(NamedTuple):
    """The modules of a kind of models."""

    #: Defines `KIND`, a `ModelKind`.
    module: str
    #: The names of the classes of its models, by which a report is recognised.
    models: tuple[str, ...]
    #: The kinds of their limits that `ModelKind.uses` yields.
    limits: tuple[str, ...] = ()
    #: The values that a file may contain as documents of another format, and the module of each that defines `FORMAT`,
    #: a `ugm._documents.loader.DocumentFormat`.
    documents: Mapping[type[ConfigValue], str] = MappingProxyType({})


#: The kinds by the key of a partition's settings that declares such models. Models are made and asked in this order.
_KINDS: Final[Mapping[str, _Entry]] = {
    "elastic": _Entry(
        "ugm.elastic.kind", ("ElasticModel",), ("elastic group",), {ElasticGroup: "ugm.kubernetes.elastic_quotas"}
    ),
    "quota_trees": _Entry(
        *("ugm.quotatree.kind", ("TreeModel", "ForestModel"), ("quota node",)),
        documents={QuotaTreeDocument: "ugm.quotatree.kind"},
    ),
    "budgets": _Entry("ugm.budgets.kind", ("Budgets",), (BUDGET,)),
    "fair_share": _Entry("ugm.fairness.kind", ("FairShares",)),
}
#: The modules of all documents of other formats, by the class of their values.
DOCUMENT_MODULES: Final[Mapping[type[ConfigValue], str]] = {
    value: module for entry in _KINDS.values() for value, module in entry.documents.items()
}
#: The kinds of limits with thresholds.
THRESHOLD_KINDS: Final = tuple(
    sorted(("group", "queue", "user", *(kind for entry in _KINDS.values() for kind in entry.limits)))
)


class ReportedUse(NamedTuple):
    """The use of one limit of a model, as its report describes it."""

    kind: str
    place: str
    name: str
    #: The kind of owner; empty if all limits of the kind have the same.
    scope: str
    resource: str
    used: Any
    maximum: Any


class ModelKind:
    """A kind of quota models that a configuration can declare; subclasses define it."""

    #: Whether its models depend on their past calls.
    has_past: ClassVar[bool] = True

    def definitions(self, config: PartitionConfig, before: Sequence[ModelDefinition]) -> Iterable[ModelDefinition]:
        """Return the definitions of the models that a configuration declares.

        Args:
            config: the configuration.
            before: the definitions of the kinds before this one.

        Raises:
            RequestError: the models cannot be defined.
        """
        raise NotImplementedError

    def build(self, content: Any) -> QuotaModel:  # noqa: ANN401 - each kind has its own content
        """Return a new model without claims from the content of a definition.

        Raises:
            UgmError: the model cannot be made.
        """
        raise NotImplementedError

    def parts(self, definition: ModelDefinition) -> Iterable[ModelPart]:
        """Return the parts of a declared model, for the comparison of two configurations."""
        raise NotImplementedError

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of the models, with their paths below the partition."""
        raise NotImplementedError

    def unmapped_queues(self, config: PartitionConfig) -> Iterable[UnmappedQueue]:  # noqa: ARG002 - for subclasses
        """Return the leaf queues in which a model denies every request. The default is none."""
        return ()

    def uses(self, state: JsonMapping) -> Iterable[ReportedUse]:  # noqa: ARG002 - for subclasses
        """Return the uses of limits that the state of a model contains as plain data. The default is none."""
        return ()


@cache
def _kind(key: str) -> ModelKind:
    found: ModelKind = import_module(_KINDS[key].module).KIND
    return found


def _declared_kinds(config: PartitionConfig) -> Iterator[ModelKind]:
    """Yield the kinds of which a configuration declares models."""
    return (_kind(key) for key in _KINDS if getattr(config.ugm, key))


@dataclass(frozen=True, slots=True)
class ModelDefinition:
    """The definition of a declared model."""

    #: The key of a partition's settings that declares it.
    setting: str
    #: For people, for example ``quota tree``.
    kind: str
    #: The name of the tree or forest; empty for kinds with one model.
    name: str
    #: The part of the configuration that describes the model; equal contents stand for equal models.
    content: Any
    #: The model that `check` has made, for the next call of `build`.
    _checked: list[QuotaModel] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out the model of the check: it has a lock, and another process or copy makes its own."""
        return type(self), (self.setting, self.kind, self.name, self.content)

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the model; definitions of different configurations with the same key are compared."""
        return self.kind, self.name

    @property
    def has_past(self) -> bool:
        """True if the model depends on its past calls, for example on past usage."""
        return _kind(self.setting).has_past

    def check(self) -> None:
        """Check that the model can be made.

        Raises:
            UgmError: it cannot.
        """
        self._checked[:] = [_kind(self.setting).build(self.content)]

    def forget_checked(self) -> None:
        """Forget the model of the check, which is not needed."""
        self._checked.clear()

    def build(self) -> QuotaModel:
        """Return a new model without claims: that of the check at first.

        Raises:
            UgmError: the model cannot be made.
        """
        with suppress(IndexError):
            return self._checked.pop()
        return _kind(self.setting).build(self.content)

    def parts(self) -> Iterable[ModelPart]:
        """Return the parts of the model, for the comparison of two configurations."""
        return _kind(self.setting).parts(self)


def definitions_of(config: PartitionConfig | None) -> tuple[ModelDefinition, ...]:
    """Return the definitions of all models that a configuration declares, after a check that each can be made.

    Raises:
        RequestError: a model cannot be defined or made.
    """
    if config is None:
        return ()
    found: list[ModelDefinition] = []
    for kind in _declared_kinds(config):
        found += kind.definitions(config, found)
    for definition in found:
        try:
            definition.check()
        except UgmError as error:
            label = " ".join(filter(None, definition.key))
            raise RequestError("config", label, str(error)) from error
    return tuple(found)


def declared_findings(config: PartitionConfig) -> Iterator[Finding]:
    """Yield the violations of the rules of all declared models, with their paths below the partition."""
    for kind in _declared_kinds(config):
        yield from kind.findings(config)


def unmapped_queues(config: PartitionConfig | None) -> Iterator[UnmappedQueue]:
    """Yield the leaf queues of a configuration in which a declared quota model denies every request."""
    if config is not None:
        for kind in _declared_kinds(config):
            yield from kind.unmapped_queues(config)


def reported_uses(model: str, state: JsonMapping) -> Iterable[ReportedUse]:
    """Return the uses of limits in the report of a model; none for models of a program.

    Args:
        model: the name of the class of the model.
        state: its state as plain data.
    """
    setting = next((key for key, entry in _KINDS.items() if model in entry.models), None)
    return () if setting is None else _kind(setting).uses(state)
