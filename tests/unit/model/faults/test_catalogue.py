"""The rows of the catalogue against NVIDIA's buckets, which were written down apart from our actions."""

from __future__ import annotations

import pytest

from gpupool.model.faults.catalogue import XidEntry, read_xids

#: What follows from a bucket of NVIDIA.
BY_BUCKET = {
    "RESTART_APP": ("tell-job", "none"),
    "RESET_GPU": ("drain-card", "reset"),
    "RESTART_BM": ("drain-node", "reboot"),
    "RESTART_VM": ("drain-node", "reboot"),
    "IGNORE": ("note", "none"),
    "CONTACT_SUPPORT": ("note", "inspect"),
    "UPDATE_SWFW": ("note", "inspect"),
    "CHECK_UVM": ("note", "inspect"),
    "CHECK_MECHANICALS": ("drain-card", "inspect"),
    "WORKFLOW_NVLINK_ERR": ("drain-peers", "inspect"),
    "WORKFLOW_NVLINK5_ERR": ("drain-peers", "inspect"),
    "WORKFLOW_XID_45": ("note", "none"),
    "WORKFLOW_XID_48": ("drain-card", "reset"),
    "XID_154": ("note", "none"),
}
#: Codes that NVIDIA's catalogue names without a bucket.
WITHOUT_BUCKET = {
    **dict.fromkeys((162, 163, 164, 165, 166, 169, 170), ("note", "inspect")),
    167: ("drain-node", "inspect"),
    168: ("drain-card", "inspect"),
    171: ("drain-card", "reset"),
    172: ("drain-card", "reset"),
}


@pytest.mark.parametrize("entry", read_xids().values(), ids=lambda entry: str(entry.code))
def test_the_action_follows_from_the_bucket(entry: XidEntry) -> None:
    expected = BY_BUCKET[entry.immediate] if entry.immediate else WITHOUT_BUCKET[entry.code]
    assert (entry.containment, entry.repair) == expected
    assert entry.meaning
    assert entry.mnemonic


def test_the_catalogue_has_every_code_once() -> None:
    assert len(read_xids()) == 109
    assert list(read_xids()) == sorted(read_xids())
