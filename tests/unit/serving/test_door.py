"""Who may call a service, and what its replica gets."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import NoPermission, NotFound, NotLoggedIn
from gpupool.model.tenant import Principal, UserRole
from gpupool.serving.door import check_caller, split_path
from gpupool.tenancy.access import PRINCIPAL_KEY
from gpupool.workspaces.upgrade import UPGRADE_EXTENSION


def make_scope(path: str, **more: Any) -> dict[str, Any]:
    return {"type": "http", "path": path, "raw_path": path.encode(), **more}


@pytest.mark.parametrize(
    ("path", "name", "inner"),
    [
        ("/services/web", "web", b"/"),
        ("/services/web/", "web", b"/"),
        ("/services/web/v1/models", "web", b"/v1/models"),
        ("/services/web//double/", "web", b"//double/"),
        ("/services/w%65b/a%2Fb", "web", b"/a%2Fb"),
    ],
)
def test_a_replica_gets_the_path_without_the_prefix(path: str, name: str, inner: bytes) -> None:
    found, scope = split_path(make_scope(path, extensions={UPGRADE_EXTENSION: 1, "other": 2}))
    assert (found, scope["raw_path"]) == (name, inner)
    assert scope["extensions"] == {"other": 2}


def test_a_path_without_a_service_is_not_found() -> None:
    with pytest.raises(NotFound):
        split_path(make_scope("/services/"))


def test_a_service_is_called_with_a_token_and_never_with_a_session() -> None:
    user = Principal(1, "ada", 1, "default", UserRole.USER)
    assert check_caller({PRINCIPAL_KEY: user}) is user
    with pytest.raises(NotLoggedIn):
        check_caller({})
    with pytest.raises(NotLoggedIn):
        check_caller({PRINCIPAL_KEY: Principal(1, "ada", 1, "default", UserRole.USER, session="5")})
    with pytest.raises(NoPermission):
        check_caller({PRINCIPAL_KEY: Principal(2, "eve", 1, "default", UserRole.VIEWER)})
