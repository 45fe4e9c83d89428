"""The configuration of all partitions of a server: the file, uploads and reviews."""

__all__: list[str] = []
