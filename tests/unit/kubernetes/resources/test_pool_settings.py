"""What the settings object says counts, field by field; what cannot be read changes nothing."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from gpupool.base.errors import BadOption, UnknownPolicy
from gpupool.kubernetes.manifests.crds import pool_settings
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources.pool_settings import NAME, PoolSettings, Settings
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES
from tests.unit.kubernetes.resources.test_gpu_node import check

OTHER = Settings(
    policy="binpack",
    dialects=frozenset({"native", "hami"}),
    preemption=replace(
        DEFAULT_PREEMPTION_RULES, enabled=False, reclaims=False, protected_s=7, per_hour=3
    ),
    replace_seconds=0,
)


def found(
    spec: dict[str, Any], status: dict[str, Any] | None = None, name: str = NAME
) -> dict[str, Any]:
    return {"metadata": {"name": name, "generation": 1}, "spec": spec, "status": status or {}}


def test_what_is_written_is_read_back_and_fits_the_definition() -> None:
    schema = pool_settings()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for one in (Settings(), OTHER):
        assert Settings.from_json(one.to_json()) == one
        check(one.to_json(), schema["spec"])
        check(one.to_json(), schema["status"]["properties"]["inUse"])
    assert set(schema["spec"]["properties"]) == set(Settings().to_json())


def test_what_the_object_leaves_out_is_as_the_program_was_started() -> None:
    said = Settings.parse(json.dumps({"preemption": {"protectedSeconds": 7}}))
    settings = PoolSettings(said)
    assert settings.note_settings(found({"preemption": {"perHour": 3}}), False)
    assert settings.in_use.preemption == replace(
        DEFAULT_PREEMPTION_RULES, protected_s=7, per_hour=3
    )
    assert settings.note_settings(found({}), True)
    assert settings.in_use == said


def test_what_cannot_be_read_changes_nothing_also_for_a_new_leader() -> None:
    settings = PoolSettings(Settings())
    settings.note_settings(found({"policy": "binpack"}), False)
    assert not settings.note_settings(found({"policy": "of-next-year"}), False)
    assert (settings.in_use.policy, type(settings.refusal)) == ("binpack", UnknownPolicy)
    new = PoolSettings(Settings())
    assert new.note_settings(found({"policy": "of-next-year"}, {"inUse": OTHER.to_json()}), False)
    assert new.in_use == OTHER
    new.note_settings(found({}), False)
    assert (new.in_use, new.refusal) == (Settings(), None)


def test_an_object_of_another_name_is_nobody() -> None:
    assert not PoolSettings(Settings()).note_settings(
        found({"policy": "binpack"}, name="mine"), False
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "nothing is called"),
        ('{"polcy": "binpack"}', "nothing is called 'polcy'"),
        ('{"dialects": ["native", "hamy"]}', "none called 'hamy'"),
        ('{"dialects": ["hami"]}', "nobody else to read them"),
        ('{"replaceSeconds": -1}', "-1, and has to be a whole number from 0 to 86400"),
        ('{"preemption": {"protectedSeconds": 90000}}', "90000, and has to be"),
    ],
)
def test_a_bad_value_is_refused_with_the_numbers(text: str, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        Settings.parse(text)


def test_every_number_that_a_controller_counts_says_what_it_is() -> None:
    assert all(one.metadata["said"] and one.default == 0 for one in fields(ControllerCounters))
