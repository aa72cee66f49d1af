"""The machine file: what is shipped, what is read and written, and how a wrong file is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadInput, BadMachine, BadName, UnknownModel
from gpupool.model.catalogue import CATALOGUE
from gpupool.model.numa import NumaNode
from gpupool.probes.document import make_simulated_uuid, read_machines
from gpupool.probes.preset_files import list_presets
from gpupool.probes.simulated import parse_sim

FILES = sorted((Path(__file__).parents[2] / "machines").glob("*.json"))
EVERY = [*list_presets(), *(str(path) for path in FILES)]


def numa_of(number: int, cpus: str) -> dict[str, Any]:
    return {"number": number, "cpus": cpus, "memory_mib": 1024}


def one(**machine: Any) -> dict[str, Any]:
    return {"format": 1, "machines": [{"name": "node", "cards": [{"model": "T4"}], **machine}]}


@pytest.mark.parametrize("spec", EVERY)
def test_every_machine_file_reads_as_simulated_machines(spec: str) -> None:
    for machine in parse_sim(spec):
        assert machine.simulated
        assert all(d.simulated and d.uuid.startswith("GPU-5109") for d in machine.devices)
        assert [d.index for d in machine.devices] == list(range(len(machine.devices)))
        assert machine.topology.devices == tuple(d.uuid for d in machine.devices)
        assert all(d.memory_bytes == CATALOGUE[d.model].memory_mib << 20 for d in machine.devices)
        assert all(d.numa_node is not None for d in machine.devices)


def test_processors_and_memory_are_told_by_numa_node_or_cut_evenly_over_those_that_cards_name() -> (
    None
):
    (told,) = read_machines(one(numa=[numa_of(0, "0-2"), numa_of(1, "3")], cpu_count=64))
    assert (told.cpu_count, told.memory_bytes) == (4, 2048 << 20)
    assert told.numa == (NumaNode(0, (0, 1, 2), 1024 << 20), NumaNode(1, (3,), 1024 << 20))
    (cut,) = parse_sim("8xH200")
    assert [(node.number, len(node.cpus), node.memory_bytes >> 30) for node in cut.numa] == [
        (0, 96, 1024),
        (1, 96, 1024),
    ]
    assert parse_sim("3xH100")[0].numa == (), (
        "nothing is said of a machine that is made up from a model's name"
    )


def test_a_file_may_override_what_the_catalogue_says() -> None:
    card = {
        "model": "h200",
        "memory_mib": 1000,
        "labels": {"rack": "b"},
        "profiles": [],
        "pci_address": "0000:01:00.0",
    }
    (machine,) = read_machines(one(cards=[card]))
    (device,) = machine.devices
    assert (device.model, device.memory_bytes, device.profiles) == ("H200", 1000 << 20, ())
    assert (device.labels, device.pci_address) == ({"rack": "b"}, "0000:01:00.0")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "the file must be an object"),
        ({"machines": []}, "of format None"),
        ({"format": 2, "machines": []}, "of format 2; this gpupool reads 1"),
        ({"format": "1"}, "must be a whole number"),
        ({"format": 1, "machines": {}}, '"machines" of the file must be a list'),
        ({"format": 1, "machines": []}, "at least one card"),
        ({"format": 1, "machines": ["x"]}, "machine 'sim-0' must be an object"),
        (one(cards=[]), "at least one card"),
        (
            one(cards=[{"model": "T4", "count": 0}]),
            "\"count\" of a card of 'node' must be a whole number of at least 1",
        ),
        (one(cards=[{"model": "T4", "count": True}]), "not True"),
        (one(cards=[{"model": "T4", "count": 129}]), "too large"),
        (one(cards=[{"model": "T4", "memory_mib": -1}]), "not -1"),
        (one(cards=[{"model": "T4", "memory_mib": 2**41}]), "at most 1099511627776"),
        (one(cards=[{"model": "T4", "numa_node": "0"}]), "not '0'"),
        (one(cards=[{"model": "T4", "modle": "T4"}]), "unknown key 'modle'"),
        (
            one(cards=[{"model": "T4", "profiles": [{"name": "x"}]}]),
            "a profile of a card of 'node' needs name, size",
        ),
        (
            one(numa=[{"number": 0, "cpus": "0-3"}]),
            "a NUMA node of machine 'sim-0' needs number, cpus and memory_mib",
        ),
        (one(numa=[numa_of(0, "3-0")]), "must be a list like"),
        (
            one(numa=[numa_of(0, "0"), numa_of(0, "1")]),
            "two NUMA nodes of machine 'sim-0' have the number 0",
        ),
        (
            one(numa=[numa_of(0, "0-1"), numa_of(1, "1")]),
            "two NUMA nodes of machine 'sim-0' have processor 1",
        ),
        (one(colour="red"), "unknown key 'colour'"),
        (one(nvlinks=[[0, 1, 4]]), "has cards 0 to 0, but names card 1"),
        (one(nvlinks=[[0, 0, 4]]), "must be \\[card, other card, count\\]"),
        (one(domains={"nvswich": [[0]]}), "domains of kind 'nvswich'; known kinds: nvswitch"),
        (one(domains={"nvswitch": [[7]]}), "but names card 7"),
        (one(domains={"nvswitch": 3}), "must be a list"),
        (one(domains={"nvswitch": [3]}), "must be a list of lists"),
        (one(domains={"nvswitch": [[0], [0]]}), "has a card in two sets"),
        (
            one(cards=[{"model": "T4", "count": 2}], nvlinks=[[0, 1, 0]]),
            "whole number of at least 1 .*, not 0",
        ),
        (one(cards=[{"model": "T4", "ecc_enabled": 1}]), "must be true or false, not 1"),
        (one(cards=[{"model": "T4", "product": 4}]), "must be a text, not 4"),
        (one(cards=[{"model": "T4", "compute_capability": "x"}]), "compute_capability"),
        (
            {"format": 1, "machines": [{"name": "a", "cards": [{"model": "T4"}]}] * 2},
            "two machines are named 'a'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(document: object, words: str) -> None:
    with pytest.raises(BadMachine, match=words):
        read_machines(document)


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownModel) as caught:
        read_machines(one(cards=[{"model": "A100-4OG"}]))
    assert caught.value.hint == "did you mean A100-40G?"


def test_a_name_that_cannot_be_a_machines_is_refused() -> None:
    with pytest.raises(BadName, match="machine's name"):
        read_machines(one(name="two\nlines"))


def test_a_recorded_card_that_is_not_in_the_catalogue_is_described_by_itself() -> None:
    card = {"model": "RUBIN-X1", "product": "NVIDIA Rubin X1", "memory_mib": 300_000}
    (device,) = read_machines(one(cards=[card]))[0].devices
    assert (device.model, device.product, device.memory_bytes) == (
        "RUBIN-X1",
        "NVIDIA Rubin X1",
        300_000 << 20,
    )
    with pytest.raises(UnknownModel):
        read_machines(one(cards=[{"model": "RUBIN-X1"}]))


def test_the_seed_alone_tells_the_cards_of_two_pools_apart() -> None:
    a, again, b = (read_machines(one(), seed=seed)[0].devices[0].uuid for seed in ("a", "a", "b"))
    assert a == again != b


@given(st.text(max_size=5), st.text(max_size=5), st.integers(0, 200))
def test_a_simulated_uuid_has_the_form_of_a_real_one_and_its_own_mark(
    seed: str, node: str, index: int
) -> None:
    uuid = make_simulated_uuid(seed, node, index)
    assert uuid.startswith("GPU-5109")
    assert [len(part) for part in uuid.split("-")] == [3, 8, 4, 4, 4, 12]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
keys = st.sampled_from(["name", "cards", "nvlinks", "domains", "cpu_count", "memory_mib", "note"])
card_keys = st.sampled_from(
    ["model", "count", "labels", "profiles", "compute_capability", "memory_mib", "numa_node"]
)
cards = st.lists(st.dictionaries(card_keys, json_values | st.just("T4"), max_size=4), max_size=2)


@given(st.dictionaries(keys, json_values, max_size=4), cards | json_values)
def test_whatever_a_file_holds_the_answer_is_machines_or_a_refusal(
    machine: dict[str, Any], listed: object
) -> None:
    try:
        read_machines({"format": 1, "machines": [{**machine, "cards": listed}]})
    except (BadInput, UnknownModel) as refusal:
        told = str(refusal)
    else:
        told = "machines"
    assert told
