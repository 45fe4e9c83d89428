"""The endpoints of the REST interface; each is a function whose signature describes it."""

__all__: list[str] = []
