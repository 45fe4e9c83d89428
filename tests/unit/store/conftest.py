"""The places of stores, which most tests use one after the other: a file, and a schema in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.postgres import shared_server
from ugm.store import PostgresLocation
from ugm.store.reader import StoreLocation

__all__ = ["shared_server"]


@pytest.fixture(name="location", params=["file", pytest.param("postgres", marks=pytest.mark.ci)])
def _location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """Return a place where no store is."""
    if request.param == "file":
        return str(tmp_path / "quota.store")
    server = request.getfixturevalue("shared_server")
    return PostgresLocation(server.conninfo, server.fresh_schema(), 1.0)


@pytest.fixture
def slow_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the test fold."""
    monkeypatch.setattr("ugm.store.store._FOLD_INTERVAL", 3600.0)
