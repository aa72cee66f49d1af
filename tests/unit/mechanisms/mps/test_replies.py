"""The texts are those that version 535.261.03 gave; tests/hosts/test_mps.py asks it again."""

import pytest

from gpupool.mechanisms.mps.replies import (
    ReplyKind,
    classify_reply,
    is_same_number,
    parse_pids,
    parse_rows,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("100.0\n", ReplyKind.VALUE),
        ("4G", ReplyKind.VALUE),
        ("", ReplyKind.EMPTY),
        ("\n", ReplyKind.EMPTY),
        ("Server 1 not found", ReplyKind.NO_SERVER),
        ("Server not found", ReplyKind.NO_SERVER),
        ('Unknown command "device_query"', ReplyKind.UNKNOWN_COMMAND),
        ("Cannot find MPS control daemon process", ReplyKind.NO_DAEMON),
        ("nvidia-cuda-mps-control was not found on this host", ReplyKind.FAILURE),
        ("An error occurred", ReplyKind.FAILURE),
    ],
)
def test_a_reply_is_told_by_its_text(text: str, kind: ReplyKind) -> None:
    assert classify_reply(text).kind is kind


def test_only_settings_and_values_are_successes() -> None:
    assert classify_reply("30.0").is_success
    assert classify_reply("").is_success
    assert not classify_reply("Server 1 not found").is_success
    assert not classify_reply('Unknown command "lspart"').is_success


def test_a_list_of_servers_has_one_pid_a_line() -> None:
    assert parse_pids(classify_reply("4711\n4712\n")) == (4711, 4712)
    assert parse_pids(classify_reply("")) == ()
    assert parse_pids(classify_reply("Server not found")) == ()


def test_rows_of_protocol_3_are_split_at_commas() -> None:
    text = "training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-"
    assert parse_rows(classify_reply(text))[0][:4] == ("training", "1000", "48201", "Ready")
    assert parse_rows(classify_reply("Server 'gpupool' not found")) == ()


def test_percentages_are_compared_as_numbers() -> None:
    assert is_same_number("30.0", 30)
    assert is_same_number("30%", 30)
    assert not is_same_number("95.0", 30)
    assert not is_same_number("Server 1 not found", 1)
