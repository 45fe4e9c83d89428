"""The models of a queue configuration.

They mirror the file: the YAML name of a field is its name here without underscores, in lower case, except ``limit``
(here `LimitConfig.label`) and ``parent`` (here `QueueConfig.declared_parent`). Only the YAML names are read from a
file; a program builds models with the names used here.

A model is immutable, compares by content, and guarantees the types of its fields. That a configuration also makes sense
as a whole is for `ugm.config.validation` to say; `ugm.config.load_config` and `ugm.config.parse_config` ask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from ugm.config.names import ANY, YUNIKORN
from ugm.config.scalars import to_boolean, to_choice, to_count, to_resource, to_text, to_texts, to_weights
from ugm.errors import RequestError
from ugm.identity import ROOT, is_text
from ugm.resources import Resource, format_amount

__all__ = [
    "DEFAULT_PARTITION",
    "ChildTemplate",
    "Extensions",
    "FilterConfig",
    "LimitConfig",
    "Model",
    "NodeSortPolicy",
    "PartitionConfig",
    "PlacementRule",
    "PreemptionConfig",
    "QueueConfig",
    "QueueResources",
    "SchedulerConfig",
    "UserGroupResolver",
]

#: The name of a partition without one.
DEFAULT_PARTITION: Final = "default"

Text = Annotated[str, PlainValidator(to_text)]
#: Names of queues and partitions are the same in any case, and kept in lower case.
Name = Annotated[str, PlainValidator(lambda value: to_text(value).lower())]
Texts = Annotated[Mapping[str, str], PlainValidator(to_texts)]
Count = Annotated[int, PlainValidator(to_count)]
Boolean = Annotated[bool, PlainValidator(to_boolean)]
Weights = Annotated[Mapping[str, float], PlainValidator(to_weights)]
Quantities = Annotated[
    Resource,
    PlainValidator(to_resource),
    PlainSerializer(lambda amounts: {name: format_amount(name, amount) for name, amount in amounts.items()}),
]


class Model(BaseModel):
    """What all models have in common."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", ""),
        validate_by_alias=True,
        validate_by_name=True,
        arbitrary_types_allowed=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, data: object) -> object:
        """Take a field that stands there with nothing behind it as absent."""
        if isinstance(data, dict) and None in data.values():
            known = cls.yaml_names()
            return {name: value for name, value in data.items() if value is not None or name not in known}
        return data

    @classmethod
    def yaml_names(cls) -> frozenset[str]:
        """Return the names that the fields have in a file."""
        return frozenset(str(field.validation_alias) for field in cls.model_fields.values())


class LimitConfig(Model):
    """What each of the named users, and each of the named groups, may use in a queue.

    It is no sum over the names: each of them may use that much. The wildcard ``*`` stands for every user, each for
    itself, or for all groups together, that no entry before it names.
    """

    #: A text for people; nothing depends on it.
    label: Text = Field(default="", validation_alias="limit", serialization_alias="limit")
    users: tuple[Text, ...] = ()
    groups: tuple[Text, ...] = ()
    #: None does not limit resources; neither does a resource that is not named.
    max_resources: Quantities | None = None
    #: 0 does not limit applications.
    max_applications: Count = 0


class QueueResources(Model):
    """What a queue is guaranteed, and the most that it may use."""

    guaranteed: Quantities | None = None
    max: Quantities | None = None


class ChildTemplate(Model):
    """What queues get that placement creates below a queue."""

    max_applications: Count = 0
    properties: Texts = Field(default_factory=dict)
    resources: QueueResources = QueueResources()


class QueueConfig(Model):
    """A queue, with everything below it."""

    #: In lower case.
    name: Name = ""
    #: What the file says; see `parent`.
    declared_parent: Boolean = Field(default=False, validation_alias="parent", serialization_alias="parent")
    resources: QueueResources = QueueResources()
    #: 0 does not limit applications.
    max_applications: Count = 0
    properties: Texts = Field(default_factory=dict)
    admin_acl: Text = ""
    submit_acl: Text = ""
    child_template: ChildTemplate | None = None
    queues: tuple[QueueConfig, ...] = ()
    limits: tuple[LimitConfig, ...] = ()

    @property
    def parent(self) -> bool:
        """Whether queues may be below it, and applications therefore not in it."""
        return self.declared_parent or bool(self.queues) or self.name == ROOT

    @property
    def max_resources(self) -> Resource | None:
        """The most that the queue may use; None, and a resource that is not named, is without limit."""
        return self.resources.max

    @property
    def guaranteed(self) -> Resource | None:
        """What the queue is guaranteed."""
        return self.resources.guaranteed


