"""The application is made of its routers, and making it builds none of their routes."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import routing
from fastapi.routing import iter_route_contexts

from gpupool.server.app import create_app, list_get_paths
from gpupool.server.config import ServerConfig
from tests.support.api import running_app


def test_making_an_app_builds_no_route_and_knows_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[object] = []
    build = routing._IncludedRouter._build_effective_context

    def count(self: routing._IncludedRouter, route: object) -> object:
        built.append(route)
        return build(self, route)  # type: ignore[arg-type]

    with running_app(tmp_path) as pool:
        monkeypatch.setattr(routing._IncludedRouter, "_build_effective_context", count)
        app = create_app(ServerConfig(state_dir=""), pool.services)
        assert built == []
        expected = set()
        for context in iter_route_contexts(app.routes):
            if not context.methods or "GET" in context.methods:
                expected.add(str(context.path))
        assert len(built) > 150
        assert set(list_get_paths(app)) == expected
