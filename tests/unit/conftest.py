"""Fixtures for tests of single modules."""

from support.service_fixtures import new_partition

__all__ = ["new_partition"]
