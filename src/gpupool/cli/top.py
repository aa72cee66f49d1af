"""`gpupool top`: cards, tenants and jobs as they are now, and as they change.

Events wake it; while it is on the screen it also asks every two seconds, because use changes without events.
"""

from __future__ import annotations

import argparse
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import EventsReset, GpupoolError, Unavailable
from gpupool.base.units import format_duration, format_gpu
from gpupool.cli.context import Context
from gpupool.cli.listing import mib
from gpupool.cli.output import UNKNOWN, clean, many, shortened
from gpupool.cli.parser import Parser, number
from gpupool.client.transport import Api
from gpupool.client.watch import watch

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

REFRESH_SECONDS = 2.0
BAR = 20
WIDE = 120
"""Columns from which everything is shown."""


def register(parser: Parser) -> None:
    parser.about = """
    Per card what is held, and what the card says is used; per tenant its part of the pool; per job its share and
    the part of it that is used, which is 100 % when it has all of it and more when it borrows. Unknown is --, never
    0. q or Ctrl-C ends it. Into a pipe it prints once.
    """
    parser.examples = ["gpupool top", "gpupool top -n 1", "gpupool top --interval 5"]
    parser.add_argument(
        "-n",
        "--count",
        type=number("-n", "the number of screens", 1, 10**9),
        metavar="N",
        help="print N times, then end",
    )
    parser.add_argument(
        "--interval",
        type=number("--interval", "seconds", 1, 3600),
        metavar="SECONDS",
        help="ask that often (default: 2)",
    )
    parser.add_argument("--rows", type=number("--rows", "rows", 1, 1000), metavar="N", help="cards and jobs shown")


def run(options: argparse.Namespace, context: Context) -> int:
    from rich.console import Console

    piped = not sys.stdout.isatty()
    console = Console(no_color=not context.color, highlight=False, width=WIDE if piped else None)
    interval = float(options.interval or REFRESH_SECONDS)
    count = options.count or (None if console.is_terminal else 1)
    if count is not None:
        for position in range(count):
            if position:
                time.sleep(interval)
            console.print(screen(_usage(context.api), options.rows or 1000, console.width))
        return 0
    return _live(console, context, interval, options.rows)


def _usage(api: Api) -> dict[str, Any]:
    usage: dict[str, Any] = api.request("GET", "usage")
    return usage


def _live(console: Console, context: Context, interval: float, rows: int | None) -> int:
    from rich.live import Live
    from rich.text import Text

    usage: RenderableType = screen(_usage(context.api), rows or _rows(console), console.width)
    changed = _Changes(context.api)
    with _keys() as keyboard, Live(usage, console=console, screen=True, auto_refresh=False) as live:
        while not _quit(keyboard, changed, interval):
            try:
                usage = screen(_usage(context.api), rows or _rows(console), console.width)
                live.update(usage, refresh=True)
            except Unavailable as error:
                live.update(Text(f"{error.message}\nwaiting for it; q ends"), refresh=True)
    return 0


def _rows(console: Console) -> int:
    return max(3, (console.size.height - 12) // 2)


class _Changes:
    """A descriptor that becomes readable when the pool has an event."""

    def __init__(self, api: Api) -> None:
        import os

        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._api = api.another()
        pool = api.request("GET", "pool")
        self._after = int(pool["last_event"])
        self._epoch = pool.get("event_epoch")
        threading.Thread(target=self._watch, name="events", daemon=True).start()

    def fileno(self) -> int:
        return self._read

    def clear(self) -> None:
        import os

        try:
            while os.read(self._read, 4096):
                continue
        except BlockingIOError:
            return

    def _go_on(self, _error: EventsReset) -> None:
        """Another event log changes nothing here: the timed refresh shows what the pool is now."""

    def _watch(self) -> None:
        import os

        try:
            for _ in watch(self._api, self._after, epoch=self._epoch, on_reset=self._go_on):
                os.write(self._write, b".")
        except BlockingIOError:
            self._watch()  # the pipe is full: the screen knows well enough that something happened
        except GpupoolError:
            return  # the timed refresh goes on and shows what is wrong


def _quit(keyboard: int | None, changed: _Changes, seconds: float) -> bool:
    """Wait for a key, an event or the time; True when the key was q."""
    import os

    watched = [changed.fileno()] + ([keyboard] if keyboard is not None else [])
    ready, _, _ = select.select(watched, [], [], seconds)
    changed.clear()
    return keyboard in ready and keyboard is not None and os.read(keyboard, 64)[:1].lower() in (b"q", b"\x03", b"")


@contextmanager
def _keys() -> Iterator[int | None]:
    """Single keys from the terminal, which is as it was when this ends."""
    if not sys.stdin.isatty():
        yield None
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setcbreak(0, termios.TCSANOW)
        yield 0
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def screen(usage: dict[str, Any], rows: int, width: int) -> RenderableType:
    """Everything on one screen."""
    from rich.console import Group
    from rich.text import Text

    simulated = [card["simulated"] for card in usage["cards"]]
    mark = "   SIMULATED" if simulated and all(simulated) else ""
    held = sum(card["held_milli"] for card in usage["cards"])
    title = (
        f"{many(usage['cards_total'], 'card')}, {format_gpu(held)} GPU held by {many(usage['jobs_total'], 'job')}{mark}"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), Text("")]
    parts += [_cards(usage["cards"], rows, width), _more(len(usage["cards"]), rows, usage["cards_total"])]
    parts += [_tenants(usage, width), Text("")]
    parts += [_jobs(usage["jobs"], rows, usage["at_ns"], width), _more(len(usage["jobs"]), rows, usage["jobs_total"])]
    return Group(*parts)


