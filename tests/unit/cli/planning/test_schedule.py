"""`gpupool schedule add` finds its own options before --, and those of the job behind it."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.terminal.parser import parse_command


def test_options_of_the_job_come_behind_two_dashes() -> None:
    words = ["add", "nightly", "--cron", "0 2 * * *", "--tz", "Asia/Shanghai", "--"]
    options = parse_command("schedule", [*words, "--gpu", "1", "--", "sh", "-c", "echo"])
    assert (options.name, options.cron, options.tz) == (
        "nightly",
        "0 2 * * *",
        "Asia/Shanghai",
    )
    assert options.words == ["--gpu", "1", "--", "sh", "-c", "echo"]


def test_a_schedule_without_an_expression_is_refused() -> None:
    with pytest.raises(BadOption):
        parse_command("schedule", ["add", "nightly", "--", "true"])
