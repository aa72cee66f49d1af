"""The application is made of its routers, and making it builds none of their routes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from gpupool.server.app import create_app, list_get_paths
from gpupool.server.config import ServerConfig
from tests.support.api import running_app


def test_making_an_app_builds_no_route_and_knows_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    build = APIRoute.__init__

    def count(self: APIRoute, path: str, *arguments: Any, **settings: Any) -> None:
        built.append(path)
        build(self, path, *arguments, **settings)

    with running_app(tmp_path) as pool:
        monkeypatch.setattr(APIRoute, "__init__", count)
        app = create_app(ServerConfig(state_dir=""), pool.services)
        paths = list_get_paths(app)
        assert built == []
        expected = set()
        for context in iter_route_contexts(app.routes):
            if not context.methods or "GET" in context.methods:
                expected.add(str(context.path))
        assert set(paths) == expected
        assert built == []
        app.openapi()
        assert len(built) > 150
