"""The layer is killed at each change; then the next agent undoes all: no slice and no file is left."""

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from gpupool.mechanisms.card_settings.timeslice import Timeslice
from gpupool.mechanisms.contract import FenceLevel, PreparedAllocation
from gpupool.mechanisms.timeslice.layer import TimesliceLayer
from tests.support.mps_host import CARD, FakeModes, describe_share

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}
CRASHED = 77
PREPARED = PreparedAllocation({}, (), (), Path("/share"), FenceLevel.SOFT)


class FileSlices:
    """The time slice of a card in a file, so that it survives the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_timeslice(self, uuid: str) -> Timeslice:
        return Timeslice(self._path.read_text()) if self._path.exists() else Timeslice.DEFAULT

    def write_timeslice(self, uuid: str, length: Timeslice) -> None:
        self._path.write_text(length)


def crash_at(change: int, call: Callable[[], object]) -> bool:
    """Run in a child that ends before its `change`-th change; False: it finished before that."""
    child = os.fork()
    if child == 0:
        left = change

        def die(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wax"
            if event in CHANGES or writes:
                if left == 0:
                    os._exit(CRASHED)
                left -= 1

        sys.addaudithook(die)
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, CRASHED), "the call failed on its own"
    return status == CRASHED


@pytest.mark.parametrize("verb", ["prepare", "unprepare"])
def test_a_kill_at_any_step_leaves_no_slice(tmp_path: Path, verb: str) -> None:
    slices = FileSlices(tmp_path / "slice")
    layer = TimesliceLayer(slices, FakeModes(tmp_path))
    view = describe_share(sharing="burst", priority=100)
    for change in count():
        state = tmp_path / f"{change}"
        (state / "prepared/al-1").mkdir(parents=True)
        slices.write_timeslice(CARD.uuid, Timeslice.MEDIUM)
        calls: dict[str, Callable[[], object]] = {
            "prepare": lambda state=state: layer.prepare(view, PREPARED, state),  # type: ignore[misc]
            "unprepare": lambda state=state: layer.unprepare("al-1", 5, state),  # type: ignore[misc]
        }
        if verb == "unprepare":
            layer.prepare(view, PREPARED, state)
        crashed = crash_at(change, calls[verb])
        layer.unprepare("al-1", 5, state)
        assert slices.read_timeslice(CARD.uuid) is Timeslice.MEDIUM, change
        assert not (state / "timeslice").exists(), change
        if not crashed:
            break
    assert change >= 4, "the kills did not reach into the call"