def _more(given: int, rows: int, total: int) -> RenderableType:
    from rich.text import Text

    hidden = total - min(given, rows)
    return Text(f"… and {hidden} more\n" if hidden > 0 else "")


def _table(*titles: str) -> Table:
    from rich import box
    from rich import table as tables

    table = tables.Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title.startswith(">") else "left", no_wrap=True)
    return table


def _cards(cards: list[dict[str, Any]], rows: int, width: int) -> RenderableType:
    narrow = width < WIDE
    more = () if narrow else (">W", ">°C", "health")
    table = _table("card", "model", "held", ">GPU", ">memory held", "busy", ">used", *more)
    for card in cards[:rows]:
        use = card["usage"]
        held = f"{card['held_bytes'] >> 20}/{card['memory_bytes'] >> 20} MiB"
        busy = UNKNOWN if use["utilization_percent"] is None else bar(use["utilization_percent"] / 100, _size(width))
        cells = [
            card["device"],
            clean(card["model"]),
            bar(card["held_milli"] / 1000, _size(width)),
            format_gpu(card["held_milli"]),
            held,
            busy,
            clean(mib(use["memory_used_bytes"])),
            _figure(use["power_watts"]),
            _figure(use["temperature_celsius"]),
            clean(None if card["health"] == "unknown" else card["health"]),
        ]
        table.add_row(*cells[: 7 if narrow else 10])
    return table


def _tenants(usage: dict[str, Any], width: int) -> RenderableType:
    capacity = 1000 * sum(1 for card in usage["cards"] if card["state"] == "adopted") or 1
    table = _table("tenant", "part of these cards", ">GPU", ">memory held", ">jobs")
    for row in usage["tenants"]:
        table.add_row(
            clean(row["tenant"]),
            bar(row["held_milli"] / capacity, _size(width)),
            format_gpu(row["held_milli"]),
            f"{row['held_bytes'] >> 20} MiB",
            str(row["jobs"]),
        )
    return table


def _jobs(jobs: list[dict[str, Any]], rows: int, at_ns: int, width: int) -> RenderableType:
    narrow = width < WIDE
    more = () if narrow else (">CPU", "owner")
    table = _table("job", "card", ">share", ">of it used", ">memory", ">used", ">time", *more)
    for job in jobs[:rows]:
        others = f" +{len(job['devices']) - 1}" if len(job["devices"]) > 1 else ""
        cells = [
            shortened(clean(job["name"]), 20 if narrow else 40),
            f"{job['devices'][0]}{others}" if job["devices"] else UNKNOWN,
            f"{format_gpu(job['held_milli'])} GPU",
            _percent(job["share_percent"]),
            f"{job['held_bytes'] >> 20} MiB",
            clean(mib(job["gpu_memory_bytes"])),
            format_duration((at_ns - job["since_ns"]) / 1e9),
            _percent(job["cpu_percent"]),
            clean(f"{job['tenant']}/{job['user']}"),
        ]
        table.add_row(*cells[: 7 if narrow else 9])
    return table


def _size(width: int) -> int:
    """Signs of a bar: what the other columns leave."""
    return BAR if width >= WIDE else BAR // 2


def bar(part: float, size: int = BAR) -> str:
    """A bar of eighths: `███▌······`.

    >>> bar(0.35, 10)
    '███▌······'
    """
    eighths = round(max(0.0, min(1.0, part)) * size * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(size, "·")


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} %"
