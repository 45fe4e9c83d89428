"""Numbers that identify one change, registration, structure or counter of a shared partition for ever.

Ids of applications and allocations are used again, and a database that is restored, or that loses its last changes in a
fail-over, also uses the values of its sequences again. A process may still know what had such an id before. So each
number that comparisons rely on is drawn at random from 2 ** 63: two of them are equal only if they are the same one.
"""

from __future__ import annotations

import secrets

__all__ = ["new_stamp"]


def new_stamp() -> int:
    """Return a number that has never been used, as a positive ``bigint``."""
    return secrets.randbits(63)