class FilterConfig(Model):
    """Whom a placement rule applies to."""

    #: ``allow``, ``deny`` or nothing, which is ``allow``; in any case.
    type: Text = ""
    #: Several names; or one, which may be a regular expression.
    users: tuple[Text, ...] = ()
    groups: tuple[Text, ...] = ()


class PlacementRule(Model):
    """One way to find the queue of an application."""

    name: Text = ""
    #: Whether a queue that does not exist is created.
    create: Boolean = False
    filter: FilterConfig = FilterConfig()
    #: The rule that finds the queue above.
    parent: PlacementRule | None = None
    #: What it means depends on the rule: the queue of ``fixed``, the tag of ``tag``.
    value: Text = ""


class PreemptionConfig(Model):
    """Which kinds of preemption are used; None leaves it to the scheduler."""

    enabled: Boolean | None = None
    quota_preemption_enabled: Boolean | None = None


class NodeSortPolicy(Model):
    """How nodes are sorted."""

    #: ``fair``, ``binpacking`` or nothing, which is ``fair``.
    type: Text = ""
    #: Resources that are not named weigh 1.
    resource_weights: Weights = Field(default_factory=dict)


class UserGroupResolver(Model):
    """How the scheduler finds the groups of a user."""

    type: Text = ""


class Extensions(Model):
    """The settings of a partition that Apache YuniKorn does not have; all of them are under the one key ``ugm``."""

    #: Which names of users and groups limits and filters may contain: ``yunikorn``, those that the peer accepts, or
    #: ``any``; see `ugm.config.names`.
    names: Annotated[str, PlainValidator(to_choice(YUNIKORN, ANY))] = YUNIKORN


class PartitionConfig(Model):
    """One set of nodes with its own tree of queues."""

    #: In lower case; ``default`` if the file has none, or an empty one.
    name: Annotated[str, PlainValidator(lambda value: to_text(value).lower() or DEFAULT_PARTITION)] = DEFAULT_PARTITION
    #: As in the file: with or without the root queue; see `root`.
    queues: tuple[QueueConfig, ...] | None = None
    placement_rules: tuple[PlacementRule, ...] = ()
    #: As in the file; see `root`.
    limits: tuple[LimitConfig, ...] = ()
    preemption: PreemptionConfig = PreemptionConfig()
    node_sort_policy: NodeSortPolicy = Field(default_factory=NodeSortPolicy)
    user_group_resolver: UserGroupResolver = UserGroupResolver()
    #: A file without this key is a file of Apache YuniKorn.
    ugm: Extensions = Extensions()

    @property
    def root_inserted(self) -> bool:
        """Whether the file leaves the root queue out."""
        return self.queues is None or len(self.queues) != 1 or self.queues[0].name != ROOT

    @property
    def root(self) -> QueueConfig:
        """The root queue: inserted if the file leaves it out, and with the limits of the partition if it has none."""
        if self.queues is None or self.root_inserted:
            return QueueConfig(name=ROOT, queues=self.queues or (), limits=self.limits)
        root = self.queues[0]
        return root.model_copy(update={"limits": self.limits}) if self.limits and not root.limits else root


class SchedulerConfig(Model):
    """Everything that one file configures."""

    partitions: tuple[PartitionConfig, ...] = ()
    #: A scheduler writes it when it exports a configuration; it is not checked.
    checksum: Text = ""

    def partition(self, name: str | None = None) -> PartitionConfig:
        """Return a partition by name; without a name the only one, or else the one called ``default``.

        Raises:
            RequestError: there is no such partition.
        """
        if name is None and len(self.partitions) == 1:
            return self.partitions[0]
        if not is_text(name or ""):
            raise RequestError("partition", name, "expected the name of a partition")
        wanted = (name or DEFAULT_PARTITION).lower()
        for partition in self.partitions:
            if partition.name == wanted:
                return partition
        there = ", ".join(repr(partition.name) for partition in self.partitions)
        raise RequestError("partition", wanted, f"no such partition; there is {there or 'none'}")
