"""A late route answers, is documented and is limited as FastAPI's own, and is built once asked."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel

from gpupool.api.late_routes import LateRoute, Router, place_under


class Thing(BaseModel):
    name: str
    size: int = 1


def find_caller() -> str:
    return "somebody"


def add_routes(router: APIRouter) -> APIRouter:
    @router.post("/things/{kind}", status_code=201)
    def make_thing(
        kind: str, thing: Thing, caller: Annotated[str, Depends(find_caller)]
    ) -> dict[str, str | int]:
        """Make a thing."""
        return {"kind": kind, "name": thing.name, "size": thing.size, "caller": caller}

    @router.get("/hidden", include_in_schema=False)
    def get_hidden() -> Thing:
        return Thing(name="hidden")

    return router


def ask(app: FastAPI, method: str, path: str, body: object) -> list[tuple[object, object]]:
    """The status and the body of an answer, as the app sends them."""
    sent: list[tuple[object, object]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append((message.get("status"), message.get("body")))

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path}
    scope |= {"raw_path": path.encode(), "query_string": b"", "root_path": "", "client": None}
    scope |= {"headers": [(b"content-type", b"application/json")], "server": ("pool", None)}
    asyncio.run(app(scope | {"scheme": "http"}, receive, send))
    return sent


def test_answers_and_document_are_those_of_routes_of_fastapi() -> None:
    usual, late = FastAPI(), FastAPI()
    usual.include_router(add_routes(APIRouter(tags=["things"])), prefix="/api")
    late.router.routes.extend(place_under(add_routes(Router(tags=["things"])), "/api"))
    for method, path, body in (
        ("POST", "/api/things/round", {"name": "ball"}),
        ("POST", "/api/things/round", {"size": "many"}),
        ("GET", "/api/things/round", None),
        ("GET", "/api/hidden", None),
        ("GET", "/api/nothing", None),
    ):
        assert ask(late, method, path, body) == ask(usual, method, path, body)
    assert late.openapi() == usual.openapi()


def test_a_route_is_built_when_more_than_its_path_is_asked_of_it() -> None:
    (route, _) = add_routes(Router()).routes
    assert isinstance(route, LateRoute)
    assert (route.path, route.methods) == ("/things/{kind}", {"POST"})
    copied = copy.copy(route)
    assert "dependant" not in route.__dict__
    assert route.status_code == 201
    assert route.__dict__["dependant"].call is route.endpoint
    assert not hasattr(route, "nothing")
    assert copied.path == route.path
    assert "dependant" not in copied.__dict__


def test_routes_of_another_router_are_refused() -> None:
    with pytest.raises(TypeError, match="make its router with Router"):
        place_under(add_routes(APIRouter()), "/api")
