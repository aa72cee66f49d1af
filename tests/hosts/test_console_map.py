"""The console's pages of the pool in a real browser: Map, Queue, Quotas, Nodes and cards, Usage."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.console_browser import (
    add_package_path,
    collect_messages,
    find_missing,
    find_violations,
    open_browser,
)

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(bool(find_missing()), reason=find_missing())]

#: The pages, with a heading in each language.
PAGES = {
    "map": ("Map", "资源地图"),
    "queue": ("Queue", "队列"),
    "quotas": ("Quotas", "配额"),
    "nodes": ("Nodes and cards", "节点与卡"),
    "usage": ("Usage and cost", "用量与费用"),
}
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
#: Whether the first pixel of the map was painted: a canvas that is sized is transparent.
OPAQUE = (
    "document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data[3] === 255"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpc-"))
    made = RealPool(directory / "pool", "2x4xL40S")
    add_package_path(made.environ)
    with made:
        made.do("tenant", "create", "vision")
        made.do("quota", "set", "vision", "--gpus", "4", "--borrow", "2")
        for name, amount in (("wide", "0.5"), ("small", "0.25")):
            words = ("submit", "--gpu", amount, "--name", name, "--tenant", "vision")
            made.do(*words, "--max-time", "2h", "--", "sleep", "1000")
        for name in ("whole", "waits"):
            # Four cards are on one node, and the quota has room for one such job.
            made.do(
                "submit", "--gpu", "4", "--name", name, "--tenant", "vision", "--", "sleep", "1000"
            )
        made.until_state("whole", "running")
        yield made
        made.stop_all()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def login(pool: RealPool, browser: Any) -> dict[str, Any]:
    """The address of the console, and the state of a browser that is logged in."""
    link = json.loads(pool.do("console", "-o", "json"))
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(link["url"])
    page.wait_for_selector("nav")
    state = context.storage_state()
    context.close()
    return {"address": link["address"].rstrip("/"), "state": state}


def open_page(browser: Any, login: dict[str, Any], path: str, **options: Any) -> Any:
    context = browser.new_context(
        **{"viewport": WIDE, "locale": "en-GB", "storage_state": login["state"], **options}
    )
    page = context.new_page()
    page.messages = collect_messages(page)
    page.goto(f"{login['address']}/{path}")
    page.wait_for_selector("h1")
    return page


def read_live(page: Any) -> str:
    text: str = page.locator("[data-map-live]").inner_text()
    return text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    ("language", "scheme", "viewport"), [("en", "light", WIDE), ("zh", "dark", PHONE)]
)
def test_page_has_no_violation_and_no_message(
    browser: Any, login: dict[str, Any], path: str, language: str, scheme: str, viewport: Any
) -> None:
    locale = "zh-CN" if language == "zh" else "en-GB"
    page = open_page(browser, login, path, locale=locale, color_scheme=scheme, viewport=viewport)
    heading = PAGES[path][language == "zh"]
    assert page.locator("h1").inner_text() == heading
    # The last part of each page that comes: the chart of days is a file of its own.
    last = ".usage-chart canvas" if path == "usage" else ".panel"
    page.wait_for_selector(last)
    if path == "map":
        page.wait_for_selector("canvas[data-painted]")
    assert find_violations(page) == []
    if path == "map":
        assert page.evaluate(OPAQUE), "the canvas was sized again after it was drawn"
    # Neither sideways nor out of view on a phone.
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.messages == []
    page.context.close()


def test_map_is_walked_by_keys_and_names_the_shares(browser: Any, login: dict[str, Any]) -> None:
    page = open_page(browser, login, "map")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    found = [read_live(page)]
    for _ in range(7):
        page.keyboard.press("ArrowRight")
        found.append(read_live(page))
    assert len(set(found)) == 8, "eight cards, each with a sentence of its own"
    (shared,) = [text for text in found if "0.50" in text]
    assert "vision 0.50, vision 0.25, free 0.25" in shared
    # The table has the same cards, and leads to the same panel.
    page.get_by_text("Table", exact=True).click()
    rows = page.locator("tbody tr")
    assert page.locator("table[aria-rowcount='9']").count() == 1
    rows.filter(has_text="75").get_by_role("button").first.click()
    page.wait_for_selector("text=wide")
    page.context.close()


def test_quota_conflict_is_shown_and_nothing_is_lost(
    pool: RealPool, browser: Any, login: dict[str, Any]
) -> None:
    page = open_page(browser, login, "quotas")
    page.get_by_role("button", name="vision").click()
    guarantee = page.get_by_label("Guarantee, cards")
    guarantee.fill("3")
    page.wait_for_selector("text=The limit changes from 6.0 to 5.0.")
    pool.do("quota", "set", "vision", "--gpus", "5")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_selector("text=It is now: guarantee 5.0, may borrow 2.0.")
    assert guarantee.input_value() == "3"
    page.get_by_role("button", name="Save mine over it").click()
    page.wait_for_selector("text=Saved.")
    assert pool.json("quota", "show", "vision")["nominal_milli"] == 3000
    guarantee.fill("many")
    page.wait_for_selector("text=Write an amount of cards")
    assert page.get_by_role("button", name="Save", exact=True).is_disabled()
    page.context.close()


def test_cards_are_drained_by_their_plan(
    pool: RealPool, browser: Any, login: dict[str, Any]
) -> None:
    card = next(card for card in pool.json("gpus") if card["used_milli"] == 0)
    page = open_page(browser, login, "nodes")
    page.get_by_label(f"Select {card['name']}", exact=True).check()
    page.get_by_role("button", name="Drain…").click()
    page.wait_for_selector("text=No share is held on them.")
    page.get_by_role("button", name="Drain 1 card").click()

    def is_out() -> bool:
        (now,) = [each for each in pool.json("gpus") if each["name"] == card["name"]]
        return bool(now["state"] != "adopted")

    pool.until(is_out, "the card is out of the pool")
    pool.do("adopt", card["name"])
    page.context.close()


def test_queue_says_why_a_job_waits(browser: Any, login: dict[str, Any]) -> None:
    page = open_page(browser, login, "queue")
    page.get_by_role("button", name="waits").click()
    page.wait_for_selector("text=Why it waits")
    assert page.locator(".queue-lane").count() >= 1, "the running jobs below the axis"
    page.context.close()


def test_usage_closes_and_exports_its_rows(browser: Any, login: dict[str, Any]) -> None:
    page = open_page(browser, login, "usage")
    page.wait_for_selector("text=The books close exactly")
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    text = Path(started.value.path()).read_text(encoding="utf-8-sig")
    header, *rows = text.splitlines()
    assert header.startswith("kind,tenant,")
    kinds = {row.split(",")[0] for row in rows}
    assert {"tenant", "idle"} <= kinds
    page.context.close()
