"""`gpupool vm ssh` reads its words in the order that OpenSSH reads them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadInput, BadOption
from gpupool.cli.work.vm_control import split_account, split_ssh_words
from gpupool.terminal.parser import parse_command


@pytest.mark.parametrize(
    ("typed", "own", "command"),
    [
        ("dev", "dev", ""),
        ("dev -l debian", "dev -l debian", ""),
        ("-l debian dev lspci -v", "-l debian dev", "lspci -v"),
        ("dev -l debian lspci -v", "dev -l debian", "lspci -v"),
        ("-i key dev -l debian ls -l /", "-i key dev -l debian", "ls -l /"),
        ("dev -ldebian --identity=key ls", "dev -ldebian --identity=key", "ls"),
        ("dev ls -- -l", "dev", "ls -- -l"),
        ("dev -- -l", "dev", "-l"),
        ("-l debian -- dev -l x", "-l debian dev", "-l x"),
        ("dev --no-color --state-dir /s ls", "dev --no-color --state-dir /s", "ls"),
    ],
)
def test_words_after_the_vm_and_its_options_are_the_command(
    typed: str, own: str, command: str
) -> None:
    assert split_ssh_words(typed.split()) == (own.split(), command.split())


@pytest.mark.parametrize("typed", ["-l debian dev lspci -v", "dev -l debian lspci -v"])
def test_options_before_and_after_the_vm_mean_the_same(typed: str) -> None:
    options = parse_command("vm", ["ssh", *typed.split()])
    assert (options.vm, options.login) == ("dev", "debian")
    assert options.command == ["lspci", "-v"]


@pytest.mark.parametrize(
    ("typed", "reason"), [("dev -p 22 ls", "unknown option -p"), ("-l debian", "missing: VM")]
)
def test_an_option_that_is_not_known_is_refused_by_name(typed: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse_command("vm", ["ssh", *typed.split()])


def test_the_account_is_before_the_at_or_behind_the_option() -> None:
    assert split_account("dev", None) == ("dev", None)
    assert split_account("dev", "debian") == ("dev", "debian")
    assert split_account("debian@dev", None) == ("dev", "debian")
    assert split_account("debian@dev", "debian") == ("dev", "debian")
    assert split_account("a@b@dev", None) == ("dev", "a@b")


@pytest.mark.parametrize(("text", "login"), [("debian@dev", "root"), ("@dev", None)])
def test_two_accounts_or_an_empty_one_are_refused(text: str, login: str | None) -> None:
    with pytest.raises(BadOption) as error:
        split_account(text, login)
    assert error.value.hint == f"gpupool vm ssh dev -l {login or 'USER'}"
