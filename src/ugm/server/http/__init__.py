"""HTTP: access, audit, the parts of requests and responses, and the dispatch to the endpoints."""

__all__: list[str] = []
