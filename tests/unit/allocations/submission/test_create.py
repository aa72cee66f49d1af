"""Submissions are written, and placed where there is room."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

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
