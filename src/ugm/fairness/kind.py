"""Fair shares that a configuration declares: their rules, the model that they make, and their kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, final

from ugm.configuration import FairShareConfig, PartitionConfig
from ugm.configuration.fields import setting_texts
from ugm.configuration.model_kinds import ModelDefinition, ModelKind, ModelPart
from ugm.configuration.scheduler import Finding
from ugm.errors import RequestError, quote
from ugm.fairness.decay import MAX_BINS, BinnedUsage, ContinuousUsage, decay_fault
from ugm.fairness.model import FairShares
from ugm.fairness.rank import PARENT, Shares, ShareTree
from ugm.fairness.usage_history import DecayedUsage
from ugm.resources import VCORE, bounded_int

#: The half-life of usage if a configuration sets no decay: a week, as in SchedMD Slurm.
_WEEK: Final = 7 * 86400
#: The sources of findings that may follow from another one.
_SOURCES: Final = ((), ("accounts",), ("users",))
#: The largest number of shares and seconds, and the most digits of a part of an exact number.
_MOST: Final = 10**10
_DIGITS: Final = 18

_NUMBER: Final = re.compile(r"[0-9]+")
_EXACT: Final = re.compile(rf"[0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{1,{_DIGITS}}}|/0*[1-9][0-9]{{0,{_DIGITS - 1}}})?")


def declared_shares(config: FairShareConfig) -> FairShares:
    """Return the shares that a configuration declares, without usage.

    Raises:
        RequestError: the shares cannot be used; see `share_findings`.
    """
    for problem in share_findings(config):
        raise RequestError("config", ".".join(map(str, problem.path)), problem.message)
    listed = config.accounts, config.users
    accounts, users = ({path: _shares(text) for path, text in nodes.items()} for nodes in listed)
    decay = config.half_life, config.bin, config.bins, config.decay, tuple(sorted(config.weights.items()))
    return FairShares(
        ShareTree(accounts, users), _usage(config), default_shares=config.default_shares, decay=("declared", *decay)
    )


def _shares(text: str) -> Shares:
    return PARENT if text == PARENT else int(text)


def _usage(config: FairShareConfig) -> DecayedUsage[Any]:
    weights = {name: Fraction(text) for name, text in config.weights.items()} or {VCORE: Fraction(1)}
    if config.bin:
        decay = Fraction(config.decay)
        return BinnedUsage(bin=config.bin, decay=decay, bins=config.bins, weights=weights, default_weight=0)
    return ContinuousUsage(half_life=config.half_life or _WEEK, weights=weights, default_weight=0)


def share_findings(config: FairShareConfig) -> Iterator[Finding]:
    """Yield every reason why declared shares cannot be used, with its path below the shares.

    Source: SchedMD Slurm, Fair Tree.
    """
    if not config.accounts and not config.users and not config.default_shares:
        message = "there are no shares (required: accounts, users or defaultshares)"
        yield Finding((), "fairshare-empty", message, _SOURCES)
    yield from _node_problems(config)
    yield from _name_problems(config)
    yield from _decay_problems(config)
    yield from _factor_problems(config)
    yield from _weight_problems(config)


def _node_problems(config: FairShareConfig) -> Iterator[Finding]:
    for key, nodes in (("accounts", config.accounts), ("users", config.users)):
        for path, text in nodes.items():
            at, above = (key, path), path.rpartition("/")[0]
            if not all(path.split("/")):
                message = f"{quote(path)} is not a path (expected: names separated by '/')"
                yield Finding(at, "fairshare-path-invalid", message)
            elif above and above not in config.accounts:
                yield Finding(at, "fairshare-account-missing", f"there is no account {quote(above)}", _SOURCES)
            if text != PARENT and not (_NUMBER.fullmatch(text) and bounded_int(text, _MOST) <= _MOST):
                message = f"{quote(text)} is not a number of shares (allowed: 0 to {_MOST}, or 'parent')"
                yield Finding(at, "fairshare-shares-invalid", message)


def _name_problems(config: FairShareConfig) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for path in config.users:
        name = path.rpartition("/")[2]
        if path in config.accounts:
            message = f"{quote(path)} is an account and a user"
            yield Finding(("users", path), "fairshare-user-is-account", message)
        if (earlier := first.setdefault(name, path)) != path:
            message = f"the user {quote(name)} already exists ({quote(earlier)})"
            yield Finding(("users", path), "fairshare-user-duplicate", message)


def _decay_problems(config: FairShareConfig) -> Iterator[Finding]:
    for key, number in (("defaultshares", config.default_shares), ("halflife", config.half_life), ("bin", config.bin)):
        if number > _MOST:
            message = f"the number is too large (allowed: up to {_MOST})"
            yield Finding((key,), "fairshare-number-too-large", message)
    if config.bins > MAX_BINS:
        message = f"the number is too large (allowed: up to {MAX_BINS})"
        yield Finding(("bins",), "fairshare-number-too-large", message)
    if config.half_life and (config.bin or config.bins):
        message = "usage has a half-life or bins, but not both"
        yield Finding(("halflife",), "fairshare-decay-conflict", message)
    if bool(config.bin) != bool(config.bins):
        missing = "bins" if config.bin else "bin"
        message = f"bins have a length and a number (required: {missing})"
        yield Finding((), "fairshare-bins-missing", message, _SOURCES)


def _factor_problems(config: FairShareConfig) -> Iterator[Finding]:
    if config.decay != "1" and not config.bin:
        yield Finding(("decay",), "fairshare-decay-unused", "only bins have a factor (required: bin and bins)")
    if not _EXACT.fullmatch(config.decay) or Fraction(config.decay) > 1:
        message = f"{quote(config.decay)} is not a factor (allowed: 0 to 1, such as '1/2' or '0.5')"
        yield Finding(("decay",), "fairshare-decay-invalid", message)
    elif 0 < config.bins <= MAX_BINS and (fault := decay_fault(Fraction(config.decay), config.bins)) is not None:
        yield Finding(("decay",), "fairshare-decay-too-long", fault)


def _weight_problems(config: FairShareConfig) -> Iterator[Finding]:
    for name, text in config.weights.items():
        if not _EXACT.fullmatch(text):
            message = f"{quote(text)} is not a weight (expected: a number such as '10', '0.5' or '1/1024')"
            yield Finding(("weights", name), "fairshare-weight-invalid", message)


@final
class _ShareKind(ModelKind):
    def definitions(
        self,
        config: PartitionConfig,
        before: Sequence[ModelDefinition],  # noqa: ARG002 - shares depend on no others
    ) -> Iterator[ModelDefinition]:
        """Return the one definition."""
        yield ModelDefinition("fair_share", "fair shares", "", config.ugm.fair_share)

    def build(self, content: FairShareConfig) -> FairShares:
        """Return the model."""
        return declared_shares(content)

    def parts(self, definition: ModelDefinition) -> Iterator[ModelPart]:
        """Yield the settings, the accounts and the users."""
        content: FairShareConfig = definition.content
        yield ("settings", definition.kind), setting_texts(content, "accounts", "users")
        for kind, nodes in (("share account", content.accounts), ("share user", content.users)):
            yield from (((kind, path), {"shares": shares}) for path, shares in nodes.items())

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of shares."""
        for found in share_findings(config.ugm.fair_share or FairShareConfig()):
            yield found.below(("ugm", "fairshare"))


KIND: Final = _ShareKind()
