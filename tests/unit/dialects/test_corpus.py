"""Manifests of seventeen other projects against a plain walk over their YAML: none wrong, none
silent.

The walk knows no dialect. It finds every container with the name of a card in its resources, or
with a resource claim, and how many cards it asks for in those words of which one is one card. The
files are no part of the project: GPUPOOL_MANIFESTS names their folder, and the test skips where
there is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpupool.base.errors import GpupoolError
from gpupool.cli.work.documents.manifests import parse_documents
from gpupool.dialects.facts import read_facts
from gpupool.dialects.manifests.documents import understand_document
from gpupool.dialects.manifests.dra import ResourceClaims
from gpupool.dialects.manifests.workloads import list_templates
from gpupool.kubernetes.admission.decide import ClusterFacts, decide_admission

MANIFESTS = Path(
    os.environ.get("GPUPOOL_MANIFESTS", Path(__file__).parents[4] / "shared/data/manifests")
)
FILES = sorted(path for path in MANIFESTS.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
NAMES = re.compile(
    r"(gpu|npu|tpu|mlu|dcu|gcu|xpu|neuron|gaudi|i915|/xe$|ascend|mig-)", re.IGNORECASE
)
COUNTS = re.compile(
    r"nvidia\.com/(gpu|vgpu-number|mig-[^/]+)|(amd|birentech|metax-tech)\.com/s?gpu|google\.com/tpu|gpu\.intel\.com/i915"
    r"|volcano\.sh/vgpu-number|enflame\.com/gcu|hygon\.com/dcunum|cambricon\.com/vmlu|mthreads\.com/vgpu"
    r"|kunlunxin\.com/vxpu|iluvatar\.ai/[^/]+-vgpu|aws\.amazon\.com/neuron|huawei\.com/Ascend[0-9A-Z]+"
)
REFUSED = {"GP-1041", "GP-1044", "GP-2016", "GP-2034", "GP-2035"}


class Asked(NamedTuple):
    """One container, by the walk; `cards` is None where its words are no count of cards."""

    container: str
    cards: int | None


def walk(value: Any) -> Iterator[Asked]:
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            for key in ("containers", "initContainers"):
                yield from (
                    found for one in value.get(key) or () if (found := asked(one)) is not None
                )
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def asked(one: Mapping[str, Any]) -> Asked | None:
    resources = one.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    named = {
        key: amount for key, amount in amounts.items() if NAMES.search(key) and str(amount) != "0"
    }
    if not named and not resources.get("claims"):
        return None
    counts = [
        int(amount)
        for key, amount in named.items()
        if COUNTS.fullmatch(key) and str(amount).isdigit()
    ]
    return Asked(str(one["name"]), max(counts, default=None))


def parsed() -> list[tuple[str, list[Any]]]:
    found = []
    for path in FILES:
        try:
            found.append(
                (
                    str(path.relative_to(MANIFESTS)),
                    [one.value for one in parse_documents(path.name, path.read_text())],
                )
            )
        except GpupoolError:
            with pytest.raises(yaml.YAMLError):  # it is no YAML to anybody else either
                list(yaml.safe_load_all(path.read_text()))
    return found


needs_manifests = pytest.mark.skipif(
    not FILES, reason=f"no manifests of other projects in {MANIFESTS}"
)


@needs_manifests
def test_import_reads_or_refuses_every_container_that_asks_for_cards() -> None:
    wrong, read, refused, warned = [], 0, 0, 0
    for file, values in parsed():
        claims = ResourceClaims.from_documents(values)
        for number, value in enumerate(values):
            expected = sorted(walk(value))
            try:
                found = understand_document(value, claims=claims)
            except GpupoolError as error:
                refused += 1
                if error.code not in REFUSED or "path" not in error.details:
                    wrong.append(f"{file}[{number}]: {error}")
                continue
            cards = {
                (one.container, one.ask.count) for each in found for one in each.claim.containers
            }
            names = {name for name, _ in cards}
            notes = [text for each in found for text in (*each.claim.unread, *each.claim.notes)]
            for container, count in expected:
                silent = container not in names and not any(
                    "claim" in text or "card" in text for text in notes
                )
                if silent or (
                    container in names and count is not None and (container, count) not in cards
                ):
                    wrong.append(
                        f"{file}[{number}]: {container} asks for {count}, understood {sorted(cards)}"
                    )
                read += container in names
                warned += container not in names
    assert not wrong, "\n".join(wrong)
    assert read >= 100, (read, refused, warned)
    assert refused > 0


@needs_manifests
def test_slices_that_hami_cuts_are_read_where_it_is_known_what_cards_are_cut_into() -> None:
    """As the comment in HAMi's own example says it for an A100 of 40 GB."""
    facts = read_facts({"hami_mig_profiles": ["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"]})
    found = {}
    for file, values in parsed():
        if "dynamic_mig_example" in file:
            (one,) = understand_document(values[0], facts)
            found[file] = [str(container.ask) for container in one.claim.containers]
    assert list(found.values()) == [["2 × [partition 2g.10gb]"]]


@needs_manifests
def test_admission_takes_refuses_or_names_every_pod_that_asks_for_cards() -> None:
    wrong, taken = [], 0
    for file, values in parsed():
        for number, value in enumerate(values):
            for template in (
                list_templates(value) if isinstance(value, Mapping) and value.get("kind") else ()
            ):
                pod = {
                    "metadata": {"name": "p", **(template.pod.get("metadata") or {})},
                    "spec": template.pod["spec"],
                }
                expected = {one.container for one in walk(template.pod)}
                try:
                    decision = decide_admission(pod, "team", ClusterFacts())
                except GpupoolError as error:
                    wrong += [] if error.message else [f"{file}[{number}]: refused without a word"]
                    continue
                each = [
                    *decision.pod["spec"]["containers"],
                    *(decision.pod["spec"].get("initContainers") or ()),
                ]
                slots = {
                    one["name"] for one in each if "gpupool.dev/slot" in str(one.get("resources"))
                }
                taken += len(slots)
                if expected - slots and not decision.warnings:
                    wrong.append(f"{file}[{number}]: {sorted(expected - slots)} silently passed")
    assert not wrong, "\n".join(wrong)
    assert taken >= 100
