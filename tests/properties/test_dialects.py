"""Whatever a manifest says, it is understood or refused, and what is understood stays what it
is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.errors import GpupoolError
from gpupool.base.quantities import parse_quantity
from gpupool.dialects.batch import lsf, slurm
from gpupool.dialects.contract import PodClaim, WordPlace
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.kubernetes import native
from gpupool.dialects.manifests.documents import rewrite_document, understand_document
from gpupool.dialects.manifests.reading import understand_pod
from gpupool.dialects.manifests.registry import DIALECTS
from gpupool.dialects.manifests.workloads import KINDS
from gpupool.dialects.manifests.writing import admission_patch, write_admitted, write_typed
from gpupool.dialects.shapes import translate_shape

often = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FACTS = NodeFacts(
    card_memory=80 << 30,
    volcano_memory_factor=1,
    aliyun_gpu_mem_unit="GiB",
    replicas_by="mps",
    slurm_shards_per_card=16,
)


FILLS = {"<c>": "a", "<container>": "a", "<slice>": "1g.5gb", "<model>": "mlu370", "<i>": "0"}


def filled(key: str) -> str:
    for hole, filling in FILLS.items():
        key = key.replace(hole, filling)
    return key


def keys(where: WordPlace) -> list[str]:
    """Every word there is at that place, patterns filled in; what admission writes has its own
    tests."""
    written = (native.CLAIM, native.TYPED, native.SLOT)
    names = (
        name
        for one in DIALECTS
        for name in one.names
        if name.where is where and name.key not in written
    )
    return sorted({filled(name.key) for name in names})


LETTERS = st.text(alphabet="aGi0-.,:é ", max_size=5)
USUAL = st.sampled_from(
    ["1", "2", "4", "10", "30", "50", "100", "200", "1000", "4096", "8192", "8Gi", "0", "0.5"]
)
NUMBERS = st.one_of(USUAL, USUAL, USUAL, st.integers(-2, 1 << 40), st.floats(0, 2, allow_nan=False))
VALUES = st.one_of(
    NUMBERS,
    st.sampled_from(["true", "burst", "rack", "A100", "GPU-1", "a", "offline", "mig"]),
    LETTERS,
)


def words(
    where: WordPlace, values: st.SearchStrategy[Any] = VALUES
) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys(where)), values, max_size=2)


def of_dialect(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Resources of one system, which is how a pod mostly speaks."""
    return st.dictionaries(st.sampled_from(names), NUMBERS, min_size=1, max_size=3)


SYSTEMS = [
    tuple(
        filled(name.key)
        for name in one.names
        if name.where is WordPlace.RESOURCE and name.key != native.SLOT
    )
    for one in DIALECTS
]
RESOURCES = st.one_of(
    words(WordPlace.RESOURCE, NUMBERS), *(of_dialect(names) for names in SYSTEMS if names)
)
NONE: st.SearchStrategy[list[dict[str, str]]] = st.just([])
ENV = words(WordPlace.ENV).map(
    lambda env: [{"name": key, "value": str(value)} for key, value in env.items()]
)
CONTAINERS = st.builds(
    lambda limits, env: {"resources": {"limits": limits}, "env": env},
    RESOURCES,
    st.one_of(NONE, NONE, ENV),
)
META = st.fixed_dictionaries(
    {"annotations": words(WordPlace.ANNOTATION), "labels": words(WordPlace.LABEL)}
)
PODS = st.builds(
    lambda some, meta, selector: {
        "metadata": meta,
        "spec": {
            "containers": [{"name": name} | one for name, one in zip("ab", some, strict=False)],
            "nodeSelector": selector,
        },
    },
    st.lists(CONTAINERS, min_size=1, max_size=2),
    st.one_of(st.just({}), META),
    st.one_of(st.just({}), st.just({}), words(WordPlace.SELECTOR)),
)
"""Pods in which words of any systems meet, with sensible and with senseless values."""


