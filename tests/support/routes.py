"""Every route of the running app, taken from the app itself, with the permission that it asks
for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute, iter_route_contexts

from gpupool.model.tenant import Permission
from gpupool.tenancy.access import PermissionRequirement
from tests.support.api import RunningApp

#: Routes that a stranger may ask.
OPEN = {
    ("POST", "/login"),
    ("POST", "/logout"),
    ("POST", "/login/local"),
    ("GET", "/sso"),
    ("GET", "/sso/callback"),
    ("POST", "/sso/logout"),
    ("GET", "/api/v1/sso/ways"),
    ("POST", "/api/v1/sso/device"),
    ("POST", "/api/v1/sso/device/poll"),
    ("GET", "/openapi.json"),
    ("GET", "/healthz"),
}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    permissions: tuple[Permission, ...]
    summary: str
    description: str
    tags: tuple[str, ...]

    @property
    def address(self) -> str:
        """The path with something in the place of each parameter."""
        return "/".join("some-1" if part.startswith("{") else part for part in self.path.split("/"))


def walk(pool: RunningApp) -> Iterator[Route]:
    """Routes of every method. A route without methods is a WebSocket and has the method
    WEBSOCKET."""
    for context in iter_route_contexts(pool.app.routes):
        route, path = context.original_route, str(context.path)
        summary = description = ""
        tags: tuple[str, ...] = ()
        if isinstance(route, APIRoute):
            summary, description = route.summary or route.name, route.description
            tags = tuple(map(str, context.tags or ()))
        for method in sorted(context.methods or {"WEBSOCKET"}):
            if (method, path) != ("HEAD", "/openapi.json"):
                yield Route(method, path, tuple(permissions(route)), summary, description, tags)


def closed(pool: RunningApp) -> list[Route]:
    """Those that need a login."""
    return [route for route in walk(pool) if (route.method, route.path) not in OPEN]


def permissions(route: Any) -> Iterator[Permission]:
    """What a route or a WebSocket asks for; nothing for what is no route of ours."""
    waiting = [route.dependant] if hasattr(route, "dependant") else []
    while waiting:
        found = waiting.pop()
        waiting += found.dependencies
        if isinstance(found.call, PermissionRequirement):
            yield found.call.permission
