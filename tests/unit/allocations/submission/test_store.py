"""Rows of a submission: names that live jobs have, and what is kept of a command."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NameTaken
from tests.support.house import House


def test_a_live_jobs_name_is_taken_and_free_again_when_it_ended(house: House) -> None:
    house.submit(name="a")
    with pytest.raises(NameTaken):
        house.submit(name="a")
    house.finish("a")
    assert house.submit(name="a").state == "starting"


def test_a_name_that_a_waiting_array_or_its_member_has_is_taken(house: House) -> None:
    house.submit(1000, None, name="sweep", array=9)
    for name in ("sweep", "sweep.8"):
        with pytest.raises(NameTaken, match=f"a job named {name} is"):
            house.submit(1000, None, name=name)
    house.submit(1000, None, name="sweep.9")
