"""What of a request reaches the routes: bounded, UTF-8, and text that every database can hold."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api import Client, running_app

LIMIT = 4 << 20


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_app(tmp_path_factory.mktemp("pool")) as pool:
        yield pool.client()


def send(admin: Client, content: bytes, path: str = "tenants") -> tuple[int, str | None]:
    answer = admin.request(
        "POST", path, content=content, headers={"Content-Type": "application/json"}
    )
    assert len(answer.body) < 2000, "what was sent is not repeated in full"
    return answer.status, answer.code


def test_ten_mebibytes_are_too_many(admin: Client) -> None:
    answer = admin.request("POST", "tenants", content=b" " * (10 << 20))
    assert (answer.status, answer.code) == (413, "GP-1011")
    assert "the limit is 4194304" in answer.json()["detail"]


def test_a_body_is_refused_by_its_announced_length_before_it_is_sent(admin: Client) -> None:
    answer = admin.request(
        "POST", "tenants", content=b"{}", headers={"Content-Length": str(10 << 20)}
    )
    assert answer.code == "GP-1011"


def test_the_largest_body_is_read(admin: Client) -> None:
    assert send(admin, b'{"name": "' + b"x" * (LIMIT - 20) + b'"}') == (422, "GP-1010")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"name": "x"}{}',
        b"\xff\xfe",
        b'{"name": "\xc3\x28"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "a\\ud800b"}',
        b'{"a\\u0000b": 1, "name": "x"}',
        b'{"name": NaN}',
        b'{"name": "x", "quota": {"nominal_milli": 1e999}}',
        b'{"name": "x", "quota": {"nominal_milli": Infinity}}',
        b'{"name": "x", "quota": {"nominal_milli": ' + b"9" * 5000 + b"}}",
        b'{"name": "x", "quota": {"nominal_milli": 99999999999999999999}}',
        b'{"name": "x", "quota": {"nominal_milli": 1.5}}',
        b"[" * 100_000,
        b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b', "a": "\\u0041"}',
        b'{"name": "x", "' + b"y" * 100_000 + b'": 1}',
    ],
    ids=lambda content: content[:24].decode("latin-1"),
)
def test_a_body_that_makes_no_sense_is_a_422(admin: Client, content: bytes) -> None:
    assert send(admin, content) == (422, "GP-1010")


def test_a_backslash_before_a_u_is_not_a_nul(admin: Client) -> None:
    content = (
        json.dumps({"name": "backslash", "quota": None}).replace("backslash", r"a\\u0000b").encode()
    )
    assert send(admin, content) == (400, "GP-1003")  # a name of odd characters, but text


def test_escaped_text_that_is_well_formed_arrives(admin: Client) -> None:
    answer = admin.request(
        "POST",
        "tokens",
        content=b'{"label": "\\ud83d\\ude00 \\u00e9"}',
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status, answer.json()["label"]) == (201, "\U0001f600 \u00e9")


def test_another_content_type_is_not_guessed_at(admin: Client) -> None:
    answer = admin.request(
        "POST", "tenants", content=b'{"name": "x"}', headers={"Content-Type": "text/plain"}
    )
    assert answer.code == "GP-1010"


@pytest.mark.parametrize(
    "path", ["tenants/a\0b", "users/\0", "tenants?after=a%00", "tenants?after=%ff", "jobs?name=%00"]
)
def test_an_address_with_a_nul_or_broken_utf_8_is_bad_input(admin: Client, path: str) -> None:
    assert (admin.get(path).status, admin.get(path).code) == (400, "GP-1000")


def test_a_wrong_field_is_named_with_its_place_and_without_its_value(admin: Client) -> None:
    answer = admin.post(
        "tenants", {"name": "x", "quota": {"nominal_milli": -1, "huge": "secret-" * 1000}}
    )
    problem = answer.json()
    assert {one["field"] for one in problem["numbers"]["fields"]} == {
        "quota.nominal_milli",
        "quota.huge",
    }
    assert "secret" not in answer.body.decode()


def test_many_wrong_fields_are_counted_and_the_first_ones_shown(admin: Client) -> None:
    problem = admin.post("tenants", {"name": "x", **{f"wrong-{n}": n for n in range(500)}}).json()
    assert (problem["numbers"]["count"], len(problem["numbers"]["fields"])) == (500, 20)


def test_a_name_with_a_newline_is_refused(admin: Client) -> None:
    assert send(admin, json.dumps({"name": "a\nb"}).encode()) == (400, "GP-1003")


def test_a_refused_body_changed_nothing(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        before = pool.client().get("pool").json()["last_event"]
        for content in (b"\xff", b'{"name": "a\\u0000b"}', b"[" * 1000):
            send(pool.client(), content)
        assert pool.client().get("pool").json()["last_event"] == before
