"""`gpupool replay TRACE`: lines at the pace that was asked for, decided while they appear."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.planning import playback
from gpupool.cli.planning.playback import TracePlayer, parse_speed
from gpupool.simulation.studies.study import FIRST_SEED, StudyQuestion, list_cases, watch_case
from gpupool.simulation.traces.nodes import read_nodes
from gpupool.simulation.traces.trace import read_csv
from tests.unit.cli.golden import TypedLine

TRACE = """arrival_seconds,gpu_milli,seconds,job,cards
10,1000,100,first,1
20,1000,30,second,1
30,1000,5,large,2
"""


class SteppedClock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def read(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def play(speed: float | None, clock: SteppedClock) -> tuple[list[str], TracePlayer]:
    lines: list[str] = []
    players: list[TracePlayer] = []
    question = StudyQuestion(
        read_nodes("1xL40S"), ("default",), (FIRST_SEED,), read_csv("trace", TRACE)
    )

    def make(world: object) -> TracePlayer:
        players.append(TracePlayer(world, speed, clock.pause, lines.append, clock.read))  # type: ignore[arg-type]
        return players[0]

    watch_case(list_cases(question)[0], lambda _part: None, make)
    return lines, players[0]


def test_each_line_comes_at_its_time_divided_by_the_speed() -> None:
    clock = SteppedClock()
    lines, player = play(10, clock)
    words = [line.split()[:4] for line in lines if "large" not in line]
    assert [(one[0], one[1], one[3]) for one in words[:4]] == [
        ("0:10", "first", "starts"),
        ("1:50", "first", "ends"),
        ("1:50", "second", "starts"),
        ("2:20", "second", "ends"),
    ]
    assert any("waited 1:30; 1.00 of 1 GPU held" in line for line in lines)
    assert clock.now == pytest.approx(14.0)
    assert (player.started, player.ended, player.evicted) == (2, 2, 0)


def test_without_a_speed_nothing_waits() -> None:
    clock = SteppedClock()
    _, player = play(None, clock)
    assert clock.pauses == []
    assert player.summarize().startswith("2:20 of the trace: 2 starts, 2 ends, 0 evictions")


def test_a_job_that_can_never_start_is_said() -> None:
    lines, _ = play(None, SteppedClock())
    assert any("large" in line and ("refused" in line or "never" in line) for line in lines)


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "1e12"])
def test_a_speed_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(BadOption, match="a number above 0"):
        parse_speed(text)


def test_replay_of_a_trace_needs_no_pool(
    type_line: TypedLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(playback, "_write_line", written.append)
    trace = tmp_path / "t.csv"
    trace.write_text(TRACE.replace("large,2", "third,1"))
    assert type_line(f"replay {trace} --nodes 1xL40S")[0] == 0
    assert written[0].endswith("SIMULATED")
    assert "3 starts, 3 ends" in written[-1]


def test_options_of_a_log_are_refused_with_a_trace(type_line: TypedLine) -> None:
    code, _, told = type_line("replay sample --from 2h")
    assert (code, "--nodes, --policy and --speed alone" in told) == (2, True)
    for option in ("--speed 5", "--nodes 1xL40S"):
        code, _, told = type_line(f"replay {option}")
        assert (code, "of a TRACE" in told) == (2, True)
