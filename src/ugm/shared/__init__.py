"""A partition that several processes share, on as many machines as there are: its state is in PostgreSQL.

Needs the extra ``postgres``: ``pip install 'ugm[postgres]'``.
"""

from ugm.shared.errors import UnavailableError
from ugm.shared.partition import SharedPartition
from ugm.shared.presence import Owned, Process, RegistrationLost
from ugm.shared.view import SharedView

__all__ = ["Owned", "Process", "RegistrationLost", "SharedPartition", "SharedView", "UnavailableError"]
