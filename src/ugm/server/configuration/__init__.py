"""The configuration of all partitions of a server: the file and uploads."""

__all__: list[str] = []
