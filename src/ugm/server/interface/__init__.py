"""The description of the REST interface, derived from the signatures of the endpoints and of the operations."""

__all__: list[str] = []
