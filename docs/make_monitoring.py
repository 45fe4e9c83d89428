"""Write the dashboard and the alert rules of ``examples/monitoring``, and the table of the page on metrics.

python docs/make_monitoring.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import yaml

from ugm.server.monitoring import alert_rules, dashboard, reference_table

__all__ = ["files"]

_DOCS: Final = Path(__file__).parent
_FOLDER: Final = _DOCS.parent / "examples" / "monitoring"
PAGE: Final = _DOCS / "reference" / "metrics.md"
BEGIN: Final = "<!-- metrics: made by docs/make_monitoring.py -->\n"
END: Final = "<!-- end of the metrics -->\n"


def files() -> dict[Path, str]:
    """Return the text of each generated file."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rules = yaml.safe_dump(alert_rules(), sort_keys=False, width=1000)
    return {
        _FOLDER / "grafana-dashboard.json": json.dumps(dashboard(), indent=1) + "\n",
        _FOLDER / "prometheus-alerts.yaml": rules,
        PAGE: f"{before}{BEGIN}\n{reference_table()}\n{END}{rest.partition(END)[2]}",
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
