"""Metrics of the server itself, as text: reloads and uploads of the configuration.

They are appended to the metrics of the program in the text format of Prometheus, in which the order of metrics does not
matter. Other formats have an end, so nothing is appended to them.
"""

from __future__ import annotations

from typing import Final

from ugm.server.configurations import Configurations
from ugm.server.metric_table import descriptions

__all__ = ["with_server_metrics"]

_TABLE: Final = descriptions()
_CHANGES: Final = (
    f"# HELP ugm_configuration_changes_total {_TABLE['ugm_configuration_changes'].sentence}\n"
    "# TYPE ugm_configuration_changes_total counter\n"
)


def _gauge(name: str, *, is_set: bool) -> str:
    return f"# HELP {name} {_TABLE[name].sentence}\n# TYPE {name} gauge\n{name} {int(is_set)}\n"


def with_server_metrics(content: bytes, media_type: str, configurations: Configurations) -> bytes:
    """Return metrics with those of the server."""
    if not media_type.startswith("text/plain"):
        return content
    samples = "".join(
        f'ugm_configuration_changes_total{{source="{source}",result="{result}"}} {count}\n'
        for (source, result), count in configurations.counts.items()
    )
    end = b"" if content.endswith(b"\n") or not content else b"\n"
    refused = _gauge("ugm_configuration_refused", is_set=bool(configurations.refused))
    unapplied = _gauge("ugm_configuration_unapplied", is_set=bool(configurations.unapplied))
    return content + end + f"{_CHANGES}{samples}{refused}{unapplied}".encode()
