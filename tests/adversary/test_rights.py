"""Accounts of one machine against each other, on a pool that root started: what they may not, they
cannot."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import NotLoggedIn, TokenMayNotMint, TokenOfAnAccount
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool
from tests.support.accounts import open_directory
from tests.support.claims import claim_port
from tests.support.typing_as import Typed, typed_as

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can be several people"),
]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "one-server-many-people.md"
#: Accounts that every Debian has, in the place of the page's people.
PEOPLE = {"alice": ("games", 5), "bob": ("news", 9)}
ALICE, BOSS, EVE = 54341, 54342, 54343
SUBMIT = ("submit", "--gpu", "0.1", "--memory", "1GiB")


def typed(pool: RealPool, uid: int, *words: str) -> Typed:
    return typed_as(uid, {**pool.environ, "HOME": "/nonexistent"}, *words)


PORT = "port"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A pool of root's in a directory that others can reach, which listens on the loopback as
    well."""
    port = claim_port()
    with open_directory() as place:
        made = RealPool(place / "pool")
        made.environ[PORT] = str(port)
        made.up("--sim", made.sim, "--listen", f"127.0.0.1:{port}")
        yield made
        made.__exit__()


@pytest.fixture(scope="module")
def house(pool: RealPool) -> RealPool:
    """The tenant lab: alice works there, boss is its tenant-admin. Eve is in `default`, as every
    unknown account is."""
    for uid in (ALICE, BOSS, EVE):
        assert typed(pool, uid, "whoami").code == 0
    pool.do("tenant", "create", "lab")
    pool.do("user", "set", f"uid-{ALICE}", "--tenant", "lab")
    pool.do("user", "set", f"uid-{BOSS}", "--tenant", "lab", "--role", "tenant-admin")
    return pool


def commands() -> Iterator[tuple[bool, list[str]]]:
    """The page's commands in their order: whether root types it, and its words."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line[2:], comments=True)
            for name, (account, _) in PEOPLE.items():
                words = [account if word == name else word for word in words]
            yield (
                line.startswith("#"),
                words[words.index("gpupool") + 1 :],
            )  # settings stand before it


def test_the_page_for_many_people_works_as_it_is_written() -> None:
    """Every command of it, in order, as root and as alice. Simulated cards take the place of the
    machine's."""
    told: dict[str, str] = {}
    with open_directory() as place, RealPool(place / "pool", "2xL40S") as pool:
        for as_root, words in commands():
            if words[0] in (
                "doctor",
                "up",
            ):  # what they say depends on the machine; the pool of this test runs
                assert as_root
                continue
            answer = typed(pool, 0 if as_root else PEOPLE["alice"][1], *words)
            assert answer.code == 0, (words, answer.said)
            told[words[0]] = answer.said
    assert "nlp" in told["whoami"]
    share = json.loads(told["run"][told["run"].index("{") : told["run"].rindex("}") + 1])
    assert share["fence"] == "soft", "the page names the isolation level"
    assert told["logs"] == "hello\n"
    assert "train" in told["ps"]


def test_a_colleague_reads_neither_output_nor_command(house: RealPool) -> None:
    other = 54344
    secret = "the-password-is-tulip"
    assert typed(house, EVE, *SUBMIT, "--name", "eves", "--", "echo", secret).code == 0
    house.until_state("eves", "done")
    for words in (
        ("logs", "eves"),
        ("show", "eves"),
        ("ps", "--all"),
        ("explain", "eves"),
        ("events", "--all"),
    ):
        answer = typed(house, other, *words)
        assert secret not in answer.said, words
    refused = typed(house, other, "logs", "eves")
    assert (refused.code, "GP-3012" in refused.said) == (4, True), refused.said
    assert "eves" in typed(house, other, "ps", "--all").said
    assert secret in typed(house, EVE, "logs", "eves").said


