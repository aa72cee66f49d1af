"""What HAMi's resources and variables mean for one container."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpupool.base.errors import FactMissing, ForeignValue, GpupoolError, NotExpressible
from gpupool.base.units import GIB, MIB
from gpupool.dialects.contract import NO_COMPUTE, ContainerAsk
from gpupool.dialects.kubernetes.hami_core import (
    HAMI,
    LIMIT,
    POLICY,
    PRIORITY,
    SM,
    TASK,
    ResourceKeys,
    add_urgency,
    choose_slice,
    find_mig_mode,
    from_environment,
    has_hami_words,
    has_own_limits,
    read_ask,
)
from gpupool.dialects.pod import PlacedWord, PodContainer, read_pod
from gpupool.model.claim import SharingKind
from tests.unit.dialects.pods import pod

#: As Volcano's, whose factor is 1 or 10.
DOUBTFUL = ResourceKeys("v", "v/count", "v/memory", "v/part", "v/cores", doubtful=1000)
MODE = PlacedWord("hami.io/vgpu-mode", "mig", ("metadata",))


def container(
    limits: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None
) -> PodContainer:
    return read_pod(pod(limits or {}, env=env)).containers[0]


def read(
    limits: Mapping[str, object], keys: ResourceKeys = HAMI, factor: int | None = 1
) -> ContainerAsk:
    return read_ask(container(limits), keys, factor, None)


def test_memory_alone_holds_no_compute_and_says_so() -> None:
    found = read({HAMI.memory: 4096})
    assert (found.gpu_milli, found.memory_bytes) == (None, 4 * GIB)
    assert NO_COMPUTE in found.guesses


def test_cores_alone_have_all_of_the_memory() -> None:
    found = read({HAMI.cores: 30})
    assert (found.gpu_milli, found.memory_bytes, found.memory_milli) == (300, None, 1000)


def test_count_alone_is_whole_cards() -> None:
    found = read({HAMI.count: 2})
    assert (found.count, found.gpu_milli, found.memory_milli) == (2, 1000, None)


@pytest.mark.parametrize("amount", [64, 999])
def test_memory_that_both_factors_make_plausible_needs_the_factor(amount: int) -> None:
    with pytest.raises(FactMissing) as caught:
        read({DOUBTFUL.memory: amount}, DOUBTFUL, None)
    assert caught.value.details["fact"] == "v_memory_factor"
    assert read({DOUBTFUL.memory: amount}, DOUBTFUL, 10).memory_bytes == amount * 10 * MIB


def test_memory_from_a_thousand_on_is_guessed_as_mib() -> None:
    found = read({DOUBTFUL.memory: 1000}, DOUBTFUL, None)
    assert found.memory_bytes == 1000 * MIB
    assert "factor is not known" in found.guesses[0]


@pytest.mark.parametrize(
    ("said", "node", "usual"),
    [
        ("force", "disable", None),
        (None, "disable", SharingKind.BEST_EFFORT),
        (None, None, SharingKind.BURST),
    ],
)
def test_core_policy_is_the_containers_then_the_nodes_then_a_guess(
    said: str | None, node: str | None, usual: SharingKind | None
) -> None:
    one = container({HAMI.cores: 30, HAMI.memory: 4096}, {POLICY: said} if said else None)
    found = read_ask(one, HAMI, 1, node)
    assert found.usual is usual
    assert found.sharing is (SharingKind.FIXED if said else None)
    assert any("policy is not known" in guess for guess in found.guesses) is (
        usual is SharingKind.BURST
    )


@pytest.mark.parametrize(
    ("text", "size"), [("4g", 4 * GIB), ("512M", 512 * MIB), (str(GIB), GIB), ("1048576k", GIB)]
)
def test_limits_by_hand_have_binary_suffixes(text: str, size: int) -> None:
    one = container(env={f"{LIMIT}_0": text, SM: "40"})
    found = from_environment(one, ContainerAsk(1, 1000))
    assert (found.memory_bytes, found.gpu_milli, found.usual) == (size, 400, SharingKind.BURST)


def test_limits_by_hand_do_not_replace_what_a_resource_says() -> None:
    ask = ContainerAsk(1, 300, memory_bytes=2 * GIB)
    assert from_environment(container(env={LIMIT: "4g", SM: "40"}), ask) == ask


@pytest.mark.parametrize("text", ["4t", "g", "-1g", "1" * 19, "\u0664g"])
def test_limit_by_hand_of_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ForeignValue):
        from_environment(container(env={LIMIT: text}), ContainerAsk(1, 1000))


def test_compute_by_hand_alone_has_all_of_the_memory() -> None:
    found = from_environment(container(env={SM: "40"}), ContainerAsk(1, 1000))
    assert (found.gpu_milli, found.memory_bytes, found.memory_milli) == (400, None, 1000)


def test_urgency_zero_is_high_and_the_resource_wins() -> None:
    ask = ContainerAsk(1, 1000)
    assert add_urgency(container(), ask) == ask
    assert add_urgency(container(env={TASK: "1"}), ask).urgency == "low"
    assert add_urgency(container({PRIORITY: 0}, {TASK: "1"}), ask).urgency == "high"


def test_words_of_hami_are_told_from_plain_cards() -> None:
    assert not has_hami_words(container({HAMI.count: 1, HAMI.memory: 0}))
    assert has_hami_words(container({HAMI.count: 1, PRIORITY: 0}))
    assert not has_own_limits(container(env={"CUDA_VISIBLE_DEVICES": "0"}))
    assert has_own_limits(container(env={f"{LIMIT}_1": "4g"}))


def test_slice_is_the_smallest_that_holds_the_memory() -> None:
    ask = ContainerAsk(2, memory_bytes=8 * GIB, guesses=(NO_COMPUTE, "another"))
    found = choose_slice(container(), ask, MODE, ["3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb"])
    assert (found.count, found.profile, found.guesses) == (2, "1g.10gb", ("another",))


@pytest.mark.parametrize(
    ("ask", "profiles", "error"),
    [
        (None, ["1g.5gb"], NotExpressible),
        (ContainerAsk(1, 300, memory_bytes=GIB), ["1g.5gb"], NotExpressible),
        (ContainerAsk(1, memory_bytes=GIB), None, FactMissing),
        (ContainerAsk(1, memory_bytes=6 * GIB), ["1g.5gb"], NotExpressible),
    ],
)
def test_slice_that_cannot_be_chosen_is_refused_with_the_mode(
    ask: ContainerAsk | None, profiles: list[str] | None, error: type[GpupoolError]
) -> None:
    with pytest.raises(error) as caught:
        choose_slice(container(), ask, MODE, profiles)
    assert caught.value.details["path"] == ("metadata",)


def test_mig_mode_is_a_word_that_says_mig() -> None:
    assert find_mig_mode(MODE) == MODE
    assert find_mig_mode(None) is None
    assert find_mig_mode(PlacedWord(MODE.key, "hami-core", ())) is None
