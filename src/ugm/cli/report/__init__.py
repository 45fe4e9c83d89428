"""The report of a replay, and of a comparison of replays, for the terminal and as an HTML file."""

__all__: list[str] = []
