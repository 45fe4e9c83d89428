"""Fixtures for the tests of the server."""

from support.server_fixtures import storage

__all__ = ["storage"]
