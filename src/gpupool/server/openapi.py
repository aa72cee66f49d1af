"""The OpenAPI document: what FastAPI finds out by itself, and what every route here shares.

Each route says what it does in its docstring; here each gets the problems that any route may
answer with, the two ways to authenticate, and the header that makes a repetition safe.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gpupool import __version__
from gpupool.server.http.problems import MEDIA_TYPE
from gpupool.server.middleware.auth import OPEN_PATHS
from gpupool.server.middleware.idempotency import METHODS
from gpupool.wire.common import Problem

DESCRIPTION = """\
One pool for all your GPUs. On the pool's Unix socket the caller is known by the kernel; over TCP by a bearer token.
A browser has a session instead, by the cookie of POST /login; what changes something then needs `X-Gpupool: 1`.
Errors are `application/problem+json` (RFC 9457) with a stable `code`. Lists are pages: pass `next` as `after`.
A request with an `Idempotency-Key` may be repeated for 24 hours and takes effect once."""

TAGS = {
    "doors": "What needs no login.",
    "sign-on": "Identity providers, rules from groups to rights, passwords, leavers.",
    "pool": "The pool as a whole.",
    "tenancy": "Tenants, projects, users, tokens, quotas, and who is asking.",
    "fleet": "Nodes and devices.",
    "jobs": "Jobs, what they wait for and what they wrote.",
    "planning": "What would be different.",
    "events": "What happened, in order and without gaps.",
    "agents": "What a node's agent is told, and tells.",
    "workspaces": "Streams into running jobs, and links to the pages that they serve.",
    "metrics": "The pool's figures for Prometheus.",
    "services": "Replicas of one job behind one address, as many as their load needs.",
    "schedules": "Jobs that are submitted at the instants of a cron expression.",
    "templates": "Documents that make jobs of a few fields.",
    "faults": "Incidents of cards: what failed, which jobs it hit, what is proposed.",
    "advice": "Shares that fit the measured use of families of runs.",
    "idle": "Policies for jobs that do not use their share, and what they did.",
    "reservations": "Capacity held for a tenant from a time on.",
    "networks": "Networks of tenants, and the engine that carries them.",
    "notifications": "Messages about what happens, by mail and chat.",
    "metering": "What was promised, what was used, and what it adds up to.",
    "billing": "Prices, budgets, sealed months, and their documents.",
    "audit": "Records of what users did, in a chain of hashes.",
}
PROBLEMS = {
    "400": "What was asked makes no sense.",
    "401": "The request has no valid credentials.",
    "403": "The caller's role does not allow it.",
    "404": "There is none, or not in the caller's scope.",
    "405": "The path does not offer the method.",
    "409": "Understood, and refused; or another client was first.",
    "412": "Another generation than the one named.",
    "413": "The request is too large.",
    "422": "The request does not have the shape asked for.",
    "500": "A defect of the server.",
    "503": "The pool or its database cannot answer now.",
    "507": "The disk is full.",
}
_KEY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes it safe to repeat this request; 1 to 128 printable ASCII characters.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
}


def extend_openapi(app: FastAPI) -> None:
    """Make the app answer with our document; it is built at the first request and kept."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build_document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend the document


def build_document(app: FastAPI) -> dict[str, Any]:
    """Build the document of all routes."""
    document: dict[str, Any] = get_openapi(
        title="gpupool",
        version=__version__,
        description=DESCRIPTION,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    # FastAPI's own shape of a bad request; here it is a Problem.
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "gpp_… token"}
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method.upper(), operation)
    return document


def _complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers = operation["responses"]
    for status, text in PROBLEMS.items():
        answers[status] = {"description": text, "content": content}
    if path in OPEN_PATHS:
        operation["security"] = []
        return
    operation["security"] = [{"bearer": []}]
    if method in METHODS:
        operation.setdefault("parameters", []).append(_KEY_HEADER)