CARDS, PERCENT, FIVES, MIB = (
    st.integers(1, 8),
    st.integers(1, 100),
    st.integers(1, 20),
    st.integers(1000, 80_000),
)
SENSIBLE: list[dict[str, st.SearchStrategy[Any]]] = [
    {
        "gpupool.dev/gpus": CARDS,
        "gpupool.dev/gpu-milli": st.integers(1, 1000),
        "gpupool.dev/memory": MIB.map("{}Mi".format),
    },
    {"nvidia.com/gpu": CARDS},
    {"nvidia.com/gpu": CARDS, "nvidia.com/gpumem": MIB, "nvidia.com/gpucores": PERCENT},
    {
        "nvidia.com/gpu": CARDS,
        "nvidia.com/gpumem-percentage": PERCENT,
        "nvidia.com/priority": st.integers(0, 1),
    },
    {"volcano.sh/vgpu-number": CARDS, "volcano.sh/vgpu-memory": MIB},
    {
        "tke.cloud.tencent.com/qgpu-core": FIVES.map(lambda n: n * 5),
        "tke.cloud.tencent.com/qgpu-memory": CARDS,
    },
    {"tencent.com/vcuda-core": PERCENT, "tencent.com/vcuda-memory": CARDS},
    {"aliyun.com/gpu-mem": CARDS, "aliyun.com/gpu-core.percentage": PERCENT},
    {
        "volcano.sh/gpu-mem.128Mi": CARDS,
        "volcano.sh/gpu-core.percentage": FIVES.map(lambda n: n * 5),
    },
    {"koordinator.sh/gpu-core": PERCENT, "koordinator.sh/gpu-memory-ratio": PERCENT},
    {"nvidia.com/mig-1g.10gb": CARDS},
    {"hygon.com/dcunum": CARDS, "hygon.com/dcumem": MIB, "hygon.com/dcucores": PERCENT},
]
SAID = {
    "gpupool.dev/sharing": st.sampled_from(["fixed", "burst", "best-effort"]),
    "nvidia.com/use-gputype": st.sampled_from(["A100", "V100,T4"]),
    "nvidia.com/nouse-gpuuuid": st.just("GPU-1"),
    "gpupool.dev/topology": st.sampled_from(["rack", "rack,preferred"]),
    "tencent.com/vcuda-core-limit": st.just("100"),
}
ORDINARY = st.builds(
    lambda some, said, queue: {
        "metadata": {"annotations": said, "labels": queue},
        "spec": {
            "containers": [
                {"name": n, "resources": {"limits": one}}
                for n, one in zip("ab", some, strict=False)
            ]
        },
    },
    st.lists(st.one_of(*map(st.fixed_dictionaries, SENSIBLE)), min_size=1, max_size=2),
    st.fixed_dictionaries({}, optional=SAID),
    st.sampled_from([{}, {"kai.scheduler/queue": "q"}]),
)
"""Pods as people write them: nearly all of these are understood."""


def understood(pod: dict[str, Any]) -> PodClaim | None:
    """The claim, or None for a refusal; anything else than one of our errors is a crash."""
    try:
        return understand_pod(pod, FACTS)
    except GpupoolError as error:
        assert error.code != "GP-5900"
        return None


@given(st.one_of(PODS, ORDINARY, ORDINARY))
@often
def test_a_pod_is_understood_or_refused_and_its_claim_is_sound(pod: dict[str, Any]) -> None:
    claim = understood(pod)
    if claim is None:
        return
    for one in claim.containers:
        ask = one.ask
        assert ask == ask.complete()
        assert ask.count >= 1
        assert 1 <= (1000 if ask.gpu_milli is None else ask.gpu_milli) <= 1000
        assert ask.memory_bytes is None or ask.memory_bytes % (1 << 20) == 0
        assert ask.memory_bytes is None or ask.memory_milli is None
        assert translate_shape(one, claim.hints, FACTS.card_memory).shape.gpu_milli <= 1000


@given(st.one_of(PODS, ORDINARY, ORDINARY))
@often
def test_the_normal_form_of_a_normal_form_is_itself(pod: dict[str, Any]) -> None:
    claim = understood(pod)
    if claim is None:
        return
    again = understand_pod(write_typed(pod, claim), FACTS, strict=True)
    assert [(one.container, one.ask.without_remarks) for one in again.containers] == [
        (one.container, one.ask.without_remarks) for one in claim.containers
    ]
    if claim.containers:
        assert again.hints == claim.hints
    assert write_typed(write_typed(pod, claim), again) == write_typed(pod, claim)


