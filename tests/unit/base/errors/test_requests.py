"""Errors of requests: codes that stay, and what a reader of one sees."""

from __future__ import annotations

from gpupool.base.errors import (
    BadName,
    GpupoolError,
    NotFound,
    PoolLost,
    UnknownTenant,
    from_code,
    list_error_classes,
)


def test_every_error_has_a_code_of_its_own() -> None:
    def walk(cls: type[GpupoolError]) -> list[type[GpupoolError]]:
        return [cls, *(found for sub in cls.__subclasses__() for found in walk(sub))]

    classes = walk(GpupoolError)[1:]
    assert len({cls.code for cls in classes}) == len(classes) == len(list_error_classes())


def test_an_error_travels_by_its_code_and_an_unknown_code_keeps_its_words() -> None:
    assert isinstance(from_code("GP-5008", "gone"), PoolLost)
    newer = from_code("GP-7777", "from the future", hint="upgrade")
    assert (newer.code, str(newer)) == ("GP-7777", "GP-7777: from the future\n  upgrade")


def test_error_without_its_own_exit_code_has_that_of_its_base() -> None:
    assert (BadName.exit_code, NotFound.exit_code, UnknownTenant.exit_code) == (2, 5, 5)
    assert UnknownTenant.code != NotFound.code


def test_error_shows_its_hint_on_a_line_of_its_own_only_where_it_has_one() -> None:
    assert str(NotFound("no such job")) == "GP-3003: no such job"
    error = NotFound("no such job", hint="gpupool ps", job="a")
    assert str(error) == "GP-3003: no such job\n  gpupool ps"
    assert (error.message, error.details) == ("no such job", {"job": "a"})
