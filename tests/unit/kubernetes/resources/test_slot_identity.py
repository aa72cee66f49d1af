"""A slot belongs to the container that both records of the kubelet and the ledger name, or to
nobody."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState
from gpupool.kubernetes.resources.names import SLOT
from gpupool.kubernetes.resources.slot_identity import (
    SlotBooking,
    SlotHolder,
    find_holders,
    read_bookings,
)
from gpupool.model.allocation import Seat

ENTRY = Entry("u1", "team", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "team")
BOOKED = SlotBooking("u1", "main", frozenset({"s7"}), "s7-abcd")


def line(
    uid: str, container: str, slots: Sequence[str], answer: str, resource: str = SLOT
) -> dict[str, Any]:
    response = base64.b64encode(answer.encode()).decode()
    ids = {"-1": list(slots)}
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": response,
    }


def checkpoint(*lines: dict[str, Any]) -> bytes:
    return json.dumps({"Data": {"PodDeviceEntries": list(lines)}, "Checksum": 1}).encode()


def find(
    booked: Sequence[SlotBooking] = (BOOKED,),
    entries: Sequence[Entry] = (ENTRY,),
    listed: Mapping[str, Sequence[str]] | None = None,
) -> tuple[SlotHolder, ...]:
    said = {"main": ["s7"]} if listed is None else listed
    return find_holders(
        "s7", booked, {entry.key: entry for entry in entries}, lambda _namespace, _pod: said
    )


def test_a_checkpoint_is_read_for_our_resource_alone() -> None:
    content = checkpoint(
        line("u1", "main", ["s7"], "s7-abcd"), line("u2", "x", ["gpu0"], "y", "nvidia.com/gpu")
    )
    assert read_bookings(content, SLOT, bytes.decode) == (BOOKED,)
    assert read_bookings(checkpoint(), SLOT, bytes.decode) == ()
    assert read_bookings(b'{"Data": {"PodDeviceEntries": null}}', SLOT, bytes.decode) == ()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{}", b"[]", b"7", b'{"Data": {"PodDeviceEntries": [{}]}}']
)
def test_a_torn_checkpoint_is_nobodys_word(content: bytes) -> None:
    with pytest.raises(CardNotReady, match="cannot be read"):
        read_bookings(content, SLOT, bytes.decode)


def test_when_all_agree_the_container_is_known() -> None:
    assert find() == (SlotHolder(BOOKED, ENTRY),)


def test_a_slot_that_nobody_booked_and_one_that_two_pods_did() -> None:
    with pytest.raises(CardNotReady, match="no line"):
        find(booked=[])
    with pytest.raises(CardNotReady, match="2 pods"):
        find(booked=[BOOKED, SlotBooking("u2", "main", frozenset({"s7"}), "s7-ef")])


def test_a_pod_without_cards_in_the_ledger_waits_and_so_does_one_whose_cards_drain() -> None:
    with pytest.raises(CardNotReady, match="no cards in this node's ledger"):
        find(entries=[])
    draining = Entry("u1", "team", "a", "main", ENTRY.seats, "team", state=EntryState.DRAINING)
    with pytest.raises(CardNotReady, match="given back"):
        find(entries=[draining])


def test_records_that_do_not_agree_are_refused() -> None:
    for listed in ({"main": ["s8"]}, {"main": [], "other": ["s7"]}, {"other": ["s7"]}):
        with pytest.raises(CardNotReady, match="do not agree"):
            find(listed=listed)


def test_an_init_container_is_in_one_record_alone_and_shares_its_slot_with_the_next() -> None:
    init = SlotBooking("u1", "init", frozenset({"s7"}), "s7-0001")
    other = Entry("u1", "team", "a", "init", (Seat("GPU-1", 100, 1 << 30),), "team")
    found = find(booked=[init, BOOKED], entries=[ENTRY, other])
    assert [(one.booking.device, one.entry.seats[0].device) for one in found] == [
        ("s7-0001", "GPU-1"),
        ("s7-abcd", "GPU-0"),
    ]
