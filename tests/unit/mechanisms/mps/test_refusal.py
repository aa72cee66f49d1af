from dataclasses import replace

import pytest

from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecord, CardUse
from gpupool.mechanisms.contract import (
    AllocationView,
    GrantedDevice,
    HostKind,
    JobSeat,
    PreparationStep,
)
from gpupool.mechanisms.mps.refusal import (
    CardSituation,
    find_neighbour_problem,
    find_own_problem,
)
from gpupool.mechanisms.notes import PreparationNote
from gpupool.model.device import CardMode
from tests.support.mps_host import CARD, GIB, describe_share


def note(
    allocation: str, mechanism: str, tenant: str, uuid: str, **beside: object
) -> PreparationNote:
    share = {"tenant": tenant, "devices": [{"uuid": uuid}]}
    made = {"share": share, **beside} if mechanism in ("fence", "mps") else share
    return PreparationNote(mechanism, allocation, 1, PreparationStep.PREPARED, made=made)


def situation(**changes: object) -> CardSituation:
    return replace(CardSituation(None, ComputeMode.DEFAULT), **changes)  # type: ignore[arg-type]


def record(jobs: int = 1, tenant: str = "team", uid: int | None = None) -> CardRecord:
    users = {f"al-x{number}": CardUse(1, 10, GIB) for number in range(jobs)}
    own = describe_share().seat.uid
    return CardRecord(CARD.uuid, "DEFAULT", tenant, own if uid is None else uid, 0, users, "2")


def test_a_share_of_an_nvidia_card_is_served() -> None:
    assert find_own_problem(describe_share()) == ""


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (describe_share(sharing="fixed"), "sharing fixed"),
        (describe_share(granted=(GrantedDevice(CARD, 300, GIB),) * 2), "2 cards, 1 is the most"),
        (describe_share(host=HostKind.VM), "/dev/shm"),
        (describe_share(seat=JobSeat(uid=7, container=True)), "/dev/shm"),
        (describe_share(seat=JobSeat(uid=7, own_pool=True)), "only root"),
        (describe_share(granted=(GrantedDevice(CARD, 300, GIB, profile="1g.18gb"),)), "1g.18gb"),
        (describe_share(card=replace(CARD, vendor="amd")), "card of amd"),
        (describe_share(card=replace(CARD, simulated=True)), "simulated"),
        (describe_share(card=replace(CARD, partitioned=True)), "MIG mode"),
        (describe_share(card=replace(CARD, mode=CardMode.PASSTHROUGH)), "passthrough"),
        (describe_share(card=replace(CARD, compute_capability=(6, 1))), "6.1, 7.0 is the least"),
        (describe_share(card=replace(CARD, compute_capability=None)), "unknown, 7.0"),
        (describe_share(memory_bytes=200 * GIB), "204800 MiB of a card that has 144384 MiB"),
    ],
)
def test_what_mps_cannot_serve_is_refused_with_the_numbers(
    view: AllocationView, reason: str
) -> None:
    assert reason in find_own_problem(view)


def test_a_card_of_another_owner_is_refused() -> None:
    text = find_neighbour_problem(describe_share(), situation(record=record(tenant="blue")))
    assert "blue" not in text, "a tenant learns of no other one by name"
    assert "an MPS daemon of another tenant" in text
    text = find_neighbour_problem(describe_share(), situation(record=record(uid=4242)))
    assert "an MPS daemon of another account" in text


def test_an_old_driver_is_refused_beside_other_tenants_alone() -> None:
    old = describe_share(card=replace(CARD, driver_version="535.261.03"))
    stranger = note("al-9", "fence", "blue", "GPU-other")
    friend = note("al-8", "share", "team", "GPU-other")
    assert find_neighbour_problem(old, situation(notes=(friend,))) == ""
    text = find_neighbour_problem(old, situation(notes=(friend, stranger)))
    assert "driver 535.261.03" in text
    assert "550 is the least beside other tenants" in text
    assert find_neighbour_problem(describe_share(), situation(notes=(stranger,))) == ""


def test_an_unknown_driver_counts_as_an_old_one() -> None:
    view = describe_share(card=replace(CARD, driver_version=None))
    stranger = note("al-9", "whole", "blue", "GPU-other")
    assert "unknown version" in find_neighbour_problem(view, situation(notes=(stranger,)))


@pytest.mark.parametrize("mechanism", ["whole", "fence", "share"])
def test_a_card_with_a_job_without_mps_is_refused(mechanism: str) -> None:
    other = note("al-9", mechanism, "team", CARD.uuid)
    text = find_neighbour_problem(describe_share(), situation(notes=(other,)))
    assert f"allocation al-9 uses {CARD.uuid} by {mechanism}" in text


def test_the_allocation_itself_is_no_neighbour() -> None:
    own = note("al-1", "fence", "team", CARD.uuid)
    assert find_neighbour_problem(describe_share(), situation(notes=(own,))) == ""


def test_the_49th_client_is_refused() -> None:
    assert find_neighbour_problem(describe_share(), situation(record=record(47))) == ""
    text = find_neighbour_problem(describe_share(), situation(record=record(48)))
    assert "48 clients are on its MPS server, 48 is the most" in text
    text = find_neighbour_problem(describe_share(), situation(record=record(2), clients=48))
    assert "48 clients" in text


def test_a_job_that_is_there_already_is_no_49th_client() -> None:
    known = replace(record(47).with_user("al-1", CardUse(5, 300, GIB)))
    assert find_neighbour_problem(describe_share(), situation(record=known)) == ""


def test_a_prohibited_card_and_a_foreign_daemon_are_refused() -> None:
    assert "PROHIBITED" in find_neighbour_problem(
        describe_share(), situation(mode=ComputeMode.PROHIBITED)
    )
    assert "pid 4711" in find_neighbour_problem(describe_share(), situation(foreign=(4711,)))
