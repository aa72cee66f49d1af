"""Requests for route functions that are called without a server: a scope and its application."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from starlette.types import Message

from tests.support.house import House


def make_request(house: House, messages: list[Message] | None = None, **scope: Any) -> Request:
    """A request of an application with the services of a house.

    Its client sends these messages, and then stays connected and silent.
    """
    app = FastAPI()
    app.state.store = house.store
    app.state.allocations = house.allocations
    coming = list(messages or ())

    async def receive() -> Message:
        if not coming:
            # A client that stays connected and sends nothing more: only a cancellation ends it.
            await asyncio.Event().wait()
        return coming.pop(0)

    return Request({"type": "http", "app": app, "headers": [], **scope}, receive)
