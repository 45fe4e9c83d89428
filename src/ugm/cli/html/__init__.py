"""The report of a replay as one HTML file: what ``ugm simulate --html`` writes.

The file needs nothing else and fetches nothing: styles are in it, plots are SVG in it, and it has no script. A library
for plots would be a hundred times as large as what is drawn here, and would need scripts to draw it.
"""

from ugm.cli.html.page import page

__all__ = ["page"]
