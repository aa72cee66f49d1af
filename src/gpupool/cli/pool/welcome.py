"""What `gpupool up` prints once the pool answers: its cards, its place, and what to type next."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from gpupool import __version__
from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import GpupoolError
from gpupool.cli.work.gpus import format_title
from gpupool.client.paging import list_first
from gpupool.client.transport import Api
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import count_noun, paint_text


def print_welcome(
    state_dir: str, said: dict[str, Any], context: CommandContext, *, detached: bool
) -> None:
    """Print what a person sees when the pool is up. At a terminal that is also a link to the console."""
    if said.get("standby"):
        sys.stdout.write(
            f"gpupool {__version__} is a standby (pid {said['pid']}); the leader is {said['leader']}\n"
        )
        sys.stdout.flush()
        return
    with Api(ClientSettings(state_dir=state_dir)) as api:
        pool = api.request("GET", "pool")
        cards, more = list_first(api, "devices", {}, 1000)
        # A pool that begins with a failing check should say so at once, not in `doctor` alone.
        wrong = [one for one in api.request("GET", "checks") if one["state"] == "fail"]
        link = _request_link(api) if sys.stdout.isatty() else None
    sys.stdout.write(
        format_welcome(
            pool,
            cards,
            said.get("listening", []),
            more=more,
            chosen=_name_state_dir(context),
            detached=detached,
            wrong=wrong,
            link=link,
            color=context.color,
        )
        + "\n"
    )
    sys.stdout.flush()


def _request_link(api: Api) -> dict[str, Any] | None:
    """Ask for a link to the console, for a person at a terminal; None where there is no console."""
    try:
        link: dict[str, Any] = api.request("POST", "console")
    except GpupoolError:
        return None
    return link


def _name_state_dir(context: CommandContext) -> str:
    """Return ` --state-dir D` where suggested commands would not find this pool without it."""
    by_environment = os.environ.get("GPUPOOL_STATE_DIR")
    if context.settings.state_dir is None or by_environment:
        return ""
    return f" --state-dir {shlex.quote(os.fspath(context.settings.state_dir))}"


def format_welcome(
    pool: dict[str, Any],
    cards: list[dict[str, Any]],
    listening: list[str],
    *,
    more: bool = False,
    chosen: str = "",
    detached: bool = False,
    wrong: Sequence[dict[str, Any]] = (),
    link: dict[str, Any] | None = None,
    color: bool = False,
) -> str:
    """Format what a person sees when the pool is up: cards, its place, what to type next."""
    what = (
        format_title(cards, more) if cards else "no cards: gpupool doctor  says what it looked for"
    )
    # Real cards: without `adopt` nothing could be placed, so it is the first thing suggested.
    observed = sum(1 for card in cards if card["state"] == "observed")
    lines = [
        paint_text(f"gpupool {pool['version']} is up", "bold" if color else None)
        + f" (pid {pool['pid']})",
        f"  {what}",
        f"  state      {pool['state_dir']}",
        *(f"  listening  {place}" for place in listening or pool["listeners"]),
    ]
    if link is not None:
        lines.append(f"  console    {link['url']}")
        until = describe_instant(link["expires_ns"])
        lines.append(f"             logs one browser in as {link['user']}, once, until {until}")
    if pool["jobs_live"]:
        lines.append(
            f"  jobs       {pool['jobs_live']} live, {pool['jobs_pending']} of them waiting"
        )
    lines += [f"  wrong      {one['name']}: {one['text']}; {one['next']}" for one in wrong]
    lines += ["", "next:"]
    if observed:
        lines.append(
            f"  gpupool{chosen} adopt all             hand out "
            f"{count_noun(observed, 'observed card')}"
        )
    lines += [
        f"  gpupool{chosen} gpus",
        f"  gpupool{chosen} run --gpu 0.3 --memory 8GiB -- python -c \"print('hi')\"",
        f"  gpupool{chosen} ps",
        f"  gpupool{chosen} console               a{'nother' if link else ''} link to the web console",
        "",
    ]
    if detached:
        lines.append(
            f"stop: gpupool{chosen} down     (ends its jobs; --purge also removes its state)"
        )
    else:
        lines.append(
            "stop: Ctrl-C stops the server; jobs keep running and are taken back at the next "
            "`gpupool up`;"
            f" `gpupool{chosen} down` ends them."
        )
    return "\n".join(lines)
