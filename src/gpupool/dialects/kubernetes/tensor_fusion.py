"""tensor-fusion: parts of a card in TFLOPS and bytes, as annotations. Known by name, and refused.

A claim here is a part of a card, and how many TFLOPS a card has depends on its model and on the
kind of number, which the pod does not say. Source: NexusGPU/tensor-fusion, docs and
`pkg/constants`.
"""

from __future__ import annotations

from gpupool.base.errors import NotExpressible
from gpupool.dialects.contract import NOTHING, Dialect, KnownWord, PodReading, WordPlace
from gpupool.dialects.facts import NodeFacts
from gpupool.dialects.pod import PodView

_PREFIX = "tensor-fusion.ai/"
#: Annotations that ask for a part of a card.
_AMOUNTS = (
    "tflops-request",
    "tflops-limit",
    "vram-request",
    "vram-limit",
    "compute-percent-request",
    "gpu-count",
)
#: Annotations that mean nothing without those.
_OTHERS = ("gpupool", "isolation", "qos", "inject-container", "workload-profile", "gpu-model")


def read_words(pod: PodView, _facts: NodeFacts) -> PodReading:
    said = next(
        (word for key in _AMOUNTS if (word := pod.find_annotation(f"{_PREFIX}{key}")) is not None),
        None,
    )
    if said is not None:
        raise NotExpressible(
            f"{said}: a share is a part of a card here, and no number of TFLOPS",
            hint="write gpupool.dev/gpu-milli and gpupool.dev/memory in the limits of the container",
            path=said.path,
        )
    return NOTHING


DIALECT = Dialect(
    "tensor-fusion",
    "tensor-fusion",
    "https://github.com/NexusGPU/tensor-fusion",
    (
        *(
            KnownWord(
                f"{_PREFIX}{key}", WordPlace.ANNOTATION, "quantity", "refused: no part of a card"
            )
            for key in _AMOUNTS
        ),
        *(
            KnownWord(
                f"{_PREFIX}{key}", WordPlace.ANNOTATION, "-", "ignored, beside the words above"
            )
            for key in _OTHERS
        ),
    ),
    read_words,
    prefixes=(_PREFIX,),
)
