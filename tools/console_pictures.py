"""The pictures of the web console in docs/pictures, from a pool of simulated cards.

    .venv/bin/python tools/console_pictures.py make     the pictures, and docs/pictures/pages.json
    .venv/bin/python tools/console_pictures.py check    say which page no longer looks as its picture

Needs `make console`, `make browser` and Chromium. What a page looks like is its menu, titles, column
heads and labels of fields: pixels differ with fonts and clocks, these do not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.e2e.pool_fixture import RealPool  # noqa: E402 - the path is set above
from tests.support.console_browser import (  # noqa: E402
    add_package_path,
    await_condition,
    find_missing,
    open_browser,
)

PICTURES: Final = ROOT / "docs" / "pictures"
RECORD: Final = PICTURES / "pages.json"
VIEWPORT: Final = {"width": 1280, "height": 800}
SIM: Final = "2x8xH200"
#: Jobs of four tenants: name, tenant, options of submit.
JOBS: Final = (
    ("vit-l-distill", "vision", "--gpu 0.5 --memory 48GiB --max-time 6h"),
    ("det-r50", "vision", "--gpu 0.25 --memory 24GiB --max-time 6h"),
    ("pretrain-7b", "nlp", "--gpu 1 --count 4 --max-time 6h"),
    ("rerank-serve", "search-ads", "--gpu 0.3 --memory 40GiB"),
    ("asr-align", "speech", "--gpu 1 --count 2 --max-time 6h"),
    ("eval-mmlu", "nlp", "--gpu 1 --max-time 6h"),
    ("pretrain-70b", "nlp", "--gpu 1 --count 8 --max-time 1d"),
    ("llm-finetune", "nlp", "--gpu 1 --count 8 --max-time 1d"),
)
#: Writes lines as a training does, a few in a second.
TRAINING: Final = (
    "n=184000; while :; do n=$((n+10)); "
    'echo "step $n  loss 1.$((800 + n % 97))  2914 img/s  lr 3.0e-4"; sleep 0.2; done'
)
#: The texts of a page that stay whatever its pool does.
READ_TEXTS: Final = """
[...document.querySelectorAll('nav.side a, main h1, main h2, main th, main label')]
  .map(one => one.textContent.replace(/\\s+/g, ' ').trim()).filter(text => text !== '')
"""


@dataclass(frozen=True)
class Picture:
    """A page, and what has to be seen on it before the picture is taken."""

    name: str
    path: str
    #: What has to be there first: answers come in any order.
    needs: tuple[str, ...]
    prepare: Callable[[Any], None] | None = None


def fill_request(page: Any) -> None:
    """Ask for a share that the pool has."""
    page.get_by_label("Command", exact=True).fill("python train.py --epochs 30")


def list_pictures(job: str) -> list[Picture]:
    """List the pictures; `job` is the id of the job with a log."""
    return [
        Picture("console-overview", "/", ("text=pretrain-70b", "h2 >> text=Not in use")),
        Picture("console-request", "/request", ("pre >> text=--epochs 30",), fill_request),
        Picture("console-jobs", "/jobs", ("text=rerank-serve",)),
        Picture("console-job", f"/jobs/{job}", ("text=img/s", "h2 >> text=Idle time")),
    ]


@contextmanager
def run_pool() -> Iterator[RealPool]:
    """Run a pool with jobs of four tenants; it is purged at the end."""
    # A short path: the pool's socket is below it.
    with tempfile.TemporaryDirectory(prefix="gpp-") as directory:
        pool = RealPool(Path(directory) / "pool", SIM)
        add_package_path(pool.environ)
        with pool:
            for tenant in ("nlp", "vision", "speech", "search-ads"):
                pool.do("tenant", "create", tenant)
            for name, tenant, options in JOBS:
                words = ("submit", "--tenant", tenant, "--name", name, *options.split())
                pool.do(*words, "--", "sh", "-c", TRAINING)
            yield pool
            pool.stop_all()


def visit_pages(pool: RealPool, see: Callable[[Any, Picture], None]) -> None:
    """Open each page that has a picture, and show it to `see`."""
    job = next(row["id"] for row in pool.json("ps") if row["name"] == "vit-l-distill")
    link = json.loads(pool.do("console", "-o", "json"))
    address = link["address"].rstrip("/")
    with open_browser() as browser:
        page = browser.new_context(viewport=VIEWPORT, locale="en-GB").new_page()
        page.goto(link["url"])
        page.wait_for_selector("nav.side")
        for picture in list_pictures(job):
            page.goto(address + picture.path)
            page.wait_for_selector("h1")
            if picture.prepare is not None:
                picture.prepare(page)
            for selector in picture.needs:
                page.locator(f"main >> {selector}").first.wait_for()
            await_condition(page, "document.getAnimations().length === 0", "the end of the fade")
            await_condition(page, "document.fonts.status === 'loaded'", "the fonts")
            see(page, picture)


def read_pages(*, with_pictures: bool) -> dict[str, list[str]]:
    """Read the texts of each page; take its picture, too."""
    found = dict[str, list[str]]()

    def see(page: Any, picture: Picture) -> None:
        found[picture.name] = page.evaluate(READ_TEXTS)
        if with_pictures:
            page.screenshot(path=str(PICTURES / f"{picture.name}.png"))

    with run_pool() as pool:
        visit_pages(pool, see)
    return found


def compare_pages(known: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """Say of each page what its picture lacks and what it shows that is gone."""
    lines = []
    for name in sorted(known.keys() | now.keys()):
        before, after = known.get(name, []), now.get(name, [])
        gone = sorted(set(before) - set(after))
        new = sorted(set(after) - set(before))
        if gone or new:
            lines.append(f"{name}.png: gone {gone}, new {new}")
        elif before != after:
            lines.append(f"{name}.png: another order of the same texts")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=("make", "check"))
    act = parser.parse_args().act
    missing = find_missing()
    if missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    pages = read_pages(with_pictures=act == "make")
    if act == "make":
        RECORD.write_text(json.dumps(pages, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0
    lines = compare_pages(json.loads(RECORD.read_text("utf-8")), pages)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    if lines:
        sys.stdout.write("make them again:  .venv/bin/python tools/console_pictures.py make\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