@given(st.one_of(PODS, ORDINARY, ORDINARY))
@often
def test_totals_are_exact_and_admission_twice_is_admission_once(pod: dict[str, Any]) -> None:
    claim = understood(pod)
    if claim is None:
        return
    once = write_admitted(pod, claim)
    named = {one["name"]: one for one in once["spec"]["containers"]}
    for one in claim.containers:
        limits = named[one.container]["resources"]["limits"]
        assert parse_quantity(limits.get(native.MILLI, 0)) == one.ask.count * one.ask.held_milli
        assert parse_quantity(limits.get(native.MEMORY, 0)) == one.ask.count * (
            one.ask.memory_bytes or 0
        )
    again = understand_pod(once, FACTS)
    assert [one.ask for one in again.containers] == [
        one.ask.without_remarks for one in claim.containers
    ]
    assert admission_patch(once, again) == []


ASK = (
    "count",
    "gpu_milli",
    "cap_milli",
    "memory_bytes",
    "memory_milli",
    "profile",
    "urgency",
    "vendor",
    "select",
)
PARTS = """
    metadata spec template containers initContainers resources limits requests env name value annotations
    labels items kind replicas mpiReplicaSpecs tasks nvidia.com/gpu
"""
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 9), LETTERS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(PARTS.split()), inner, max_size=4),
    ),
    max_leaves=20,
)


@given(st.sampled_from([*KINDS, "Service"]), JSON, JSON, JSON)
@often
def test_no_document_is_a_crash(kind: str, spec: Any, meta: Any, items: Any) -> None:
    document = {
        "apiVersion": "batch.volcano.sh/v1",
        "kind": kind,
        "spec": spec,
        "metadata": meta,
        "items": items,
    }
    before = json.dumps(document)
    try:
        rewrite_document(document, understand_document(document, FACTS))
    except GpupoolError as error:
        assert error.code != "GP-5900"
    assert json.dumps(document) == before


ADMITTED = write_admitted(
    {
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}},
                }
            ]
        }
    },
    understand_pod(
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}},
                    }
                ]
            }
        }
    ),
)
CLAIM = json.loads(ADMITTED["metadata"]["annotations"][native.CLAIM])


@given(st.sampled_from(["container", "kind", "sharing", *ASK]), JSON, st.one_of(st.none(), JSON))
@often
def test_no_forged_claim_is_a_crash_or_holds_more_than_the_totals(
    key: str, value: Any, pod_part: Any
) -> None:
    (one,) = CLAIM["containers"]
    forged = {
        "containers": [{**one, key: value}],
        "pod": CLAIM["pod"] if pod_part is None else pod_part,
    }
    text = json.dumps(forged)
    stored = {**ADMITTED, "metadata": {"annotations": {native.CLAIM: text}}}
    claim = understood(stored)
    if claim is None:
        return
    (found,) = claim.containers
    assert (
        found.ask.count * found.ask.held_milli,
        found.ask.count * (found.ask.memory_bytes or 0),
    ) == (0, 3000 << 20)
    translate_shape(found, claim.hints, FACTS.card_memory)


OPTIONS = "gres gpus gpus-per-node gpus-per-task nodes ntasks cpus-per-task mem mem-per-gpu time array exclusive"
OPTION = st.sampled_from(OPTIONS.split())


@given(
    st.lists(
        st.tuples(OPTION, st.text(alphabet="gpu:shardmps0123456789-,%=GT \"'x", max_size=8)),
        max_size=5,
    )
)
@often
def test_no_script_is_a_crash(options: list[tuple[str, str]]) -> None:
    for text, read in (
        (
            "\n".join(f"#SBATCH --{key}={value}" for key, value in options),
            lambda text: slurm.understand_script(text, FACTS),
        ),
        (
            "\n".join(f"#BSUB -gpu num={value} -J {key} -W {value}" for key, value in options),
            lsf.understand_script,
        ),
    ):
        try:
            assert read(text).ask.count >= 1
        except GpupoolError as error:
            assert error.code != "GP-5900"
