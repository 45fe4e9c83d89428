"""Responses to GET requests: ETags, compression, and the time of the data."""

from __future__ import annotations

import gzip
import json

import pytest

from support.server_fixtures import PREFIX, busy, client
from ugm import Resource
from ugm.server.payloads import Payload
from ugm.server.representation import accepts_gzip, prepare


def test_an_unchanged_response_is_not_sent_again() -> None:
    """A client with the ETag of its copy gets 304 without a body until something changes."""
    partition = busy()
    server = client(partition)
    first = server.get(f"{PREFIX}/queues")
    headers = {"if-none-match": f'"other", {first.headers["etag"]}'}
    again = server.get(f"{PREFIX}/queues", headers=headers)
    partition.allocate("more", "app", Resource(memory=1))
    changed = server.get(f"{PREFIX}/queues", headers=headers)

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"


def test_responses_state_the_time_of_their_data() -> None:
    """The header has the time before the data were read, also without a body."""
    server = client(busy())
    first = server.get("/api/v1/health")
    again = server.get("/api/v1/health", headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, first.headers["ugm-as-of"], again.headers["ugm-as-of"]) == (304, "7.000", "7.000")


def test_errors_and_changes_are_not_stored() -> None:
    """An error has no ETag, and clients must not store it."""
    answer = client(busy()).get(f"{PREFIX}/allocation/none")

    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    assert "etag" not in answer.headers


def test_long_bodies_are_compressed() -> None:
    """A body of a kilobyte is compressed if the client accepts it; the ETag is that of the content."""
    payload = Payload(200, json.dumps(["name"] * 1000).encode())
    plain, compressed = prepare(payload, 0, compress=False), prepare(payload, 0, compress=True)
    response = compressed.response({})

    assert plain.response({}).body == payload.content
    assert gzip.decompress(bytes(response.body)) == payload.content
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["content-length"] == str(len(response.body))
    assert plain.etag == compressed.etag
    assert prepare(Payload(200, b"[]"), 0, compress=True).compressed == b""


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip, deflate", True),
        ("br;q=1.0, GZIP ;q=0.5", True),
        ("gzip\t;\tQ=1.", True),
        ("*", True),
        ("*;q=0, gzip;q=0.001", True),
        ("identity", False),
        ("identity, gzip; Q=0", False),
        ("gzip;q=0.0", False),
        ("gzip;q=0.000, *", False),
        ("gzip;q=0.", False),
        ("*;q=0", False),
    ],
)
def test_only_accepted_codings_are_used(header: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Only clients that name gzip, or all codings, get compressed bodies."""
    assert accepts_gzip({"accept-encoding": header}) is expected


@pytest.mark.parametrize(
    "weight", ["q=", "q=x", "q=-1", "q=2", "q=1.5", "q=0.1234", "q=1e9", "q=nan", "q= 1", "x=1", ""]
)
def test_a_coding_with_a_malformed_weight_is_ignored(weight: str) -> None:
    """A coding whose weight is malformed counts as not named."""
    assert not accepts_gzip({"accept-encoding": f"br, gzip;{weight}"})
    assert accepts_gzip({"accept-encoding": f"gzip;{weight}, *;q=0.5"})


def test_a_client_without_preferences_gets_plain_bodies() -> None:
    """A request without the header is not answered with gzip."""
    assert not accepts_gzip({})
