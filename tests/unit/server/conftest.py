"""Fixtures for the tests of the server."""

from support.server_fixtures import service, storage

__all__ = ["service", "storage"]
