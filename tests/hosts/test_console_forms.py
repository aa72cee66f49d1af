"""The console's forms of prices, idle policies and receivers of messages in a real browser.

Each asks for refusals at their fields and for the conflict of two writers. For the nightly run.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.hosts.test_console_people import WIDE
from tests.hosts.test_console_people import browser as browser
from tests.hosts.test_console_people import login as login
from tests.hosts.test_console_people import page as page
from tests.hosts.test_console_people import pool as pool
from tests.support.console_browser import find_missing, find_violations

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.nightly,
    pytest.mark.skipif(bool(find_missing()), reason=find_missing()),
]


def test_prices_are_compared_and_begin_in_the_future(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/budgets?part=prices")
    page.get_by_role("button", name="New prices").click()
    begin = page.get_by_label("Valid from, your clock")
    future = begin.input_value()
    begin.fill("2026-02-01T00:00")
    page.wait_for_selector("text=That hour is already counted: begin in the future")
    assert page.get_by_role("button", name="Save the prices").is_disabled()
    begin.fill(future)
    page.get_by_label("Name of the list").fill("now")
    page.get_by_label("Per card and hour").fill("2.5")
    page.get_by_label("Preemptible jobs pay less, %").fill("20")
    row = page.get_by_role("dialog").get_by_role("row", name="L40S")
    row.wait_for()
    assert row.locator("td").all_inner_texts()[2] == "EUR\u00a02.00"
    assert "preemptible EUR\u00a02.00" in row.inner_text()
    assert "+25.0" in row.inner_text()
    assert find_violations(page) == []
    page.get_by_role("button", name="Save the prices").click()
    page.wait_for_selector("text=there is a price list now already (GP-2006)")
    page.get_by_label("Name of the list").fill("next")
    page.get_by_role("button", name="Save the prices").click()
    page.get_by_role("button", name="Change… next").click()
    page.get_by_label("Per card and hour").fill("3")
    lists = {each["name"]: each for each in pool.json("price", "list")}
    assert lists["next"]["rates"][0]["price_micro"] == 2_500_000
    page.get_by_role("button", name="Save the prices").click()
    page.wait_for_selector("[role=dialog]", state="detached")
    page.get_by_role("button", name="Delete… next").click()
    page.wait_for_selector("text=the prices of now hold.")
    page.get_by_role("button", name="Delete 1 price list").click()
    page.get_by_role("button", name="Delete… next").wait_for(state="detached")
    assert [each["name"] for each in pool.json("price", "list")] == ["now"]


def test_idle_policy_is_tried_then_tightened_by_a_tenant(
    pool: RealPool, page: Any, browser: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/idle")
    page.get_by_role("button", name="New policy").click()
    page.get_by_label("Stop after, minutes").fill("40")
    page.wait_for_selector("text=do nothing yet.")
    page.get_by_role("button", name="Save the policy").click()
    page.wait_for_selector("text=follows warn after 50m")
    assert find_violations(page) == []
    page.get_by_label("Stop after, minutes").fill("120")
    page.get_by_role("button", name="Save the policy").click()
    page.get_by_role("button", name="Change… the pool").click()
    page.get_by_role("radiogroup", name="Mode").get_by_text("on", exact=True).click()
    pool.do("idle", "policy", "set", "--warn", "30m", "--dry-run")
    page.get_by_role("button", name="Save the policy").click()
    page.wait_for_selector("text=The policy is now dry run with 1 step.")
    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save the policy").click()
    page.wait_for_selector("[role=dialog]", state="detached")
    (policy,) = pool.json("idle", "policy", "list")
    assert (policy["mode"], [step["act"] for step in policy["steps"]]) == ("on", ["warn", "stop"])
    pool.do("user", "set", "ada", "--role", "tenant-admin")
    context = browser.new_context(viewport=WIDE, locale="en-GB")
    opened = context.new_page()
    opened.goto(f"{login['address']}/idle")
    opened.wait_for_selector("input[type=password]")
    opened.keyboard.type(pool.do("token", "create", "--user", "ada").strip())
    opened.keyboard.press("Enter")
    opened.get_by_role("button", name="Tighten… the pool").click()
    opened.get_by_label("Stop after, minutes").fill("180")
    opened.get_by_role("radiogroup", name="Mode").get_by_text("on", exact=True).click()
    opened.get_by_role("button", name="Save the policy").click()
    opened.wait_for_selector("[role=dialog] >> text=(GP-2181)")
    opened.get_by_label("Stop after, minutes").fill("60")
    opened.get_by_role("button", name="Save the policy").click()
    opened.get_by_role("button", name="Change… tenant vision").wait_for()
    context.close()
    pool.do("user", "set", "ada", "--role", "user")
    for policy in pool.json("idle", "policy", "list"):
        pool.do("idle", "policy", "remove", policy["id"], "--yes")


def test_mail_server_keeps_its_password_and_hosts_are_allowed(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    page.goto(f"{login['address']}/settings?part=pool")
    page.get_by_role("button", name="Set a mail server").click()
    page.get_by_label("Host", exact=True).fill("smtp.example.com")
    page.get_by_label("Sender").fill("pool")
    page.wait_for_selector("text=Write a mail address")
    page.get_by_label("Sender").fill("gpupool@example.com")
    page.get_by_label("User", exact=True).fill("pool")
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_role("button", name="Save the mail server").click()
    page.wait_for_selector("text=pool (password kept)")
    page.get_by_role("button", name="Change the mail server…").click()
    page.wait_for_selector("text=Empty: the kept one stays.")
    assert find_violations(page) == []
    page.get_by_label("Port").fill("2525")
    pool.do("notify", "allow", "hooks.example.com")
    page.get_by_role("button", name="Save the mail server").click()
    page.wait_for_selector("text=The mail server is now smtp.example.com:587, starttls.")
    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save the mail server").click()
    page.wait_for_selector("text=smtp.example.com:2525")
    page.wait_for_selector("text=pool (password kept)")
    page.get_by_role("button", name="Deny… hooks.example.com").click()
    page.get_by_role("button", name="Deny 1 host").click()
    page.wait_for_selector("text=No host is allowed")
    settings = pool.json("notify", "settings")
    assert (settings["hosts"], settings["mail"]["has_password"]) == ([], True)


def test_service_is_scaled_and_stopped_by_its_plan(
    pool: RealPool, page: Any, login: dict[str, Any]
) -> None:
    words = ("service", "create", "web", "--min", "2", "--max", "2", "--", "--gpu", "0.1")
    pool.do(*words, "--", "python3", "-m", "http.server", "--bind", "127.0.0.1", "{port}")
    page.goto(f"{login['address']}/serving?service=web")
    # No reload: events of the pool say that a replica is healthy.
    page.wait_for_selector("td:has-text('2 of 2')")
    jobs = page.get_by_role("region", name="Replicas").get_by_role("link")
    assert jobs.count() == 2
    assert find_violations(page) == []
    page.get_by_role("button", name="Scale… web").click()
    least = page.get_by_label("Replicas at least")
    most = page.get_by_label("Replicas at most")
    least.fill("3")
    page.wait_for_selector("[role=dialog] >> text=At least 3")
    assert page.get_by_role("button", name="Scale web").is_disabled()
    most.fill("3")
    page.wait_for_selector("[role=dialog] >> text=1 replica")
    least.fill("1")
    most.fill("1")
    # A port may be taken on this machine: the replica that took its place has another number.
    live = [
        one for one in pool.json("service", "show", "web")["replicas"] if one["state"] == "ready"
    ]
    newest = max(one["number"] for one in live)
    page.wait_for_selector(f"[role=dialog] >> text=replica {newest}, 0 requests under way")
    assert find_violations(page) == []
    (before,) = pool.json("service", "list")
    assert before["desired"] == 2
    page.get_by_role("button", name="Scale web").click()
    page.wait_for_selector("[role=dialog]", state="detached")
    page.wait_for_selector("td:has-text('1 of 1')")
    page.wait_for_selector("td:has-text('rule changed')")
    page.get_by_role("button", name="Stop… web").click()
    page.get_by_role("button", name="Stop it with 1 replica").click()
    page.wait_for_selector("text=No service yet.")
    assert pool.json("service", "list") == []
