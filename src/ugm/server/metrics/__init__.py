"""Metrics for Prometheus: their description, their values, and the exposition."""

__all__: list[str] = []
