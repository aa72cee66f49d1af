"""argparse in gpupool's words: nearest options, bounds, verbs."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption
from gpupool.cli.main import main
from gpupool.terminal.parser import integer_within, one_of, parse_command, path_of


def test_an_option_is_compared_without_its_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--beyond", "x", "--", "true"]) == 2
    assert "did you mean" not in capsys.readouterr().err
    assert main(["submit", "--memroy", "1GiB", "--", "true"]) == 2
    assert "did you mean --memory?" in capsys.readouterr().err


def test_a_word_too_many_and_a_missing_verb_are_named() -> None:
    with pytest.raises(BadOption, match="gpupool whoami: 'x' is one word too many"):
        parse_command("whoami", ["x"])
    with pytest.raises(BadOption, match="gpupool token needs one of: create, list, revoke"):
        parse_command("token", [])


def test_an_unknown_option_of_a_verb_is_compared_with_the_verbs_own() -> None:
    with pytest.raises(BadOption, match="gpupool token create: unknown option --lable") as refused:
        parse_command("token", ["create", "--lable=x"])
    assert refused.value.hint == "did you mean --label?  gpupool token create --help"


def test_an_option_without_its_value_is_told_by_its_last_flag() -> None:
    with pytest.raises(BadOption, match="--output needs a value"):
        parse_command("whoami", ["-o"])
    with pytest.raises(BadOption, match="missing: JOB"):
        parse_command("logs", [])


@pytest.mark.parametrize("text", ["0", "11", "-1", "1.0", "", "²", "--1"])
def test_a_number_outside_its_bounds_is_refused_with_them(text: str) -> None:
    check = integer_within("--rows", "the number of rows", 1, 10)
    assert (check("1"), check("10")) == (1, 10)
    with pytest.raises(BadOption, match="the number of rows is a whole number from 1 to 10"):
        check(text)


def test_a_value_of_few_is_answered_with_the_nearest() -> None:
    check = one_of("--rule", "max", "compute-only")
    assert check("max") == "max"
    with pytest.raises(BadOption, match="--rule 'compute' is not known") as refused:
        check("compute")
    assert refused.value.hint == "did you mean compute-only?  one of: max, compute-only"


def test_an_empty_name_of_a_file_is_refused() -> None:
    assert path_of("--out")("x") == "x"
    with pytest.raises(BadOption, match="--out has no name of a file"):
        path_of("--out")("")


def test_options_are_not_abbreviated() -> None:
    with pytest.raises(BadOption, match="unknown option --outp"):
        parse_command("whoami", ["--outp", "json"])


def test_a_mistyped_verb_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(BadOption, match="gpupool network has no verb 'lst'") as refused:
        parse_command("network", ["lst"])
    assert refused.value.hint == "did you mean list?  gpupool network --help"
    with pytest.raises(BadOption) as refused:
        parse_command("tenant", ["xyzzy"])
    assert refused.value.hint == "gpupool tenant --help"


@pytest.mark.parametrize(
    ("command", "verb", "meant"),
    [
        ("tenant", "add", "did you mean create?  gpupool tenant --help"),
        ("template", "use", "did you mean run?  gpupool template --help"),
        ("tenant", "get", "did you mean list or show?  gpupool tenant --help"),
        ("tenant", "rm", "did you mean delete?  gpupool tenant --help"),
    ],
)
def test_a_verb_of_other_tools_is_answered_with_ours(command: str, verb: str, meant: str) -> None:
    with pytest.raises(BadOption) as refused:
        parse_command(command, [verb])
    assert refused.value.hint == meant


def test_a_verb_of_two_words_is_written_with_a_space_too() -> None:
    spaced = parse_command("network", ["gateway", "drill", "lab", "-o", "json"])
    assert spaced == parse_command("network", ["gateway-drill", "lab", "-o", "json"])
    # A verb of one word keeps what follows it.
    assert parse_command("network", ["default", "lab"]).name == "lab"


def test_half_of_a_verb_is_refused_with_the_verbs_that_begin_so() -> None:
    with pytest.raises(BadOption) as refused:
        parse_command("network", ["subnet", "lab"])
    assert refused.value.hint == (
        "did you mean subnet-create, subnet-delete?  gpupool network --help"
    )


def test_formats_are_asked_for_as_other_tools_do_and_help_names_one_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parse_command("ps", ["--format", "csv"]).output == "csv"
    assert parse_command("doctor", ["--json"]).output == "json"
    assert parse_command("doctor", []).output == "table"
    with pytest.raises(BadOption, match="-o 'xml' is not known"):
        parse_command("ps", ["--format", "xml"])
    assert main(["doctor", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--output" in shown
    assert "--format" not in shown
    assert "--json" not in shown


def test_an_option_of_another_tool_is_answered_with_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for typed, ours in (("--gres", "--gpu"), ("--time", "--max-time")):
        assert main(["run", typed, "x", "--", "true"]) == 2
        assert f"did you mean {ours}?" in capsys.readouterr().err
