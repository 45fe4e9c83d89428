"""The report of a replay as a self-contained HTML file, for ``ugm simulate --html``.

The file contains its styles, draws plots as inline SVG, and has no scripts. A plotting library would be a hundred times
as large as these plots, and would need scripts.
"""

from ugm.cli.html.page import page

__all__ = ["page"]
