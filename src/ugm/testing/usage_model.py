"""Naive models of queues, users, groups and limits, from which every query is computed again.

`QueueModel` only stores the nodes of the cluster, and the queues that are not in the configuration: dynamic queues, and
queues that have been removed from the configuration while they had applications. `UsageModel` only stores a list of
grants. Both find limits by walking through the configuration from the root. They cache and count nothing, and share no
code with `ugm.queues` and the trackers of ugm. Therefore they are slow, but easy to verify by reading. They expect
valid arguments.

Source: Apache YuniKorn, user based resource usage tracking; user based quota enforcement; resource quota management;
placement rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from ugm._json_values import JsonObject
from ugm.configuration import ChildTemplate, FilterConfig, LimitConfig, PartitionConfig, PlacementRule, QueueConfig
from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.identity import ROOT, WILDCARD, TrackingType, UserGroup
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.tracking.manager import Request

__all__ = [
    "DynamicQueue",
    "Grant",
    "LimitInForce",
    "Place",
    "QueueAllowance",
    "QueueModel",
    "UsageModel",
    "charged_places",
    "grant_places",
    "upward",
]


class QueueAllowance(NamedTuple):
    """The quota of a queue: resources, applications and guaranteed resources."""

    resources: Resource | None = None
    applications: int = 0
    guaranteed: Resource | None = None


class DynamicQueue(NamedTuple):
    """A queue that is not in the configuration."""

    is_parent: bool
    #: Whether it was removed from the configuration.
    was_configured: bool
    allowed: QueueAllowance
    #: The quota of new queues below it.
    template: QueueAllowance | None = None
    #: The quota that was set for this queue.
    quota_override: Resource | None = None


@final
@dataclass
class QueueModel:
    """The queues of one partition."""

    #: The configuration in force; None for only a root queue.
    config: PartitionConfig | None = None
    #: The queues that are not in the configuration, by path.
    made: dict[str, DynamicQueue] = field(default_factory=dict)
    #: The resources of every registered node.
    nodes: dict[str, Resource] = field(default_factory=dict)
    #: The names of resources that any node has ever had; None before the first node.
    offered: set[str] | None = None

    # Queries

    def configured(self, path: str) -> QueueConfig | None:
        """Return the configuration of a queue."""
        return self._named().get(path)

    def _named(self) -> dict[str, QueueConfig]:
        return {} if self.config is None else dict(self.config.root.walk())

    def paths(self) -> list[str]:
        """Return all queues, sorted."""
        return sorted({ROOT, *self._named(), *self.made})

    def children(self, path: str) -> list[str]:
        """Return the queues directly below a queue, sorted."""
        return [other for other in self.paths() if other.rpartition(".")[0] == path]

    def nearest(self, path: str) -> str:
        """Return the queue, or its nearest existing ancestor."""
        return next(above for above in upward(path) if above in self.paths())

    def may_have_children(self, path: str) -> bool:
        """Return whether a queue is a parent, possibly without children."""
        queue = self.configured(path)
        return path == ROOT or (self.made[path].is_parent if queue is None else queue.parent)

    def is_leaf(self, path: str) -> bool:
        """Return whether a queue accepts applications."""
        return not self.may_have_children(path)

    def is_draining(self, path: str) -> bool:
        """Return whether a queue is draining: it was removed, or its parent is draining or no longer a parent."""
        if path not in self.made:
            return False
        above = path.rpartition(".")[0]
        return self.made[path].was_configured or self.is_draining(above) or not self.may_have_children(above)

    def allowed(self, path: str) -> QueueAllowance:
        """Return the quota of a queue; the resources of the root are those of the cluster."""
        if path in self.made:
            made = self.made[path]
            return made.allowed if made.quota_override is None else made.allowed._replace(resources=made.quota_override)
        said = _allowed(self.configured(path))
        return QueueAllowance(self.cluster(), said.applications) if path == ROOT else said

    def most(self, path: str, name: str) -> int | None:
        """Return the quota of a queue for a resource; None for no limit."""
        resources = self.allowed(path).resources
        if resources is None:
            return None
        return resources.get(name, 0 if path == ROOT else None)

    def cluster(self) -> Resource | None:
        """Return the sum of all nodes; None before the first node."""
        if self.offered is None:
            return None
        return Resource({name: sum(node.get(name, 0) for node in self.nodes.values()) for name in self.offered})

    def template(self, path: str) -> QueueAllowance:
        """Return the quota of a new queue directly below a queue."""
        return next(filter(None, map(self.own_template, upward(path))), QueueAllowance())

    def own_template(self, path: str) -> QueueAllowance | None:
        """Return the template of a queue; None if it has none."""
        if path in self.made:
            return self.made[path].template
        queue = self.configured(path)
        return None if queue is None or queue.child_template is None else _allowed(queue.child_template)

    # Placement

    def place(self, user: UserGroup, requested: str, tags: Mapping[str, str]) -> str | None:
        """Return the queue of an application; None if no rule leads to a usable queue."""
        rules = () if self.config is None else self.config.placement_rules
        if not rules:
            path = _spelt(requested)
            path = path if path is None or "." in path or path == ROOT else f"{ROOT}.{path}"
            return path if path is not None and self._may_use(path, user, create=False) else None
        for rule in rules:
            path = self._found(rule, user, requested, tags)
            if path is not None and self._may_use(path, user, create=rule.create):
                return path
        return None

    def _found(self, rule: PlacementRule, user: UserGroup, requested: str, tags: Mapping[str, str]) -> str | None:
        """Return the path that a rule and its parent rules lead to."""
        if not _applies(rule.filter, user):
            return None
        kinds = {"provided": requested, "user": user.name, "tag": tags.get(rule.value, ""), "fixed": rule.value}
        name = _spelt(kinds[rule.name.lower()])
        if name is None or name == ROOT or name.startswith("root."):
            return name
        if rule.parent is None:
            return f"{ROOT}.{name}"
        above = self._found(rule.parent, user, requested, tags)
        if above is None or (above not in self.paths() and not rule.parent.create):
            return None
        return None if above in self.paths() and self.is_leaf(above) else f"{above}.{name}"

    def _may_use(self, path: str, user: UserGroup, *, create: bool) -> bool:
        nearest = self.nearest(path)
        fits = self.is_leaf(path) if nearest == path else create and not self.is_leaf(nearest)
        return fits and not self.is_draining(nearest) and self._may_submit(nearest, user)

    def _may_submit(self, path: str, user: UserGroup) -> bool:
        queues = [queue for above in upward(path) for queue in [self.configured(above)] if queue is not None]
        lists = [text for queue in queues for text in (queue.submit_acl, queue.admin_acl) if text]
        return not lists or any(_lets_in(text, user) for text in lists)

    # Changes

    def create(self, path: str) -> None:
        """Create a queue and its missing ancestors."""
        template = self.template(self.nearest(path))
        for above in upward(path):
            if above not in self.paths():
                is_leaf = above == path
                self.made[above] = DynamicQueue(
                    not is_leaf, was_configured=False, allowed=template if is_leaf else QueueAllowance()
                )

    def override_quota(self, path: str, quota: Resource | None) -> None:
        """Set the quota of a dynamic queue."""
        if quota and path in self.made:
            self.made[path] = self.made[path]._replace(quota_override=quota)

    def prune(self, busy: Collection[str]) -> None:
        """Remove dynamic queues without applications in or below them."""
        self.made = {path: queue for path, queue in self.made.items() if any(path in upward(other) for other in busy)}

    def configure(self, config: PartitionConfig | None) -> None:
        """Replace the configuration."""
        before = self.paths()
        for path in [path for path in before if path not in self.made and path != ROOT]:
            allowed, template = _allowed(self.configured(path)), self.own_template(path)
            self.made[path] = DynamicQueue(
                self.may_have_children(path), was_configured=True, allowed=allowed, template=template
            )
        self.config = config
        named = self._named()
        self.made = {path: self.made[path] for path in before if path in self.made and path not in named}
        for path, queue_made in self.made.items():
            if not self.is_draining(path) and not queue_made.is_parent:
                self.made[path] = queue_made._replace(allowed=self.template(path.rpartition(".")[0]))

    def set_node(self, name: str, offers: Resource) -> None:
        """Register a node, or change its resources."""
        self.offered = {*(self.offered or ()), *offers}
        self.nodes[name] = offers

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node.

        Raises:
            RequestError: the node is registered with other resources.
        """
        if self.nodes.get(name, offers) != offers:
            raise RequestError("node", name, "a node of that name is registered with other resources", "id-in-use")
        self.set_node(name, offers)

    def update_node(self, name: str, offers: Resource) -> None:
        """Change the resources of a node.

        Raises:
            RequestError: the node does not exist.
        """
        if name not in self.nodes:
            raise RequestError("node", name, "there is no such node", "node-unknown")
        self.set_node(name, offers)

    def remove_node(self, name: str) -> bool:
        """Remove a node, and return whether it existed."""
        return self.nodes.pop(name, None) is not None


