"""Routes that FastAPI builds at their first request.

A route of FastAPI reads its function's signature and builds validators for what it takes and gives.
For all of the API that is a quarter of the processor time of a server's start, and most servers
answer a few routes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, compile_path


class LateRoute(APIRoute):
    """A route that knows its path and its methods, and becomes the whole when more is asked of it.

    Attributes that are not there yet are looked up by `__getattr__`, which builds them all. Two
    threads may build at once: each stores equal values.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: Iterable[str] | None = None,
        name: str | None = None,
        include_in_schema: bool = True,
        **settings: Any,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.name = name or endpoint.__name__
        self.methods = {method.upper() for method in methods or ["GET"]}
        self.include_in_schema = include_in_schema
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        # Names of the interpreter's and of `copy` are asked for before there is anything to build.
        if name.startswith("__") or name == "_settings" or "dependant" in self.__dict__:
            raise AttributeError(name)
        built = APIRoute(self.path, self.endpoint, **self._list_settings())
        self.__dict__.update(built.__dict__)
        return getattr(built, name)

    def under(self, prefix: str) -> LateRoute:
        """Return the same route with its path under a prefix."""
        return LateRoute(f"{prefix}{self.path}", self.endpoint, **self._list_settings())

    def _list_settings(self) -> dict[str, Any]:
        return {
            **self._settings,
            "methods": sorted(self.methods or ()),
            "name": self.name,
            "include_in_schema": self.include_in_schema,
        }


class Router(APIRouter):
    """A router whose routes are built late; FastAPI's own otherwise."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(route_class=LateRoute, **settings)


def place_under(router: APIRouter, prefix: str) -> list[BaseRoute]:
    """List the routes of a router for an app that has them under a prefix.

    `include_router` builds each once more when a request passes it on its way to another.

    Raises:
        TypeError: A route of the router was not made by `Router`.
    """
    routes = list[BaseRoute]()
    for route in router.routes:
        if not isinstance(route, LateRoute):
            raise TypeError(f"{route} is no LateRoute: make its router with Router")
        routes.append(route.under(prefix))
    return routes
