"""Submissions are written, and placed where there is room."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gpupool.allocations.submission import validate
from gpupool.allocations.submission.submission import Submission
from gpupool.base.errors import GpupoolError, NoPermission, UnknownTenant
from gpupool.wire.people import UserPatch
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.gang_sizes import FEW
from tests.support.house import House


def test_values_of_a_transaction_are_written_as_json_by_one_encoder(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = Counter[str]()
    begin = json.JSONEncoder.__init__

    def counted(encoder: json.JSONEncoder, *args: Any, **options: Any) -> None:
        encoders["made"] += 1
        begin(encoder, *args, **options)

    monkeypatch.setattr(json.JSONEncoder, "__init__", counted)
    house.submit(
        1, None, name="train", gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=FEW)])
    )
    assert encoders["made"] < FEW


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        ("disabled", NoPermission, "the user ann is disabled"),
        ("deleted", NoPermission, "the user ann is deleted"),
        ("tenant", UnknownTenant, "no tenant 'blue': it was deleted"),
    ],
)
@pytest.mark.parametrize("size", [None, 3])
def test_nothing_is_written_for_a_submitter_that_was_ended_meanwhile(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    error: type[GpupoolError],
    text: str,
    size: int | None,
) -> None:
    """What stops the jobs of a user that leaves, or counts them, has run by then."""
    house.tenancy.tenants.create(house.admin, "blue", None)
    ann = house.member("ann", "blue")
    check = validate.check_submission

    def check_before_the_end(*args: Any, **more: Any) -> Submission:
        found = check(*args, **more)
        if end == "disabled":
            house.tenancy.users.change(house.admin, "ann", UserPatch(disabled=True))
        else:
            house.tenancy.users.delete(house.admin, "ann")
        if end == "tenant":
            house.tenancy.tenants.delete(house.admin, "blue")
        return found

    monkeypatch.setattr(validate, "check_submission", check_before_the_end)
    with pytest.raises(error, match=text):
        house.submit(name="late", principal=ann, array=size)
    assert sum(house.count_jobs().values()) == 0