def upward(path: str) -> list[str]:
    """Return a path and its ancestors, from leaf to root."""
    names = path.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1)]


def _allowed(said: QueueConfig | ChildTemplate | None) -> QueueAllowance:
    """Return the quota in a configuration; an empty vector is no limit."""
    if said is None:
        return QueueAllowance()
    return QueueAllowance(said.resources.max or None, said.max_applications, said.resources.guaranteed or None)


def _spelt(text: str) -> str | None:
    """Return the queue name or path in canonical form; None if the text is invalid."""
    small = text.lower()
    if small.startswith("root."):
        parts = small.split(".")
        return small if all(map(_is_name, parts[1:])) else None
    small = small.replace(".", "_dot_")
    return small if small == ROOT or _is_name(small) else None


def _is_name(text: str) -> bool:
    plain = text.isascii() and all(letter.isalnum() or letter in "_:#/@-" for letter in text)
    return plain and text != ROOT and 0 < len(text) <= 64  # noqa: PLR2004 - the maximum length of a name


def _applies(filtered: FilterConfig, user: UserGroup) -> bool:
    """Return whether a filter without patterns accepts a user."""
    nobody = not filtered.users and not filtered.groups
    named = nobody or user.name in filtered.users or not set(filtered.groups).isdisjoint(user.groups)
    return not named if filtered.type.lower() == "deny" else named


