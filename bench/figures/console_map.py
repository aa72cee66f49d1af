"""Frames and heap of the console's map with 10,000 cards in Chromium, while it is panned.

The page is the built console with its content security policy; the answers come from a stand-in
server, because the figure is the browser's alone.
"""

from __future__ import annotations

import json
import random
import re
import secrets
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.rows import Row
from tests.support.console_browser import (
    STATIC,
    await_condition,
    find_missing,
    open_browser,
)

NAME = "console-map"
COMMAND = "python -m bench console-map"
CARDS = 10_000
#: Of one of 60 frames a second.
FRAME_MS = 16
HEAP_MB = 150
#: Pixels of one step of the pan, and steps.
STEP = 37
STEPS = 240
_NONCE = re.compile(rb'(name="csp-nonce" content=")[^"]*')
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{}'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}
#: Scrolls one step a frame. `work` is from the scroll until the canvas is drawn: to read a pixel
#: waits for that. `frames` is the time between two frames as the browser has them.
_PAN = """
async ([steps, step]) => {
  const view = document.querySelector('.map-view')
  const context = document.querySelector('canvas').getContext('2d')
  const work = []
  const frames = []
  let last = await new Promise(requestAnimationFrame)
  for (let place = 0; place < steps; place++) {
    const frame = await new Promise(requestAnimationFrame)
    frames.push(frame - last)
    last = frame
    const start = performance.now()
    view.scrollTop += Math.floor(place / 60) % 2 === 0 ? step : -step
    view.dispatchEvent(new Event('scroll'))
    context.getImageData(0, 0, 1, 1)
    work.push(performance.now() - start)
  }
  return { work, frames, heap: performance.memory.usedJSHeapSize }
}
"""


def run(out: Path) -> list[Row]:
    del out
    missing = find_missing()
    if missing:
        raise SystemExit(f"{NAME}: {missing}")
    with (
        serve_console(make_answers()) as address,
        open_browser("--enable-precise-memory-info") as browser,
    ):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/map")
        drawn = "Number(document.querySelector('canvas')?.dataset.painted ?? 0)"
        tiles = await_condition(page, drawn, "the map is drawn")
        found = page.evaluate(_PAN, [STEPS, STEP])
        all_tiles = _zoom_out(page, drawn, tiles)
        small = page.evaluate(_PAN, [STEPS, 1])
    return [
        *describe(found, f"{tiles} cards in view"),
        *describe(small, f"{all_tiles} cards in view"),
    ]


def _zoom_out(page: Any, drawn: str, tiles: int) -> int:
    """Make the cells as small as they get; return how many are in view then."""
    for _ in range(6):
        page.locator(".map-zoom button").first.click()
    found: int = await_condition(page, f"{drawn} > {tiles} && {drawn}", "smaller cells")
    return found


def describe(found: dict[str, Any], note: str) -> list[Row]:
    """Make the rows of one pan."""
    work = sorted(found["work"])
    frames = sorted(found["frames"])
    return [
        Row(
            f"drawing of a frame while panning, {note}: 95th percentile",
            "ms",
            round(_find_quantile(work, 0.95), 2),
            COMMAND,
            limit=FRAME_MS,
            note=f"median {statistics.median(work):.2f}, longest {work[-1]:.2f}",
        ),
        Row(
            f"time between two frames while panning, {note}: median",
            "ms",
            round(statistics.median(frames), 2),
            COMMAND,
            note=f"95th percentile {_find_quantile(frames, 0.95):.1f}; the display has 16.7",
        ),
        Row(
            f"heap of the page, {note}",
            "MB",
            round(found["heap"] / 1e6, 1),
            COMMAND,
            limit=HEAP_MB,
        ),
    ]


def _find_quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def make_answers() -> dict[str, Any]:
    """Make what the server would answer: a map of 10,000 cards, and who is logged in."""
    return {
        "/api/v1/map": make_map(CARDS),
        "/api/v1/session": {
            "user": "bench",
            "tenant": "tenant-1",
            "role": "admin",
            "permissions": ["read"],
            "language": "en",
        },
        "/api/v1/pool": {"last_event": 0, "event_epoch": "", "simulated": True, "devices": CARDS},
        "/api/v1/capacity": {"models": []},
    }


def make_map(count: int) -> dict[str, Any]:
    """Make the columns of a pool of so many cards, eight a node, with up to four shares each."""
    draw = random.Random(20261129)
    cards = range(count)
    nodes = range((count + 7) // 8)
    shares: list[int] = []
    mib: list[int] = []
    held: list[int] = []
    for card in cards:
        milli = 0
        for _ in range(draw.randrange(5)):
            size = min(1000 - milli, 50 * draw.randrange(1, 7))
            if size == 0:
                break
            shares += [card, draw.randrange(12), size]
            mib.append(size * 80)
            milli += size
        held.append(milli)
    return {
        "seq": 1,
        "simulated": True,
        "nodes": {
            "name": [f"node-{node}" for node in nodes],
            "rack": [f"rack-{node // 32}" for node in nodes],
            "domain": [f"block-{node // 128}" for node in nodes],
        },
        "cards": {
            "id": list(cards),
            "node": [card // 8 for card in cards],
            "index": [card % 8 for card in cards],
            "model": [card // 8 % 3 for card in cards],
            "state": ["adopted" for _ in cards],
            "health": ["failed" if draw.random() < 0.005 else "ok" for _ in cards],
            "mechanism": ["share" for _ in cards],
            "held_milli": held,
            "used_milli": [int(milli * draw.random()) for milli in held],
            "memory_bytes": [80 * 2**30 for _ in cards],
            "held_bytes": [milli * 80 * 2**20 for milli in held],
            "largest_milli": [1000 - milli for milli in held],
        },
        "models": ["H200", "A100", "L40S"],
        "tenants": [f"tenant-{tenant}" for tenant in range(12)],
        "shares": shares,
        "share_mib": mib,
    }


@contextmanager
def serve_console(answers: dict[str, Any]) -> Iterator[str]:
    """Serve the built console and these answers on a port of this machine; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Write nothing: the figures are the output."""

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path.startswith("/api/"):
                body = json.dumps(answers.get(path)).encode()
                self._answer(200 if path in answers else 404, body, "application/json")
                return
            file = STATIC / path.lstrip("/")
            if not file.is_file():
                file = STATIC / "index.html"
            nonce = secrets.token_urlsafe(16)
            body = file.read_bytes()
            if file.suffix == ".html":
                body = _NONCE.sub(rb"\g<1>" + nonce.encode(), body)
            self._answer(200, body, _TYPES.get(file.suffix, "text/html"), nonce)

        def _answer(self, status: int, body: bytes, kind: str, nonce: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", _POLICY.format(nonce))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
