"""The OpenAPI document is complete and true: schemathesis sends what it allows, and more, and no
answer is a 5xx.

In this process, bounded in examples and with a fixed seed, so that a red run is red again. A router
that is mounted later is tested too.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.model.tenant import UserRole
from gpupool.server.middleware.auth import OPEN_PATHS
from gpupool.tenancy.access import PEER_EXTENSION
from tests.support.api import Client, RunningApp, running_app

METHODS = ("get", "put", "post", "patch", "delete")
ENDLESS = "/api/v1/watch"
#: What a browser is led to: their errors are pages for people.
PAGES = frozenset({"/sso", "/sso/callback"})
#: Of each operation, every time; and at night, when other callers and PostgreSQL come too.
EXAMPLES, NIGHTLY_EXAMPLES = 3, 10


@pytest.fixture(scope="module")
def document(pool: RunningApp) -> dict:
    return pool.client().get("/openapi.json").json()


def operations(document: dict) -> Iterator[tuple[str, str, dict]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield method, path, operation


def test_every_operation_is_summed_up_described_and_tagged(document: dict) -> None:
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        assert set(operation["tags"]) <= {tag["name"] for tag in document["tags"]}, (method, path)


def test_operations_have_names_of_their_own(document: dict) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))


def test_every_operation_says_which_problems_it_answers_with(document: dict) -> None:
    for method, path, operation in operations(document):
        for status in ("401", "403", "404", "409", "422", "503"):
            content = operation["responses"][status]["content"]
            assert list(content) == ["application/problem+json"], (method, path, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_successful_answer_that_has_a_body_has_a_shape(document: dict) -> None:
    for method, path, operation in operations(document):
        found = [
            answer for status, answer in operation["responses"].items() if status in ("200", "201")
        ]
        for answer in found:
            shapes = [media.get("schema") for media in answer.get("content", {}).values()]
            assert path.endswith(("/watch", "/metrics")) or (shapes and all(shapes)), (method, path)


def test_whatever_changes_something_can_be_repeated_under_a_key(document: dict) -> None:
    for method, path, operation in operations(document):
        named = {one["name"] for one in operation.get("parameters", [])}
        assert ("Idempotency-Key" in named) == (method != "get" and path not in OPEN_PATHS), (
            method,
            path,
        )


class As:
    """The app, as one caller has it: what schemathesis sends, plus who that caller is."""

    def __init__(self, client: Client) -> None:
        self._app, self._peer, self._token = client.app, client.peer, client.token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            headers = [(k, v) for k, v in scope["headers"] if k != b"authorization"]
            headers += [(b"authorization", f"Bearer {self._token}".encode())] if self._token else []
            extensions = {PEER_EXTENSION: self._peer} if self._peer else {}
            scope = {**scope, "headers": headers, "extensions": extensions}
        await self._app(scope, receive, send)


def add_cards(pool: RunningApp) -> None:
    """A node with two cards in the pool, so that jobs have somewhere to go."""
    cards = [
        {"uuid": f"GPU-{n}", "index": n, "vendor": "nvidia", "product": "H200", "model": "H200"}
        | {"memory_bytes": 141 << 30, "simulated": True, "health": "ok"}
        for n in range(2)
    ]
    body = {"devices": cards, "simulated": True, "adopt": True}
    assert pool.client().put("nodes/node-1", body).status == 200


@pytest.mark.adversary
def test_nothing_that_is_sent_makes_the_server_fail(pool: RunningApp, document: dict) -> None:
    add_cards(pool)
    statuses = exercise_all(pool, document, pool.client(), EXAMPLES)
    assert sum(status < 400 for status in statuses) > 100


@pytest.mark.adversary
@pytest.mark.nightly
@pytest.mark.parametrize("role", [None, UserRole.TENANT_ADMIN, UserRole.AGENT])
def test_nothing_that_anybody_sends_makes_the_server_fail(
    pool: RunningApp, callers: dict[UserRole, Client], document: dict, role: UserRole | None
) -> None:
    add_cards(pool)
    caller = callers[role] if role else pool.client()
    statuses = exercise_all(pool, document, caller, NIGHTLY_EXAMPLES)
    assert sum(status < 400 for status in statuses) > (10 if role is UserRole.AGENT else 100)


@pytest.mark.adversary
@pytest.mark.nightly
def test_nothing_that_is_sent_makes_the_server_fail_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    with running_app(tmp_path, url=postgres_url) as pool:
        add_cards(pool)
        owner = pool.client()
        document = owner.get("/openapi.json").json()
        statuses = exercise_all(pool, document, owner, NIGHTLY_EXAMPLES)
    assert sum(status < 400 for status in statuses) > 100


def exercise_all(pool: RunningApp, document: dict, caller: Client, examples: int) -> list[int]:
    """Send what the generator makes of every operation but the endless one; the statuses of the
    answers."""
    pool.app.state.brake.LONGEST_SECONDS = 0.0  # many logins fail here, and none is held back
    schema = schemathesis.openapi.from_dict(document)
    schema.app = app = As(caller)
    found = [one.ok() for one in schema.exclude(path=ENDLESS).get_all_operations()]
    statuses = [status for operation in found for status in exercise(operation, app, examples)]
    assert len(statuses) > 300
    return statuses


def exercise(
    operation: "schemathesis.schemas.APIOperation", app: ASGIApp, examples: int
) -> list[int]:
    """Send what the generator makes of one operation; the statuses of the answers."""
    statuses: list[int] = []
    path = operation.path

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: schemathesis.Case) -> None:
        if "wait_seconds" in (case.query or {}):
            case.query["wait_seconds"] = 0
        response = case.call(app=app)
        statuses.append(response.status_code)
        assert response.status_code < 500, (operation.label, response.text)
        if response.status_code >= 400:
            kind = "text/html; charset=utf-8" if path in PAGES else "application/problem+json"
            assert response.headers["content-type"] == [kind], (operation.label, response.text)

    given(case=operation.as_strategy())(send)()
    return statuses
