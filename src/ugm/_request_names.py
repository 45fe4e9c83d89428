"""The names of resources in requests: those of a closed list, or any, with a warning for probable mistakes.

A limit of ``gpu`` does not limit a request for ``GPU``. A partition may therefore close the list of its names. Without
a list, a name that resembles a limited one is reported once. A name is compared only when a vector with it is compiled
and the name was not requested before, so decisions do not take longer.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Collection, Mapping
from typing import Final, final

from ugm.errors import RequestError, ResourceNameWarning, quote

__all__ = ["RequestNames", "unlisted"]

_LOGGER: Final = logging.getLogger("ugm.partition")
#: The maximum number of names that a partition compares.
_MAX_SEEN: Final = 100


@final
class RequestNames:
    """The names of resources that requests may have, and those that they probably should have.

    Args:
        listed: the closed list; empty for none.
        modelled: the names that other quota models use.
        seen: the names that were requested before.
    """

    __slots__ = ("_modelled", "listed", "seen")

    def __init__(
        self, listed: frozenset[str] = frozenset(), modelled: frozenset[str] = frozenset(), seen: set[str] | None = None
    ) -> None:
        self.listed: Final = listed
        self._modelled: Final = modelled
        self.seen: Final = set[str]() if seen is None else seen

    def with_names(self, listed: frozenset[str], modelled: frozenset[str]) -> RequestNames:
        """Return other names for the same partition."""
        return RequestNames(listed, modelled, self.seen)

    def allow(self, names: Collection[str]) -> bool:
        """Return whether all names are allowed."""
        return not self.listed or self.listed.issuperset(names)

    def require(self, argument: str, amounts: Mapping[str, int] | None) -> None:
        """Check the names of amounts.

        Raises:
            RequestError: a name is not in the closed list.
        """
        if amounts is None or self.allow(amounts):
            return
        name = next(name for name in amounts if name not in self.listed)
        raise RequestError(argument, amounts, unlisted(name, self.listed))

    def notice(self, name: str, limited: Collection[str]) -> None:
        """Warn about a name that resembles a limited one. The caller has found that it was not requested before.

        Args:
            name: the requested name.
            limited: the names that some limit has, except those of other quota models.
        """
        if len(self.seen) >= _MAX_SEEN:
            return
        self.seen.add(name)
        from ugm._spelling import resembles  # noqa: PLC0415 - most requests have only the names of limits

        known = self._modelled.union(limited)
        intended = None if name in known else next((one for one in sorted(known) if resembles(name, one)), None)
        if intended is not None:
            found = quote(intended)
            _warn(f"a request names the resource {quote(name)}, which no limit names: did you mean {found}?")


def unlisted(name: str, listed: Collection[str]) -> str:
    """Return the message about a name that is not in a closed list."""
    from ugm._spelling import did_you_mean  # noqa: PLC0415 - only for an error

    known = ", ".join(sorted(listed))
    return f"the resource {quote(name)} is not listed{did_you_mean(name, sorted(listed))} (listed: {known})"


def _warn(message: str) -> None:
    _LOGGER.warning(message)
    frame, level = sys._getframe(0), 1  # noqa: SLF001 - there is no other way to find the caller in Python 3.11
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("ugm."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ResourceNameWarning, stacklevel=level)
