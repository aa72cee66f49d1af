"""The SDK's money: each use is one request of the REST API, and every route has a use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from gpupool.base.errors import WrongState
from gpupool.client import Pool
from gpupool.client.money import Money
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

OPENAPI = Path(__file__).parents[3] / "docs/reference/openapi.json"
ROUTES = re.compile(r"/api/v1/(prices|budgets|statements|documents|seals|adjustments)\b")
USES: tuple[Callable[[Money], object], ...] = (
    lambda money: money.prices(),
    lambda money: money.price_list("x"),
    lambda money: money.set_prices("x", {}),
    lambda money: money.delete_prices("x"),
    lambda money: money.budgets(),
    lambda money: money.budget("x"),
    lambda money: money.set_budget({}),
    lambda money: money.delete_budget("x"),
    lambda money: money.statement("x"),
    lambda money: money.document("x", "xlsx"),
    lambda money: money.seals(),
    lambda money: money.seal("x"),
    lambda money: money.adjustments(),
    lambda money: money.adjust({}),
)
REFUSAL = {"code": WrongState.code, "detail": "no", "status": 409}


def refuse(_asked: Request) -> bytes:
    return reply(REFUSAL, status=409)


def test_every_route_of_money_has_a_use(tmp_path: Path) -> None:
    paths = json.loads(OPENAPI.read_text())["paths"]
    routes = {
        (method.upper(), re.sub(r"{\w+}", "x", path))
        for path, methods in paths.items()
        if ROUTES.match(path)
        for method in methods
    }
    used = set()
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        for use in USES:
            try:
                use(Money(pool.api))
            except WrongState:
                continue
        for asked in server.requests:
            used.add((asked.method, asked.target.partition("?")[0]))
    assert used == routes


def test_a_document_is_bytes_whatever_kind_it_is(tmp_path: Path) -> None:
    content = b"PK\x03\x04\xff\x00"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: {len(content)}"

    def answer(asked: Request) -> bytes:
        if "format=focus" in asked.target:
            text = "\ufeffBilledCost\r\n".encode()
            kind = "Content-Type: text/csv; charset=utf-8"
            return (
                f"HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
            )
        return f"{head}\r\n\r\n".encode() + content

    with ScriptedPool(tmp_path, answer), Pool(tmp_path) as pool:
        money = Money(pool.api)
        assert money.document("2026-11", "pdf") == content
        assert money.document("2026-11", "focus").startswith(b"\xef\xbb\xbfBilledCost")
