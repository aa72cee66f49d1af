"""One running app for the tests of the whole API, and callers of every role."""

from collections.abc import Iterator

import pytest

from gpupool.model.tenant import UserRole
from tests.support.api import Client, RunningApp, running_app


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("pool")) as running:
        yield running


@pytest.fixture(scope="module")
def callers(pool: RunningApp) -> dict[UserRole, Client]:
    """A caller of each role, known by token."""
    admin = pool.client()
    made = {}
    for role in UserRole:
        name = f"some-{role}"
        assert admin.post("users", {"name": name, "role": role}).status == 201
        made[role] = pool.client(None, token=pool.token(name))
    return made
