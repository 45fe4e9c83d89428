"""The HTTP server of the webhook: ``POST /kubernetes/admit`` and ``GET /healthz``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ugm.integrations.kubernetes.reviews import API_VERSION, review_of
from ugm.kubernetes import ManifestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from ugm.integrations.kubernetes.admission import PodAdmission

__all__ = ["create_app"]

#: The largest request in bytes. Objects of Kubernetes have up to 1.5 MiB, and a review can contain two.
_LARGEST: Final = 8 * 2**20


def create_app(admission: PodAdmission) -> Starlette:
    """Return the application that answers the API server."""

    async def admit(request: Request) -> Response:
        if not 0 < int(request.headers.get("content-length", "0")) <= _LARGEST:
            return PlainTextResponse(f"expected a content-length of 1 to {_LARGEST}\n", 413)
        try:
            review, uid = review_of(await request.json())
        except (ManifestError, ValueError, RecursionError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        answer = await admission.answer(review)
        body = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid, **answer}}
        return JSONResponse(body)

    async def is_healthy(_: Request) -> Response:
        return PlainTextResponse("ready\n") if admission.grants.is_ready else PlainTextResponse("not ready\n", 503)

    return Starlette(routes=[Route("/kubernetes/admit", admit, methods=["POST"]), Route("/healthz", is_healthy)])