def _lets_in(text: str, user: UserGroup) -> bool:
    users, _, groups = text.partition(" ")
    lists: Sequence[tuple[str, Sequence[str]]] = ((users, (user.name,)), (groups.strip(), user.groups))
    return any(names == "*" or not set(names.split(",")).isdisjoint(whose) for names, whose in lists)


class Grant(NamedTuple):
    """One change of usage: a granted amount, or a negative amount for a refund."""

    queue_path: str
    application_id: str
    usage: Resource
    user_name: str
    #: The group that the application is charged to, or None.
    group_name: str | None


class Place(NamedTuple):
    """A user or group in one queue, or the queue itself."""

    kind: str
    name: str
    queue_path: str


class LimitInForce(NamedTuple):
    """The limit in force at a place, and its name in the configuration."""

    limit_name: str
    resources: Resource
    applications: int


_NO_LIMIT = LimitInForce("", Resource(), 0)


@dataclass
class UsageModel:
    """The users and groups of one partition.

    Attributes:
        config: the limits in force; None for none.
        group_limits: as for `ugm.Manager`.
        grants: the changes of all running applications, in order.
        queues: the queues with their quotas; None if queues have no quotas.
        groups: assigned groups by application; the group of any other application is assigned by its first grant.

    >>> model = UsageModel()
    >>> model.adopt("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
    ()
    >>> model.usage(Place(TrackingType.USER, "sue", "root"))
    Resource(memory=4)
    """

    config: PartitionConfig | None = None
    group_limits: Literal["always", "unless-user-limited"] = "always"
    grants: list[Grant] = field(default_factory=list)
    queues: QueueModel | None = None
    groups: Mapping[str, str | None] = field(default_factory=dict)

    # Queries of the grants.

    def grants_at(self, place: Place) -> list[Grant]:
        """Return the grants at a place and below it."""
        return [grant for grant in self.grants if place in grant_places(grant)]

    def usage(self, place: Place) -> Resource:
        """Return the usage at a place, without zeros."""
        return sum((grant.usage for grant in self.grants_at(place)), Resource()).without_zeros()

    def applications(self, place: Place) -> set[str]:
        """Return the applications that run at a place."""
        return {grant.application_id for grant in self.grants_at(place)}

    # Queries of the configuration.

    def group_for(self, queue_path: str, application_id: str, user: UserGroup) -> str | None:
        """Return the group of an application, which is assigned with its first usage."""
        if application_id in self.groups:
            return self.groups[application_id]
        for grant in self.grants:
            if (grant.application_id, grant.user_name) == (application_id, user.name):
                return grant.group_name
        for path in upward(queue_path.lower()):
            named = [group for entry in self._entries(path) for group in entry.groups]
            for group in named:
                if group in user.groups:
                    return group
            if user.groups and WILDCARD in named:
                return WILDCARD
        return None

    def limit(self, place: Place) -> LimitInForce:
        """Return the limit in force at a place."""
        if place.kind is TrackingType.QUEUE:
            allowed = QueueAllowance() if self.queues is None else self.queues.allowed(place.queue_path)
            return LimitInForce("", allowed.resources or Resource(), allowed.applications)
        name, entry = self.entry(place)
        return LimitInForce(name, entry.max_resources or Resource(), entry.max_applications) if entry else _NO_LIMIT

    def entry(self, place: Place) -> tuple[str, LimitConfig | None]:
        """Return the name in the configuration and the limit that apply to a user or group at a place."""
        is_user = place.kind == TrackingType.USER
        for wanted in (place.name, WILDCARD) if is_user else (place.name,):
            for entry in self._entries(place.queue_path):
                if wanted in (entry.users if is_user else entry.groups):
                    return wanted, entry
        return "", None

    def _entries(self, queue_path: str) -> Sequence[LimitConfig]:
        queue = None if self.config is None else dict(self.config.root.walk()).get(queue_path)
        return queue.limits if queue else ()

    def limited_places(self, queue_path: str, application_id: str, user: UserGroup) -> list[Place]:
        """Return the places with limits for a request: of the user, the group and the queues, each leaf to root."""
        group = self.group_for(queue_path, application_id, user)
        places = charged_places(queue_path.lower(), user.name, group)
        exempt = self.group_limits == "unless-user-limited" and any(
            self.limit(place).limit_name == user.name for place in places if place.kind is TrackingType.USER
        )
        return [place for place in places if not exempt or place.kind is not TrackingType.GROUP]

    # Decisions.

    def check(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that an increase would exceed."""
        return self._exceeded(self.limited_places(queue_path, application_id, user), application_id, usage)

    def _exceeded(self, places: list[Place], application_id: str, usage: Resource) -> tuple[Violation, ...]:
        found: list[Violation] = []
        for place in places:
            running = self.applications(place)
            starting = 0 if application_id in running else 1
            found += self._over(place, self.usage(place), usage, len(running), starting)
        return tuple(found)

    def _over(
        self, place: Place, used: Resource, requested: Resource, running: int, starting: int
    ) -> Iterator[Violation]:
        """Yield the limits at a place that *requested* and *starting* applications would exceed.

        A quota is compared for every resource of the request, a limit of a user or group only for amounts above 0.
        """
        limit = self.limit(place)
        for name, more in requested.items():
            most, now = self._most(place, name), used.get(name, 0)
            is_compared = more or place.kind is TrackingType.QUEUE
            if is_compared and most is not None and now + more > most:
                yield Violation(*place, limit.limit_name, name, most, now, more)
        if limit.applications and starting and running + starting > limit.applications:
            yield Violation(*place, limit.limit_name, None, limit.applications, running, starting)

    def _most(self, place: Place, name: str) -> int | None:
        """Return the limit on a resource at a place; None for no limit."""
        if place.kind is TrackingType.QUEUE and self.queues is not None:
            return self.queues.most(place.queue_path, name)
        return self.limit(place).resources.get(name)

    def headroom(self, queue_path: str, application_id: str, user: UserGroup) -> Resource | None:
        """Return the smallest free amount of each limited resource; None if no limit applies."""
        return self.headroom_at(self.limited_places(queue_path, application_id, user))

    def headroom_at(self, places: Iterable[Place]) -> Resource | None:
        """Return the smallest free amount of each resource that is limited at some places; None without limits."""
        headroom: dict[str, int] = {}
        places = tuple(places)
        names = {name for place in places for name in self.limit(place).resources}
        for place in places:
            used = self.usage(place)
            # Nothing else than the resources of the nodes is available.
            unavailable = dict.fromkeys(names, 0) if self._is_cluster(place) else {}
            for name, most in {**unavailable, **self.limit(place).resources}.items():
                free = most - used.get(name, 0)
                headroom[name] = min(free, headroom.get(name, free))
        return Resource(headroom) if headroom else None

    def _is_cluster(self, place: Place) -> bool:
        """Return whether the limit at a place is the sum of the nodes."""
        is_root = place.kind is TrackingType.QUEUE and place.queue_path == ROOT
        return is_root and self.queues is not None and self.queues.allowed(ROOT).resources is not None

    def exceeded_limits(self) -> list[Violation]:
        """Return every exceeded limit, sorted by place."""
        return list(self.exceeded_at(sorted({place for grant in self.grants for place in grant_places(grant)})))

    def exceeded_at(self, places: Iterable[Place]) -> Iterator[Violation]:
        """Yield every exceeded limit of some places."""
        for place in places:
            limit, running = self.limit(place), len(self.applications(place))
            for name, used in self.usage(place).items():
                most = self._most(place, name)
                if most is not None and used > most:
                    yield Violation(*place, limit.limit_name, name, most, used, 0)
            if 0 < limit.applications < running:
                yield Violation(*place, limit.limit_name, None, limit.applications, running, 0)

    # Changes.

    def adopt(self, queue_path: str, application_id: str, usage: Resource, user: UserGroup) -> tuple[Violation, ...]:
        """Grant *usage* even if it exceeds limits, and return the limits that are exceeded now."""
        group = self.group_for(queue_path, application_id, user)
        self.grants.append(Grant(queue_path.lower(), application_id, usage, user.name, group))
        return tuple(self.exceeded_at(grant_places(self.grants[-1])))

    def increase_all(self, requests: Iterable[Request]) -> tuple[Violation, ...]:
        """Grant several increases or none of them, and return the exceeded limits.

        Each increase is checked after those before it. A violation contains the sum of all requests for the limit.
        """
        after = replace(self, grants=list(self.grants))
        short: set[tuple[object, ...]] = set()
        for request in requests:
            short |= {(*violation[:3], violation.resource) for violation in after.check(*request)}
            after.adopt(*request)
        new = after.grants[len(self.grants) :]
        found: list[Violation] = []
        for place in dict.fromkeys(place for grant in new for place in grant_places(grant)):
            requested = sum((grant.usage for grant in new if place in grant_places(grant)), Resource())
            running = len(self.applications(place))
            starting = len(after.applications(place)) - running
            together = len({(grant.user_name, grant.application_id) for grant in new if place in grant_places(grant)})
            if 0 < self.limit(place).applications < together:
                # The limit never allows them together, so those that run already count as requested.
                running, starting = running + starting - together, together
            over = self._over(place, self.usage(place), requested, running, starting)
            found += [violation for violation in over if (*place, violation.resource) in short]
        if not found:
            self.grants = after.grants
        return tuple(found)

    def check_exchange(
        self, queue_path: str, application_id: str, old: Resource, new: Resource, user: UserGroup
    ) -> tuple[Violation, ...]:
        """Return every limit that the growth from *old* to *new* would exceed, with the usage without *old*."""
        growth = Resource({name: more for name, more in (new - old).items() if more > 0})
        return tuple(
            each._replace(used=each.used - back, requested=each.requested + back)
            for each in self.check(queue_path, application_id, growth, user)
            for back in [old.get(each.resource or "", 0)]
        )

    # The visible state.

    def exposed(self) -> dict[str, JsonObject]:
        """Return the visible state in the form of `ugm.testing.exposed`."""
        shown: dict[str, JsonObject] = {"users": {}, "groups": {}}
        for name in sorted({grant.user_name for grant in self.grants}):
            mine = [grant for grant in self.grants if grant.user_name == name]
            groups = {grant.application_id: grant.group_name for grant in mine if grant.group_name is not None}
            shown["users"][name] = {"groups": groups, "queues": self._queues(TrackingType.USER, name, mine)}
        for group in sorted({grant.group_name for grant in self.grants if grant.group_name is not None}):
            mine = [grant for grant in self.grants if grant.group_name == group]
            shown["groups"][group] = {
                "users": sorted({grant.user_name for grant in mine}),
                "applications": sorted({grant.application_id for grant in mine}),
                "queues": self._queues(TrackingType.GROUP, group, mine),
            }
        return shown

    def _queues(self, tracker: TrackingType, name: str, grants: list[Grant]) -> JsonObject:
        paths = sorted({path for grant in grants for path in upward(grant.queue_path)})
        return {path: self._queue(Place(tracker, name, path)) for path in paths}

    def _queue(self, place: Place) -> JsonObject:
        most = self.limit(place)
        return {
            "usage": dict(self.usage(place)),
            "running_applications": sorted(self.applications(place)),
            "max_resources": dict(most.resources) or None,
            "max_applications": most.applications,
        }


def grant_places(grant: Grant) -> list[Place]:
    """Return the places that a grant is charged to."""
    return charged_places(grant.queue_path, grant.user_name, grant.group_name)


def charged_places(queue_path: str, user: str, group: str | None) -> list[Place]:
    """Return the places of a user, a group and the queues that usage in a queue is charged to, each leaf to root."""
    paths = upward(queue_path)
    users = [Place(TrackingType.USER, user, path) for path in paths]
    groups = [Place(TrackingType.GROUP, group, path) for path in paths if group is not None]
    return users + groups + [Place(TrackingType.QUEUE, path, path) for path in paths]
