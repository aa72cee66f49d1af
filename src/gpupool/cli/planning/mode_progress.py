"""Follows switches of cards to their ends and prints a line for each change of a state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from gpupool.base.errors import ServiceUnavailable
from gpupool.client.transport import Api
from gpupool.terminal.output import clean_text, count_noun
from gpupool.terminal.references import quote_segment

#: Seconds between two looks at the switches; each pause without a change is longer than the last.
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 3.0
#: Events of a page, the most that the API gives.
PAGE = 1000


def follow_switches(
    api: Api,
    switches: Sequence[Mapping[str, Any]],
    last_event: int,
    stream: TextIO,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, dict[str, str]]:
    """Wait until every switch has ended. Blocks for as long as a drain takes.

    While the pool is away it is asked again: the switches go on without it.

    Args:
        switches: with `card`, `uuid` and the wanted `mode`.
        last_event: number of the last event before the switches began.
        stream: where the lines are written.

    Returns:
        By uuid, `state` (done, failed or replaced) and `reason`.
    """
    ends = dict[str, dict[str, str]]()
    shown = dict[str, str]()
    seconds = FIRST_PAUSE_SECONDS
    while True:
        try:
            is_changed = _look(api, switches, last_event, ends, shown, stream)
        except ServiceUnavailable:
            is_changed = False
        if len(ends) == len(switches):
            return ends
        seconds = FIRST_PAUSE_SECONDS if is_changed else min(2 * seconds, LONGEST_PAUSE_SECONDS)
        pause(seconds)


def _look(
    api: Api,
    switches: Sequence[Mapping[str, Any]],
    last_event: int,
    ends: dict[str, dict[str, str]],
    shown: dict[str, str],
    stream: TextIO,
) -> bool:
    """Look at each switch that has not ended; returns whether a line was written."""
    is_changed = False
    for one in switches:
        uuid = one["uuid"]
        if uuid in ends:
            continue
        device = api.request("GET", f"devices/{quote_segment(uuid, 'card')}")
        state, reason = _read_state(api, device, one["mode"], last_event)
        if state in ("done", "failed", "replaced"):
            ends[uuid] = {"state": state, "reason": reason}
        line = f"{one['card']}: {state}" + (f": {reason}" if reason else "")
        if shown.get(uuid) != line:
            shown[uuid] = line
            stream.write(clean_text(line) + "\n")
            stream.flush()
            is_changed = True
    return is_changed


def _read_state(
    api: Api, device: Mapping[str, Any], wanted: str, last_event: int
) -> tuple[str, str]:
    switch = device["switch"]
    if switch is not None and switch["wanted"] != wanted:
        return "replaced", f"it was asked for mode {switch['wanted']} meanwhile"
    if switch is not None and switch["state"] == "draining":
        return "draining", f"{count_noun(device['shares'], 'share')} on it"
    if switch is not None:
        return str(switch["state"]), str(switch["reason"])
    if device["mode"] == wanted:
        return "done", ""
    return "failed", _find_failure(api, device["uuid"], last_event)


def _find_failure(api: Api, uuid: str, after: int) -> str:
    """Return why the last switch of a card failed, by the event log."""
    reason = "the event log does not say why"
    while page := api.request("GET", "events", query={"after": after, "limit": PAGE}):
        for event in page:
            if event["kind"] == "device.mode_failed" and event["data"]["uuid"] == uuid:
                reason = str(event["data"]["reason"])
        after = page[-1]["seq"]
    return reason
