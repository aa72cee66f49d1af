"""Summaries of bodies: no text that a shape does not list is ever shown."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from gpupool.audit_log.fields import (
    HIDDEN,
    ITEMS_SHOWN,
    SUMMARY_BYTES,
    list_fields,
    list_options,
    summarize_body,
)
from gpupool.audit_log.shown_texts import SHOWN_TEXTS
from gpupool.server.app import MOUNTS
from gpupool.wire.people import TenantIn, UserIn
from gpupool.wire.signon import PasswordLoginIn
from gpupool.wire.submissions import JobIn

SECRET = "hunter2-hunter2"
#: Parts of names of fields whose texts are secrets, or may hold one.
SECRET_WORDS = ("password", "token", "secret", "key", "env", "argv", "certificate", "code", "totp")


def list_body_shapes() -> list[Any]:
    shapes = []
    for mount in MOUNTS:
        for route in mount.router.routes:
            if isinstance(route, APIRoute) and route.body_field is not None:
                shapes.append(route.body_field.field_info.annotation)
    return shapes


def iterate_models(annotation: Any, found: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    for option in list_options(annotation):
        for argument in typing.get_args(option):
            yield from iterate_models(argument, found)
        if isinstance(option, type) and issubclass(option, BaseModel) and option not in found:
            found.add(option)
            yield option
            for field in list_fields(option).values():
                yield from iterate_models(field, found)


MODELS = {
    model.__name__: model
    for seen in [set[type[BaseModel]]()]
    for shape in list_body_shapes()
    for model in iterate_models(shape, seen)
}


def fill(annotation: Any, depth: int = 5) -> Any:
    """Make a value of every text, list and object that a type allows, with the secret as text."""
    for option in list_options(annotation):
        origin = typing.get_origin(option)
        if isinstance(option, type) and issubclass(option, BaseModel):
            if depth == 0:
                continue
            return {name: fill(one, depth - 1) for name, one in list_fields(option).items()}
        if origin in (list, tuple):
            return [fill(typing.get_args(option)[0], depth - 1)]
        if origin is dict:
            return {SECRET: SECRET}
    return SECRET


def find_shown(model: type[BaseModel], summary: Any) -> set[str]:
    """Find the fields whose summary shows the secret, as `Model.field`."""
    found: set[str] = set()
    for name, annotation in list_fields(model).items():
        value = summary.get(name) if isinstance(summary, dict) else None
        if value in (SECRET, [SECRET]):
            found.add(f"{model.__name__}.{name}")
            continue
        below = value if isinstance(value, list) else [value]
        for child in list_children(annotation):
            for one in below:
                found |= find_shown(child, one) if isinstance(one, dict) else set()
    return found


def list_children(annotation: Any) -> list[type[BaseModel]]:
    """List the shapes that a field, or the items of its list, can have."""
    found = []
    for option in list_options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            found.append(option)
        for argument in typing.get_args(option):
            found += list_children(argument)
    return found


def test_there_are_routes_with_bodies_to_look_at() -> None:
    assert len(list_body_shapes()) > 50
    assert {"JobIn", "LaunchIn", "MailServerIn", "OidcSettings"} <= MODELS.keys()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_shape_shows_only_the_texts_that_are_listed(name: str) -> None:
    model = MODELS[name]
    body = json.dumps(fill(model)).encode()
    allowed = {f"{one}.{field}" for one, fields in SHOWN_TEXTS.items() for field in fields}
    assert find_shown(model, summarize_body(model, body)) <= allowed


def test_every_listed_field_is_there_and_sounds_like_no_secret() -> None:
    for name, fields in SHOWN_TEXTS.items():
        assert fields <= list_fields(MODELS[name]).keys(), name
        risky = {field for field in fields for word in SECRET_WORDS if word in field}
        assert risky == set(), name


def test_a_number_where_a_password_belongs_is_not_shown() -> None:
    body = b'{"user": "ada", "password": 20070815, "totp": 123456}'
    assert summarize_body(PasswordLoginIn, body) == {
        "user": HIDDEN,
        "password": HIDDEN,
        "totp": HIDDEN,
    }


def test_environment_and_command_of_a_job_are_named_without_content() -> None:
    body = {
        "name": "train",
        "shape": {"gpu_milli": 300, "sharing": "burst"},
        "launch": {"argv": ["python", SECRET], "env": {SECRET: SECRET}, "umask": 18},
    }
    found = summarize_body(JobIn, json.dumps(body).encode())
    assert found == {
        "name": "train",
        "shape": {"gpu_milli": 300, "sharing": "burst"},
        "launch": {"argv": "(2 items)", "env": "(1 entries)", "umask": 18},
    }


def test_words_of_a_fixed_list_are_shown_and_others_are_not() -> None:
    assert summarize_body(UserIn, b'{"role": "admin"}') == {"role": "admin"}
    assert summarize_body(UserIn, b'{"role": "hunter2"}') == {"role": HIDDEN}


def test_fields_that_a_shape_does_not_have_are_left_out() -> None:
    assert summarize_body(TenantIn, b'{"name": "blue", "hunter2": 1}') == {"name": "blue"}


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b"7", b"[" * 5000])
def test_what_is_no_object_has_no_summary(body: bytes) -> None:
    assert summarize_body(TenantIn, body) == {}


class LongIn(BaseModel):
    numbers: list[Annotated[int, Field(ge=0)]] = []
    ratio: float = 0.0
    words: list[Literal["a", "b"]] = []


def test_lists_are_cut_and_fractions_are_texts() -> None:
    body = json.dumps({"numbers": list(range(50)), "ratio": 0.5, "words": ["a", "x"]}).encode()
    found = summarize_body(LongIn, body)
    assert found["numbers"] == [*range(ITEMS_SHOWN), "(40 more)"]
    assert (found["ratio"], found["words"]) == ("0.5", ["a", HIDDEN])


class WideIn(BaseModel):
    rows: list[dict[str, int]] = []
    many: list[list[list[list[int]]]] = []
    amount: int = 0


def test_a_summary_is_bounded() -> None:
    number = 10**17
    body = json.dumps({"many": [[[[number] * 10] * 10] * 10] * 10, "amount": 5}).encode()
    found = summarize_body(WideIn, body)
    assert found == {"many": HIDDEN, "amount": 5}
    assert len(json.dumps(found)) <= SUMMARY_BYTES
