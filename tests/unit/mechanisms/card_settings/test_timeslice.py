"""The table is the form of `nvidia-smi compute-policy -l`."""

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.card_settings.timeslice import DriverTimeslices, Timeslice
from gpupool.mechanisms.card_settings.vendor_tool import ToolAnswer

TABLE = """+-----------------------------------------+
| GPU compute policies:                   |
| GPU     Name            Value           |
|=========================================|
| 0       Timeslice       {}         |
+-----------------------------------------+"""


class Tool:
    """nvidia-smi for one card."""

    def __init__(self, value: str = "Default", *, takes: bool = True) -> None:
        self.value = value
        self.takes = takes
        self.calls: list[tuple[str, ...]] = []

    def run(self, *arguments: str) -> ToolAnswer:
        self.calls.append(arguments)
        if arguments[-1] == "-l":
            return ToolAnswer(True, TABLE.format(self.value))
        if self.takes:
            self.value = ("Default", "Short", "Medium", "Long")[int(arguments[-1][-1])]
        return ToolAnswer(self.takes, "done" if self.takes else "Insufficient Permissions")


def test_the_slice_is_set_by_its_number_and_read_back() -> None:
    tool = Tool()
    slices = DriverTimeslices(tool)
    assert slices.read_timeslice("GPU-1") is Timeslice.DEFAULT
    slices.write_timeslice("GPU-1", Timeslice.SHORT)
    assert ("compute-policy", "-i", "GPU-1", "--set-timeslice=1") in tool.calls
    assert slices.read_timeslice("GPU-1") is Timeslice.SHORT


def test_a_slice_that_was_not_taken_is_a_failure_with_the_reason() -> None:
    with pytest.raises(ServiceUnavailable, match=r"it has default.*Insufficient Permissions"):
        DriverTimeslices(Tool(takes=False)).write_timeslice("GPU-1", Timeslice.SHORT)


@pytest.mark.parametrize("value", ["N/A", ""])
def test_a_table_that_does_not_say_it_is_a_failure(value: str) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be read"):
        DriverTimeslices(Tool(value)).read_timeslice("GPU-1")
