"""The console's pages of people, money, networks and plans in a real browser, on a simulated pool.

Each page is opened here; further acts on them are for the nightly run.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.probes.simulated_health import set_health
from tests.e2e.pool_fixture import RealPool
from tests.support.console_browser import (
    add_package_path,
    await_condition,
    collect_messages,
    find_missing,
    find_violations,
    open_browser,
)

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(bool(find_missing()), reason=find_missing())]

WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
#: The pages, with a heading in each language.
PAGES = {
    "people": ("People", "人员"),
    "people?part=tokens": ("People", "人员"),
    "people?part=signon": ("People", "人员"),
    "schedules": ("Schedules", "定时任务"),
    "serving": ("Services", "服务"),
    "idle": ("Idle jobs", "空闲任务"),
    "advice": ("Advice", "用量建议"),
    "budgets": ("Budgets and prices", "预算与价格"),
    "budgets?part=prices": ("Budgets and prices", "预算与价格"),
    "networks": ("Networks", "网络"),
    "reservations": ("Reservations", "预留"),
    "defrag": ("Defragment", "碎片整理"),
    "whatif": ("What if", "假设推演"),
    "health": ("Health", "健康"),
    "settings": ("Settings", "设置"),
    "settings?part=pool": ("Settings", "设置"),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    # A short path: the pool's socket is below it.
    with tempfile.TemporaryDirectory(prefix="gpc-") as directory:
        made = RealPool(Path(directory) / "pool", "2x2xL40S")
        add_package_path(made.environ)
        with made:
            made.do("tenant", "create", "vision")
            made.do("user", "add", "ada", "--tenant", "vision", "--unix-user", "none")
            made.do("budget", "set", "vision", "--gpu-hours", "100")
            made.do(
                "price",
                "set",
                "now",
                "--from",
                "2026-01",
                "--currency",
                "EUR",
                "--price",
                "*:2",
                "--yes",
            )
            words = ("reservation", "create", "demo", "--gpu", "1", "--count", "2")
            made.do(*words, "--start", "2099-01-01T08:00", "--for", "4h")
            yield made
            made.stop_all()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def login(pool: RealPool, browser: Any) -> dict[str, Any]:
    """The console's address, and the state of an admin's browser."""
    link = json.loads(pool.do("console", "-o", "json"))
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(link["url"])
    page.wait_for_selector("nav")
    state = context.storage_state()
    context.close()
    return {"address": link["address"].rstrip("/"), "state": state}


@pytest.fixture
def page(browser: Any, login: dict[str, Any]) -> Iterator[Any]:
    """A page of an admin; whatever the browser complains of fails the test."""
    context = browser.new_context(viewport=WIDE, locale="en-GB", storage_state=login["state"])
    opened = context.new_page()
    messages = collect_messages(opened)
    yield opened
    context.close()
    # The server's refusals, which some tests ask for.
    assert [text for text in messages if not text.startswith("Failed to load resource")] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("language", "scheme", "viewport"), [("en", "light", WIDE), ("zh", "dark", PHONE)]
)
def test_pages_have_no_finding_and_no_message(
    browser: Any, login: dict[str, Any], language: str, scheme: str, viewport: dict[str, int]
) -> None:
    """Rules of accessibility, messages of the browser and of the policy, words, width: each page."""
    locale = {"en": "en-GB", "zh": "zh-CN"}[language]
    words = {"viewport": viewport, "locale": locale, "color_scheme": scheme}
    context = browser.new_context(storage_state=login["state"], **words)
    opened = context.new_page()
    messages = collect_messages(opened)
    for path, titles in PAGES.items():
        if viewport is PHONE and "?" in path:
            continue  # The same parts as on their first tab.
        opened.goto(f"{login['address']}/{path}")
        opened.wait_for_selector("h1")
        assert opened.locator("h1").inner_text() == titles[language == "zh"]
        opened.wait_for_selector("main .panel")
        await_condition(opened, "document.getAnimations().length === 0", "the end of the fade")
        assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert (path, find_violations(opened)) == (path, [])
    assert messages == []
    context.close()


def test_token_is_shown_once_and_revoked_by_its_plan(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/people?part=tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Label").fill("nightly")
    page.get_by_label("Valid for, days").fill("soon")
    page.wait_for_selector("text=Write whole days")
    assert page.get_by_role("button", name="Create the token").is_disabled()
    page.get_by_label("Valid for, days").fill("7")
    page.get_by_role("button", name="Create the token").click()
    secret = page.locator(".secret code").inner_text()
    assert secret.startswith("gpp_")
    (token,) = [each for each in pool.json("token", "list") if each["label"] == "nightly"]
    page.reload()
    page.get_by_role("button", name="Revoke… nightly").click()
    assert page.locator(".secret").count() == 0
    page.get_by_role("button", name="Revoke 1 token").click()
    page.wait_for_selector("text=nightly", state="detached")
    assert token["id"] not in [each["id"] for each in pool.json("token", "list")]


@pytest.mark.nightly
def test_user_is_made_refused_at_its_field_and_disabled(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/people")
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_role("button", name="Create the user").click()
    page.wait_for_selector("text=GP-2006")
    assert "there is already a user" in page.locator(".mantine-InputWrapper-error").inner_text()
    page.get_by_label("Name", exact=True).fill("nightly-report")
    page.get_by_text("service account", exact=True).click()
    page.get_by_role("button", name="Create the user").click()
    page.get_by_role("button", name="Disable… nightly-report").click()
    page.get_by_role("button", name="Disable 1 user").click()
    page.get_by_role("button", name="Enable nightly-report").wait_for()
    (user,) = [each for each in pool.json("user", "list") if each["name"] == "nightly-report"]
    assert (user["kind"], user["disabled"]) == ("service", True)


@pytest.mark.nightly
def test_rules_say_what_a_login_gets(page: Any, login: dict[str, Any]) -> None:
    page.goto(f"{login['address']}/people?part=signon")
    page.get_by_role("button", name="Add a rule").click()
    page.get_by_role("group", name="Rule 1").get_by_label("Group").fill("gpu-vision")
    page.get_by_role("group", name="Rule 1").get_by_label("Tenant").fill("vision")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save the rules").click()
    page.wait_for_selector("text=They count from the next login on.")
    page.get_by_label("Groups").fill("gpu-vision")
    page.get_by_role("button", name="Ask the rules").click()
    page.wait_for_selector("text=Rule 1 fits first.")
    page.get_by_label("Groups").fill("strangers")
    page.get_by_role("button", name="Ask the rules").click()
    page.wait_for_selector("text=This login is refused: no rule fits.")


def test_budget_conflict_is_shown_and_nothing_is_lost(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/budgets")
    page.get_by_role("button", name="Change… vision").click()
    amount = page.get_by_label("Amount, card-hours")
    amount.fill("300")
    pool.do("budget", "set", "vision", "--gpu-hours", "200")
    page.get_by_role("button", name="Save the budget").click()
    page.wait_for_selector("text=The budget is now 200.0 card-hours.")
    assert amount.input_value() == "300"
    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save the budget").click()
    page.wait_for_selector("[role=dialog]", state="detached")
    (budget,) = pool.json("budget", "list")
    assert budget["amount"] == 300 * 3_600_000


def test_schedule_shows_its_instants_and_keeps_what_is_typed(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/schedules")
    page.get_by_role("button", name="New schedule").click()
    page.get_by_label("Schedule", exact=True).fill("nightly")
    cron = page.get_by_label("Cron expression")
    cron.fill("61 2 * * *")
    page.wait_for_selector("text=Bad minute (GP-1084)")
    assert find_violations(page) == []
    cron.fill("30 3 1 1 *")
    instants = page.get_by_role("dialog").locator("ol li")
    instants.filter(has_text="1 Jan").nth(4).wait_for()
    page.get_by_label("Command", exact=True).fill("python eval.py")
    page.get_by_role("button", name="Save the schedule").click()
    page.get_by_role("button", name="Change… nightly").click()
    assert page.get_by_label("Command", exact=True).input_value() == "python eval.py"
    cron.fill("30 4 * * *")
    pool.do("schedule", "change", "nightly", "--cron", "0 5 * * *")
    page.get_by_role("button", name="Save the schedule").click()
    page.wait_for_selector("text=The schedule is now 0 5 * * *, UTC.")
    assert cron.input_value() == "30 4 * * *"
    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save the schedule").click()
    page.wait_for_selector("[role=dialog]", state="detached")
    (schedule,) = pool.json("schedule", "list")
    assert (schedule["cron"], schedule["command"]) == ("30 4 * * *", ["python", "eval.py"])


@pytest.mark.nightly
@pytest.mark.nightly
@pytest.mark.nightly
@pytest.mark.nightly
def test_month_is_downloaded_or_refused_with_its_code(page: Any, login: dict[str, Any]) -> None:
    page.goto(f"{login['address']}/usage")
    with page.expect_download() as started:
        page.get_by_role("button", name="FOCUS 1.2").click()
    header = Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines()[0]
    assert "BilledCost" in header
    assert started.value.suggested_filename.endswith(".csv")


def test_reservation_says_what_it_meets_and_is_refused_with_numbers(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/reservations")
    lane = page.locator(".resv-lane.draft")
    box = lane.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=3)
    page.mouse.up()
    hours = float(page.get_by_label("For, hours").input_value())
    # A fifth of an axis of 84 hours, at whole hours.
    assert 16 <= hours <= 18
    page.keyboard.press("Escape")
    end = page.get_by_role("slider", name="End of the new reservation")
    end.press("PageDown")
    end.press("Enter")
    assert float(page.get_by_label("For, hours").input_value()) == hours - 6
    page.get_by_label("Name", exact=True).fill("more")
    page.get_by_label("Nodes").fill("4")
    page.get_by_label("Cards on one node").fill("2")
    page.get_by_label("Begins").fill("2099-01-01T08:00")
    page.wait_for_selector("text=1 reservation is at the same time:")
    page.get_by_role("button", name="Reserve", exact=True).click()
    page.wait_for_selector("[role=dialog] [role=alert] >> text=GP-")
    page.get_by_label("Nodes").fill("1")
    page.get_by_role("button", name="Reserve", exact=True).click()
    page.get_by_role("button", name="Give back… more").click()
    page.get_by_role("button", name="Give back 1 reservation").click()
    page.get_by_role("button", name="Give back… more").wait_for(state="detached")
    assert [each["name"] for each in pool.json("reservation", "list")] == ["demo"]


@pytest.mark.nightly
def test_plans_move_nothing_and_whatif_compares(page: Any, login: dict[str, Any]) -> None:
    page.goto(f"{login['address']}/defrag")
    page.get_by_role("button", name="Make a plan").click()
    page.wait_for_selector("text=No move helps.")
    page.goto(f"{login['address']}/whatif")
    page.get_by_label("Add nodes").fill("4xL40S")
    page.wait_for_selector("text=gpupool whatif --add 4xL40S")
    page.get_by_role("button", name="Simulate").click()
    cards = page.get_by_role("row", name="Cards 4 8")
    cards.wait_for()


@pytest.mark.nightly
def test_subscription_is_refused_at_its_address_and_tested(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/settings")
    page.get_by_role("button", name="New subscription").click()
    page.get_by_label("Name", exact=True).fill("me")
    page.get_by_role("combobox", name="Channel").click()
    page.get_by_role("option", name="Slack").click()
    page.get_by_label("Address of the webhook").fill("https://hooks.example.com/1")
    page.get_by_role("button", name="Subscribe").click()
    page.wait_for_selector("text=GP-2140")
    page.get_by_role("combobox", name="Channel").click()
    page.get_by_role("option", name="mail").click()
    page.get_by_label("Mail address").fill("ada@example.com")
    page.get_by_role("button", name="Subscribe").click()
    page.get_by_role("button", name="Test me").click()
    # No mail server is set: the test says so, and sends nothing.
    page.locator(".state.s-fault").or_(page.locator("[role=alert]")).first.wait_for()
    assert [each["name"] for each in pool.json("notify", "list")] == ["me"]
    page.get_by_role("button", name="Delete… me").click()
    page.get_by_role("button", name="Delete 1 subscription").click()
    page.wait_for_selector("text=Nothing is subscribed to.")


def test_health_says_cause_and_since_of_a_card_that_fails(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/health")
    page.wait_for_selector("text=No card and no node has a fault.")
    card = pool.json("gpus")[-1]
    set_health(
        pool.state_dir / "simulated", card["uuid"], DeviceHealth.FAILED, "fell off the bus", 79
    )
    # No reload: an event of the pool says so.
    faults = page.get_by_role("region", name="Open faults")
    row = faults.get_by_role("row", name=card["name"])
    row.wait_for()
    cells = row.locator("td").all_inner_texts()
    assert cells[1] == "failed"
    assert "fell off the bus (XID 79)" in cells[2]
    assert ":" in cells[5], "the clock's time of the event"
    incidents = page.get_by_role("region", name="Incidents of cards")
    incident = incidents.get_by_role("row", name=card["name"])
    incident.get_by_role("button").click()
    page.get_by_role("button", name="Take over: reboot the node").click()
    incident.get_by_text("taken over").wait_for()
    set_health(pool.state_dir / "simulated", card["uuid"], DeviceHealth.OK)
    page.wait_for_selector("text=No card and no node has a fault.")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_label("What was done").fill("rebooted")
    page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
    page.wait_for_selector("text=No incident is open.")
    (closed,) = pool.json("faults", "list", "--all")
    assert (closed["state"], closed["xid"]) == ("closed", 79)


@pytest.mark.nightly
def test_network_is_made_and_its_group_lets_a_port_in(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/networks")
    page.get_by_role("button", name="New network").click()
    page.get_by_label("Name", exact=True).fill("demo")
    page.get_by_label("Prefix of its first subnet").fill("10.7.0.0/33")
    page.get_by_role("button", name="Create the network").click()
    page.wait_for_selector("text=GP-1060")
    page.get_by_label("Prefix of its first subnet").fill("10.7.0.0/24")
    page.get_by_role("button", name="Create the network").click()
    page.get_by_role("tab", name="Security groups").click()
    page.get_by_role("button", name="New security group").click()
    page.get_by_label("Name", exact=True).fill("web")
    page.get_by_role("button", name="Create the group").click()
    page.get_by_role("button", name="Allow… web").click()
    page.get_by_label("Ports", exact=True).fill("443")
    page.get_by_role("button", name="Add the rule").click()
    page.wait_for_selector("text=tcp 443 from anywhere")
    (group,) = pool.json("network", "group-list", "demo")
    assert [rule["first_port"] for rule in group["rules"]] == [443]
    page.get_by_role("tab", name="In and out").click()
    page.wait_for_selector("text=No floating IP.")
    assert find_violations(page) == []
    page.locator(".acts").get_by_role("button", name="Delete…").first.click()
    page.get_by_role("button", name="Delete 1 network").click()
    page.wait_for_selector("text=No network is here yet.")


def test_pages_of_admins_are_absent_for_a_user(
    pool: RealPool, browser: Any, login: dict[str, Any]
) -> None:
    context = browser.new_context(viewport=WIDE, locale="en-GB")
    opened = context.new_page()
    opened.goto(f"{login['address']}/defrag")
    opened.wait_for_selector("input[type=password]")
    opened.keyboard.type(pool.do("token", "create", "--user", "ada").strip())
    opened.keyboard.press("Enter")
    opened.get_by_role("heading", name="Page not found").wait_for()
    menu = opened.locator("nav.side").inner_text()
    assert "Defragment" not in menu
    assert "People" in menu
    opened.goto(f"{login['address']}/people")
    opened.get_by_role("tab", name="Tokens").wait_for()
    assert opened.get_by_role("tab", name="Sign-on").count() == 0
    assert opened.get_by_role("button", name="New user").count() == 0
    context.close()
