"""`gpupool top`: cards, tenants and jobs as they are now, and as they change.

Events wake it; while it is on the screen it also asks every two seconds, because use changes
without events.
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

from gpupool.base.errors import EventsReset, GpupoolError, ServiceUnavailable
from gpupool.base.units import format_duration, format_gpu
from gpupool.client.transport import Api
from gpupool.client.watch import watch_events
from gpupool.terminal.context import CommandContext
from gpupool.terminal.language import localize, localize_cell, localize_title
from gpupool.terminal.listing import describe_memory
from gpupool.terminal.output import UNKNOWN, clean_text, count_noun, shorten_text
from gpupool.terminal.parser import CommandParser, integer_within

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: Seconds between two screens without an event.
REFRESH_SECONDS = 2.0
#: Signs of a bar on a wide screen.
BAR = 20
#: Columns from which everything is shown.
WIDE = 120


def register(parser: CommandParser) -> None:
    parser.about = """
    Per card what is held, and what the card says is used; per tenant its part of the pool; per job its share and
    the part of it that is used, which is 100 % when it has all of it and more when it borrows. Unknown is --, never
    0. q or Ctrl-C ends it. Into a pipe it prints once.
    """
    parser.examples = ["gpupool top", "gpupool top -n 1", "gpupool top --interval 5"]
    parser.add_argument(
        "-n",
        "--count",
        type=integer_within("-n", "the number of screens", 1, 10**9),
        metavar="N",
        help="print N times, then end",
    )
    parser.add_argument(
        "--interval",
        type=integer_within("--interval", "seconds", 1, 3600),
        metavar="SECONDS",
        help="interval in seconds (default: 2)",
    )
    parser.add_argument(
        "--rows",
        type=integer_within("--rows", "rows", 1, 1000),
        metavar="N",
        help="cards and jobs shown",
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from rich.console import Console

    # Into a pipe everything is shown once, as wide as it is.
    piped = not sys.stdout.isatty()
    console = Console(no_color=not context.color, highlight=False, width=WIDE if piped else None)
    interval = float(options.interval or REFRESH_SECONDS)
    count = options.count or (None if console.is_terminal else 1)
    if count is not None:
        for position in range(count):
            if position:
                time.sleep(interval)
            console.print(
                render_screen(_fetch_usage(context.api), options.rows or 1000, console.width)
            )
        return 0
    return _show_live(console, context, interval, options.rows)


def _fetch_usage(api: Api) -> dict[str, Any]:
    usage: dict[str, Any] = api.request("GET", "usage")
    return usage


def _show_live(console: Console, context: CommandContext, interval: float, rows: int | None) -> int:
    from rich.live import Live
    from rich.text import Text

    usage: RenderableType = render_screen(
        _fetch_usage(context.api), rows or _count_rows(console), console.width
    )
    changed = _PoolChanges(context.api)
    with (
        _read_keys() as keyboard,
        Live(usage, console=console, screen=True, auto_refresh=False) as live,
    ):
        while not _is_quit(keyboard, changed, interval):
            try:
                usage = render_screen(
                    _fetch_usage(context.api), rows or _count_rows(console), console.width
                )
                live.update(usage, refresh=True)
            except ServiceUnavailable as error:
                live.update(
                    Text(f"{localize(error.message)}\n{localize('waiting for it; q ends')}"),
                    refresh=True,
                )
    return 0


def _count_rows(console: Console) -> int:
    return max(3, (console.size.height - 12) // 2)


class _PoolChanges:
    """A descriptor that becomes readable when the pool has an event."""

    def __init__(self, api: Api) -> None:
        import os

        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # A connection of its own: the watch occupies it for as long as the screen is shown.
        self._api = api.another()
        pool = api.request("GET", "pool")
        self._after = int(pool["last_event"])
        self._epoch = pool.get("event_epoch")
        # A daemon: it waits in a request for minutes and must not hold up the end of the command.
        threading.Thread(target=self._watch_events, name="events", daemon=True).start()

    def fileno(self) -> int:
        return self._read

    def drain_events(self) -> None:
        """Read what the thread wrote, so that the descriptor waits for the next event."""
        import os

        try:
            while os.read(self._read, 4096):
                continue
        except BlockingIOError:
            return

    def _go_on(self, _error: EventsReset) -> None:
        """Another event log changes nothing here: the timed refresh shows what the pool is now."""

    def _watch_events(self) -> None:
        import os

        try:
            for _ in watch_events(self._api, self._after, epoch=self._epoch, on_reset=self._go_on):
                os.write(self._write, b".")
        except BlockingIOError:
            self._watch_events()  # the pipe is full: the screen knows well enough that something happened
        except GpupoolError:
            return  # the timed refresh goes on and shows what is wrong


def _is_quit(keyboard: int | None, changed: _PoolChanges, seconds: float) -> bool:
    """Wait for a key, an event or the time; True when the key was q."""
    import os

    watched = [changed.fileno()] + ([keyboard] if keyboard is not None else [])
    ready, _, _ = select.select(watched, [], [], seconds)
    changed.drain_events()
    return (
        keyboard in ready
        and keyboard is not None
        # q, Ctrl-C as a byte, or nothing: the terminal has gone.
        and os.read(keyboard, 64)[:1].lower() in (b"q", b"\x03", b"")
    )


@contextmanager
def _read_keys() -> Iterator[int | None]:
    """Give single keys from the terminal, which is as it was when this ends."""
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


def render_screen(usage: dict[str, Any], rows: int, width: int) -> RenderableType:
    """Render everything on one screen."""
    from rich.console import Group
    from rich.text import Text

    simulated = [card["simulated"] for card in usage["cards"]]
    mark = "   SIMULATED" if simulated and all(simulated) else ""
    held = sum(card["held_milli"] for card in usage["cards"])
    title = (
        f"{count_noun(usage['cards_total'], 'card')}, {format_gpu(held)} GPU held by "
        f"{count_noun(usage['jobs_total'], 'job')}{mark}"
    )
    parts: list[RenderableType] = [Text(localize(title), style="bold"), Text("")]
    parts += [
        _render_cards(usage["cards"], rows, width),
        _render_more(len(usage["cards"]), rows, usage["cards_total"]),
    ]
    parts += [_render_tenants(usage, width), Text("")]
    parts += [
        _render_jobs(usage["jobs"], rows, usage["at_ns"], width),
        _render_more(len(usage["jobs"]), rows, usage["jobs_total"]),
    ]
    return Group(*parts)


def _render_more(given: int, rows: int, total: int) -> RenderableType:
    from rich.text import Text

    hidden = total - min(given, rows)
    return Text(localize(f"… and {hidden} more") + "\n" if hidden > 0 else "")


def _make_table(*titles: str) -> Table:
    from rich import box
    from rich import table as tables

    table = tables.Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(
            localize_title(title.lstrip(">")),
            justify="right" if title.startswith(">") else "left",
            no_wrap=True,
        )
    return table


def _render_cards(cards: list[dict[str, Any]], rows: int, width: int) -> RenderableType:
    narrow = width < WIDE
    more = () if narrow else (">W", ">°C", "health")
    table = _make_table("card", "model", "held", ">GPU", ">memory held", "busy", ">used", *more)
    for card in cards[:rows]:
        use = card["usage"]
        held = f"{card['held_bytes'] >> 20}/{card['memory_bytes'] >> 20} MiB"
        busy = (
            UNKNOWN
            if use["utilization_percent"] is None
            else format_bar(use["utilization_percent"] / 100, _bar_size(width))
        )
        cells = [
            card["device"],
            clean_text(card["model"]),
            format_bar(card["held_milli"] / 1000, _bar_size(width)),
            format_gpu(card["held_milli"]),
            held,
            busy,
            clean_text(describe_memory(use["memory_used_bytes"])),
            _format_figure(use["power_watts"]),
            _format_figure(use["temperature_celsius"]),
            localize_cell(
                "health", clean_text(None if card["health"] == "unknown" else card["health"])
            ),
        ]
        table.add_row(*cells[: 7 if narrow else 10])
    return table


def _render_tenants(usage: dict[str, Any], width: int) -> RenderableType:
    capacity = 1000 * sum(1 for card in usage["cards"] if card["state"] == "adopted") or 1
    table = _make_table("tenant", "part of these cards", ">GPU", ">memory held", ">jobs")
    for row in usage["tenants"]:
        table.add_row(
            clean_text(row["tenant"]),
            format_bar(row["held_milli"] / capacity, _bar_size(width)),
            format_gpu(row["held_milli"]),
            f"{row['held_bytes'] >> 20} MiB",
            str(row["jobs"]),
        )
    return table


def _render_jobs(jobs: list[dict[str, Any]], rows: int, at_ns: int, width: int) -> RenderableType:
    narrow = width < WIDE
    more = () if narrow else (">CPU", "owner")
    table = _make_table("job", "card", ">share", ">of it used", ">memory", ">used", ">time", *more)
    for job in jobs[:rows]:
        others = f" +{len(job['devices']) - 1}" if len(job["devices"]) > 1 else ""
        cells = [
            shorten_text(clean_text(job["name"]), 20 if narrow else 40),
            f"{job['devices'][0]}{others}" if job["devices"] else UNKNOWN,
            f"{format_gpu(job['held_milli'])} GPU",
            _format_percent(job["share_percent"]),
            f"{job['held_bytes'] >> 20} MiB",
            clean_text(describe_memory(job["gpu_memory_bytes"])),
            format_duration((at_ns - job["since_ns"]) / 1e9),
            _format_percent(job["cpu_percent"]),
            clean_text(f"{job['tenant']}/{job['user']}"),
        ]
        table.add_row(*cells[: 7 if narrow else 9])
    return table


def _bar_size(width: int) -> int:
    """Return the signs of a bar: what the other columns leave."""
    return BAR if width >= WIDE else BAR // 2


def format_bar(part: float, size: int = BAR) -> str:
    """Format a bar of eighths: `███▌······`.

    >>> format_bar(0.35, 10)
    '███▌······'
    """
    eighths = round(max(0.0, min(1.0, part)) * size * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(size, "·")


def _format_figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _format_percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} %"
