"""The web console in a real browser: login, Overview, Jobs, Job, Request, under its real policy.

A pool of simulated cards, the console as `make console` built it, Chromium. The pages of the cards
are in test_console_map.py.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support import packet_loss
from tests.support.claims import claim_port
from tests.support.console_browser import (
    STATIC,
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
#: docs/decisions/0100; fonts are not counted.
FIRST_PAGE_BYTES = 300_000
#: A job's line that would be markup, after a colour code.
HOSTILE = "\\033[31m<img src=x onerror=alert(1)>\\033[0m"
TITLES = {
    "en": {
        "/": "Overview",
        "/jobs": "Jobs",
        "/request": "Request a share",
        "/templates?template=sweep": "Templates",
    },
    "zh": {
        "/": "概览",
        "/jobs": "任务",
        "/request": "申请份额",
        "/templates?template=sweep": "模板",
    },
}
#: What a token that is none is answered with.
UNKNOWN_TOKEN = {
    "en": "the token is unknown, expired, revoked or its user is disabled",
    "zh": "令牌未知、已过期、已撤销，或其用户已停用",
}
#: Of the packets between the browser and the server, and jobs that come meanwhile.
LOST_PERCENT = 1
JOBS_UNDER_LOSS = 20
#: Presses of the tab key until the last field of a page.
MOST_TABS = 60


class ListeningPool(RealPool):
    """A pool with a port of its own, which is the same after a restart."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir, "2xL40S")
        add_package_path(self.environ)
        self.address = f"127.0.0.1:{claim_port()}"

    def up(self, *words: str) -> str:
        return super().up("--listen", self.address, *words)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    # A short path: the pool's socket is below it.
    with tempfile.TemporaryDirectory(prefix="gpc-") as directory:
        made = RealPool(Path(directory) / "pool", "2xL40S")
        add_package_path(made.environ)
        with made:
            # Jobs of a browser come over the network, where no Unix account is known.
            made.do("user", "set", made.json("whoami")["user"], "--run-as", "nobody")
            words = ("submit", "--gpu", "0.25", "--memory", "4GiB", "--name", "small")
            made.do(*words, "--", "sleep", "600")
            made.do("submit", "--gpu", "1", "--count", "2", "--name", "waits", "--", "sleep", "600")
            made.do("submit", "--gpu", "0.1", "--array", "3", "--name", "sweep", "--", "true")
            made.until_state("small", "running")
            yield made
            made.stop_all()


