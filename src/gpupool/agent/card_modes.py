"""Switches cards to the modes that the server asks for, and reports how far each switch is.

The server names a card only when no share is on it. A switch leaves the card's present mode first
and enters the wanted one then; both are the node's own `ModeSwitch` and idempotent, so an agent
that was killed gets the switch again and continues. Must not speak with the server: reports are
returned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpupool.base.errors import GpupoolError, RequestRejection
from gpupool.mechanisms.card_modes import SWITCHES, ModeSwitch
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.released_step import is_driver_suspended
from gpupool.mechanisms.slow_step import PAUSE_SECONDS
from gpupool.model.device import CardMode, Device
from gpupool.wire.modes import ModeReport, ModeWork

log = logging.getLogger(__name__)


class CardModeChanger:
    """The switches of one agent. Belongs to the agent's own thread; a call blocks at most
    for the driver's calls under way."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._pending: dict[str, ModeWork] = {}
        #: Reports of switches that have ended, by card, until the cards can be read.
        self._ended: dict[str, ModeReport] = {}
        #: Seconds until the next look at a switch that waits.
        self._pauses: list[float] = []

    def add(self, works: Sequence[ModeWork]) -> None:
        """Take in what the server asks for; a later wish of a card replaces the earlier one."""
        for work in works:
            self._pending[work.uuid] = work

    def limit_wait(self, seconds: float) -> float:
        """Return how long the agent may wait for work: not beyond the next look at a switch."""
        return min([seconds, *self._pauses])

    def advance(self, devices: Mapping[str, Device]) -> list[ModeReport]:
        """Take the next step of every switch.

        A report of an end means that the card must be scanned and registered before it is sent.
        It is kept as long as the switch of another card has NVIDIA's driver closed.

        Args:
            devices: the cards of this agent, by uuid, as the last scan found them.
        """
        reports = []
        self._pauses = []
        for work in list(self._pending.values()):
            device = devices.get(work.uuid)
            if device is None:
                # The server tells it again when the card has come back.
                del self._pending[work.uuid]
                continue
            report = self._advance_one(work, device)
            if report.state == "switching":
                reports.append(report)
            else:
                del self._pending[work.uuid]
                self._ended[work.uuid] = report
        if self._ended and is_driver_suspended():
            self._pauses.append(PAUSE_SECONDS)
            return reports
        reports += self._ended.values()
        self._ended = {}
        return reports

    def _advance_one(self, work: ModeWork, device: Device) -> ModeReport:
        wanted = CardMode(work.mode)
        try:
            answer = self._step(device, wanted)
        except GpupoolError as error:
            log.warning("card %s stays in mode %s: %s", device.uuid, device.mode, error)
            return ModeReport(
                uuid=work.uuid, mode=work.mode, state="failed", reason=error.message[:400]
            )
        if answer is None:
            return ModeReport(uuid=work.uuid, mode=work.mode, state="done")
        self._pauses.append(answer.again_in_seconds)
        return ModeReport(
            uuid=work.uuid, mode=work.mode, state="switching", reason=answer.reason[:400]
        )

    def _step(self, device: Device, wanted: CardMode) -> NotYet | None:
        """Leave the present mode, then enter the wanted one; None when the card is in it."""
        if device.mode is wanted:
            return None
        if device.mode is not CardMode.PLAIN:
            answer = _find_switch(device.mode).leave(device, self._state_dir)
            if answer is not None:
                return answer
        if wanted is CardMode.PLAIN:
            return None
        return _find_switch(wanted).enter(device, self._state_dir)


def _find_switch(mode: CardMode) -> ModeSwitch:
    """Return the switch of a mode. Raises RequestRejection where this agent has none."""
    switch = SWITCHES.get(mode)
    if switch is None:
        raise RequestRejection(
            f"this agent cannot switch cards to or from mode {mode}",
            hint="it may be older than the server: restart it with the same version",
        )
    return switch
