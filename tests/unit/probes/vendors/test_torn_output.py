"""Output that was cut, or lost words: no parser may raise, for the agent reads it every few seconds."""

from collections.abc import Iterator

import pytest

from gpupool.probes.intel.xpu_smi import parse_detail, parse_discovery, parse_statistics
from gpupool.probes.vendors import FORMATS
from tests.support import tool_outputs
from tests.support.recorded_hosts import TOOLS

MORE = {
    "ascend": tool_outputs.NPU_SMI_310,
    "biren": tool_outputs.BRSMI_106B,
    "cambricon": tool_outputs.CNMON_4,
    "enflame": tool_outputs.EFSMI_OLD,
}


def tear(text: str) -> Iterator[str]:
    """Yield the text cut after each few characters, without each line and without each word."""
    yield from (text[:end] for end in range(0, len(text), 7))
    lines = text.splitlines(keepends=True)
    for number in range(len(lines)):
        yield "".join([*lines[:number], *lines[number + 1 :]])
    for word in sorted(set(text.split())):
        yield text.replace(word, "")
        yield text.replace(word, "|")


@pytest.mark.parametrize("vendor", FORMATS)
def test_a_parser_reads_torn_output_without_raising(vendor: str) -> None:
    _, answers = TOOLS[vendor]
    texts = [*answers.values(), *([MORE[vendor]] if vendor in MORE else [])]
    for query in FORMATS[vendor].queries:
        for text in texts:
            for torn in tear(text):
                for card in query.parse(torn).cards:
                    assert card.number >= 0
                    assert card.product


def test_intels_parsers_read_torn_output_without_raising() -> None:
    for parse, text in (
        (parse_discovery, tool_outputs.XPU_SMI_DISCOVERY),
        (parse_detail, tool_outputs.XPU_SMI_DETAIL),
        (parse_statistics, tool_outputs.XPU_SMI_STATS),
    ):
        for torn in tear(text):
            parse(torn)