@pytest.fixture
def scripts() -> Iterator[Path]:
    """A folder that every account reads."""
    with tempfile.TemporaryDirectory(prefix="gpc-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def login(pool: RealPool, browser: Any) -> dict[str, Any]:
    """The console's address, and the state of a browser that came by a link."""
    link = json.loads(pool.do("console", "-o", "json"))
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(link["url"])
    page.wait_for_selector("nav")
    # The token stands in no history.
    assert "token" not in page.url
    state = context.storage_state()
    context.close()
    return {"address": link["address"].rstrip("/"), "state": state}


def open_context(browser: Any, login: dict[str, Any], **options: Any) -> Any:
    words = {"viewport": WIDE, "locale": "en-GB", "storage_state": login["state"], **options}
    return browser.new_context(**words)


def press_until_focus(page: Any, condition: str) -> None:
    """Press the tab key until the element with the focus, `it`, fulfils the condition."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(f"(it => Boolean(it && ({condition})))(document.activeElement)"):
            return
    raise AssertionError(f"the tab key reaches no element with {condition}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("language", "scheme", "viewport"), [("en", "light", WIDE), ("zh", "dark", PHONE)]
)
def test_pages_have_no_findings(
    pool: RealPool,
    browser: Any,
    login: dict[str, Any],
    language: str,
    scheme: str,
    viewport: dict[str, int],
) -> None:
    """Rules of accessibility, messages of the browser and of the policy, words, width: each page."""
    locale = {"en": "en-GB", "zh": "zh-CN"}[language]
    context = open_context(browser, login, locale=locale, color_scheme=scheme, viewport=viewport)
    page = context.new_page()
    messages = collect_messages(page)
    job = pool.job("small")["id"]
    for path, title in (TITLES[language] | {f"/jobs/{job}": "small"}).items():
        page.goto(login["address"] + path)
        page.wait_for_selector("h1")
        await_condition(page, f"document.title.startsWith({title!r})", f"the title of {path}")
        await_condition(page, "document.querySelector('.live[data-phase=live]')", "live")
        # A page that still fades in has less contrast.
        await_condition(page, "document.getAnimations().length === 0", "the end of the fade")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert (path, find_violations(page)) == (path, [])
    assert page.evaluate("document.documentElement.dataset.mantineColorScheme") == scheme
    assert page.locator(".sim").inner_text() == {"en": "SIMULATED", "zh": "模拟"}[language]
    assert messages == []
    # A refusal is in the language of the page, with the command that the server names.
    context.clear_cookies()
    page.goto(login["address"] + "/login")
    page.fill("input[type=password]", "gpp_wrong")
    page.keyboard.press("Enter")
    refusal = page.locator("[role=alert]").inner_text()
    assert UNKNOWN_TOKEN[language] in refusal
    assert "GP-3001" in refusal
    context.close()


def test_first_page_is_small(browser: Any, login: dict[str, Any]) -> None:
    """What the first page loads, as it travels, fonts aside."""
    context = open_context(browser, login)
    page = context.new_page()
    files: set[str] = set()
    page.on("response", lambda answer: files.add(answer.url.removeprefix(login["address"])))
    page.goto(login["address"] + "/")
    page.wait_for_selector(".tbl")
    shown = page.evaluate("performance.now()")
    interactive = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    print(f"the first page: interactive after {interactive:.0f} ms, its tables {shown:.0f} ms")
    names = [name for name in files if name.endswith((".js", ".css"))]
    assert any(name.endswith(".css") for name in names)
    total = sum(len(gzip.compress((STATIC / name.lstrip("/")).read_bytes())) for name in names)
    assert total <= FIRST_PAGE_BYTES, f"{total} bytes of {sorted(names)}"
    context.close()


def test_a_template_says_what_is_wrong_at_its_field_and_makes_the_job(
    pool: RealPool, browser: Any, login: dict[str, Any], scripts: Path
) -> None:
    # The job runs as another account, which reads nothing below tmp_path.
    script = scripts / "train.py"
    script.write_text("import sys; print(sys.argv[1:])\n")
    context = open_context(browser, login)
    page = context.new_page()
    page.goto(login["address"] + "/request")
    page.get_by_role("link", name="Templates with fields").click()
    page.locator(".template-card[href$='=training']").click()
    page.get_by_label("Program").fill(str(script))
    page.get_by_label("Arguments").fill("a b; $(id)\n${script}")
    compute = page.get_by_label("Compute, GPU")
    compute.fill("99")
    error = "document.querySelector('.mantine-InputWrapper-error')?.innerText ?? ''"
    await_condition(page, f"{error}.includes('GP-2171')", "the refusal at the field")
    assert page.evaluate(error) == "got 99 (GP-2171)"
    assert page.locator("button[type=submit]").is_disabled()
    compute.fill("0.2")
    page.get_by_label("Card memory").fill("1GiB")
    await_condition(page, "document.querySelector('.verdict b')?.innerText === 'Fits now'", "fits")
    written = page.locator(".beside pre").inner_text()
    assert "gpupool submit --gpu 0.2 --memory 1GiB" in written
    page.locator("button[type=submit]").click()
    page.wait_for_selector("[role=log]")
    line = await_condition(page, "document.querySelector('.log-line code')?.innerText", "a line")
    assert line == str(["a b; $(id)", "${script}"])
    context.close()


def test_request_log_and_stop_by_keyboard(
    pool: RealPool, browser: Any, login: dict[str, Any]
) -> None:
    """A whole job without a mouse; its output is text, whatever it contains."""
    context = open_context(browser, login)
    page = context.new_page()
    messages = collect_messages(page)
    page.goto(login["address"] + "/jobs")
    page.wait_for_selector("h1")
    page.keyboard.press("g")
    page.keyboard.press("n")
    press_until_focus(page, "it.tagName === 'TEXTAREA'")
    page.keyboard.press("Control+a")
    page.keyboard.type(f"sh -c 'printf \"{HOSTILE} first\\n\"; exec sleep 600'")
    written = "document.querySelector('.beside pre').innerText"
    await_condition(page, f"{written}.includes('exec sleep 600')", "the answer to this command")
    assert page.locator(".beside pre").inner_text().startswith("gpupool submit ")
    assert page.locator(".verdict b").inner_text() == "Fits now"
    press_until_focus(page, "it.type === 'submit'")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=log]")
    line = await_condition(page, "document.querySelector('.log-line code')?.innerText", "a line")
    assert line == "<img src=x onerror=alert(1)> first"
    assert page.locator("[role=log] img").count() == 0
    job = page.url.rsplit("/", 1)[-1]
    await_condition(page, "document.querySelector('h1 .state')?.innerText === 'running'", "running")
    press_until_focus(page, "it.innerText === 'Stop…'")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=dialog]")
    assert "it saved no checkpoint here" in page.locator("[role=dialog]").inner_text()
    await_condition(page, "document.activeElement.innerText === 'Stop 1 job'", "the focus")
    await_condition(page, "document.getAnimations().length === 0", "the end of the fade")
    assert find_violations(page) == []
    page.keyboard.press("Enter")
    # No reload: an event of the pool says so.
    await_condition(page, "document.querySelector('h1 .state')?.innerText === 'stopped'", "stopped")
    assert pool.job(job)["state"] == "stopped"
    assert messages == []
    context.close()


def test_jobs_are_filtered_by_the_server_and_opened_by_keys(
    browser: Any, login: dict[str, Any]
) -> None:
    """`/` and a word, `j` and Enter; an array is one row; the address keeps the filter."""
    context = open_context(browser, login)
    page = context.new_page()
    page.goto(login["address"] + "/jobs")
    await_condition(
        page, "document.querySelectorAll('.rows-body .job-row').length >= 3", "the rows"
    )
    page.keyboard.press("/")
    page.keyboard.type("sweep")
    await_condition(
        page, "document.querySelectorAll('.rows-body .job-row').length === 1", "one row"
    )
    assert "q=sweep" in page.url
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    await_condition(
        page, "document.querySelectorAll('.rows-body .job-row').length === 4", "its members"
    )
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    await_condition(page, "location.pathname.startsWith('/jobs/')", "the page of a member")
    context.close()


def test_login_returns_to_the_page_that_was_left(
    pool: RealPool, browser: Any, login: dict[str, Any]
) -> None:
    """Without a session a page leads to the login, and a token back to it; a wrong one is refused."""
    context = browser.new_context(viewport=WIDE, locale="en-GB")
    page = context.new_page()
    page.goto(login["address"] + "/jobs?state=pending")
    page.wait_for_selector("input[type=password]")
    await_condition(page, "document.getAnimations().length === 0", "the end of the fade")
    assert find_violations(page) == []
    page.keyboard.type("gpp_wrong")
    page.keyboard.press("Enter")
    assert "GP-3001" in page.locator("[role=alert]").inner_text()
    page.fill("input[type=password]", pool.do("token", "create").strip())
    page.keyboard.press("Enter")
    await_condition(
        page, "location.pathname + location.search === '/jobs?state=pending'", "the page"
    )
    await_condition(
        page, "document.querySelectorAll('.rows-body .job-row').length === 1", "its row"
    )
    page.get_by_label("Log out").click()
    page.wait_for_selector("input[type=password]")
    assert context.cookies() == []
    context.close()


@pytest.mark.slow
@pytest.mark.skipif(bool(packet_loss.find_missing()), reason=packet_loss.find_missing())
def test_updates_resume_after_the_server_is_killed_though_packets_are_lost(browser: Any) -> None:
    """A page that is open says since when it is old, loses nothing, and goes on without a reload."""
    with (
        tempfile.TemporaryDirectory(prefix="gpc-") as directory,
        ListeningPool(Path(directory) / "pool") as pool,
        packet_loss.lose_packets(int(pool.address.rpartition(":")[2]), LOST_PERCENT) as loss,
    ):
        pool.do("submit", "--gpu", "0.1", "--name", "first", "--", "sleep", "600")
        context = browser.new_context(viewport=WIDE, locale="en-GB")
        page = context.new_page()
        page.goto(pool.json("console")["url"])
        page.wait_for_selector("nav")
        page.goto(f"http://{pool.address}/jobs")
        rows = "document.querySelectorAll('.rows-body .job-row').length"
        await_condition(page, f"{rows} === 1", "the first row")
        await_condition(page, "document.querySelector('.live[data-phase=live]')", "live")
        os.kill(pool.server_pid(), signal.SIGKILL)
        await_condition(page, "document.querySelector('.live[data-phase=stopped]')", "stopped")
        assert "live updates stopped" in page.locator(".live").inner_text()
        assert page.evaluate(rows) == 1
        pool.up()
        await_condition(page, "document.querySelector('.live[data-phase=live]')", "live again")
        for number in range(JOBS_UNDER_LOSS):
            pool.do("submit", "--gpu", "0.01", "--name", f"n{number}", "--", "sleep", "600")
            shown = f"{rows} === {number + 2}"
            await_condition(page, shown, f"the row of job {number}")
        assert loss.count() > 0
        context.close()