def test_a_tenant_admin_gets_no_token_of_a_colleagues_account(house: RealPool) -> None:
    answer = typed(house, BOSS, "token", "create", "--user", f"uid-{ALICE}")
    assert (answer.code, "GP-3011" in answer.said) == (4, True), answer.said
    assert typed(house, BOSS, "user", "add", "puppet").code == 0
    bound = typed(house, BOSS, "user", "set", "puppet", "--run-as", "games")
    assert bound.code == 4, bound.said
    token = token_of(typed(house, BOSS, "token", "create", "--user", "puppet"))
    assert over_the_network(house, token, "GET", "whoami")["user"] == "puppet"
    house.do("user", "set", "puppet", "--run-as", "games", "--unix-user", "none")
    with pytest.raises(NotLoggedIn):
        over_the_network(house, token, "GET", "whoami")


def token_of(answer: Typed) -> str:
    return re.findall(r"gpp_\S+", answer.said)[0]


def over_the_network(pool: RealPool, token: str, method: str, path: str, body: Any = None) -> Any:
    with Api(ClientSettings(url=f"http://127.0.0.1:{pool.environ[PORT]}", token=token)) as api:
        return api.request(method, path, body)


def test_tokens_have_an_end_and_take_along_what_they_made(house: RealPool) -> None:
    first = token_of(typed(house, ALICE, "token", "create", "--may-mint"))
    child = over_the_network(house, first, "POST", "tokens", {})["token"]
    with pytest.raises(TokenMayNotMint, match="itself"):
        over_the_network(house, first, "POST", "tokens", {"may_mint": True})
    session = over_the_network(house, child, "POST", "/login", {"token": child})["token"]
    for plain in (child, session):
        with pytest.raises(TokenMayNotMint):
            over_the_network(house, plain, "POST", "tokens", {})
    watching = watch(house, session)
    assert b" 200 " in watching.recv(4096)
    assert typed(house, ALICE, "token", "revoke", first.split("_")[1]).code == 0
    while watching.recv(65536):  # to its end, which the revocation is
        continue
    for text in (first, child, session):
        with pytest.raises(NotLoggedIn):
            over_the_network(house, text, "GET", "whoami")


def test_a_tenant_admins_token_that_may_mint_mints_no_colleagues_account(house: RealPool) -> None:
    of_boss = token_of(typed(house, BOSS, "token", "create", "--may-mint"))
    with pytest.raises(TokenOfAnAccount):
        over_the_network(house, of_boss, "POST", "tokens", {"user": f"uid-{ALICE}"})


def watch(pool: RealPool, token: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(pool.environ[PORT])), 30)
    path = "/api/v1/watch?after=0"
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: pool",
        f"Authorization: Bearer {token}",
        "Connection: close",
        "",
        "",
    ]
    connection.sendall("\r\n".join(lines).encode())
    return connection


@pytest.mark.parametrize("uid", [ALICE, BOSS])
def test_down_by_who_may_not_ends_no_job(house: RealPool, uid: int) -> None:
    name = f"stays-{uid}"
    started = typed(house, uid, *SUBMIT, "--name", name, "--", "/bin/sleep", "600")
    assert started.code == 0, started.said
    house.until_state(name, "running")
    for words in (("down", "--yes"), ("down", "--purge", "--yes")):
        answer = typed(house, uid, *words)
        assert (answer.code, "nothing was ended" in answer.said) == (4, True), answer.said
    assert house.job(name)["state"] == "running"
    assert typed(house, uid, "stop", name).code == 0


def test_a_project_that_was_mistyped_is_not_made(house: RealPool) -> None:
    assert typed(house, BOSS, "project", "create", "thesis").code == 0
    assert typed(house, ALICE, "project", "create", "mine").code == 4
    answer = typed(house, ALICE, *SUBMIT, "--project", "tehsis", "--", "true")
    assert (answer.code, "GP-2052" in answer.said, "thesis" in answer.said) == (3, True, True), (
        answer.said
    )
    assert house.json("tenant", "show", "lab")["projects"] == ["default", "thesis"]
