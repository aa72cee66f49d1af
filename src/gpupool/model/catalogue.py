"""The card models gpupool knows by name: the one place that joins a driver's words to the name used
in claims.

Drivers say `NVIDIA A100-SXM4-40GB`, `Tesla V100-SXM2-16GB`, `NVIDIA GeForce RTX 4090`; people ask
for `A100-40G`, `V100-16G`, `RTX-4090`. Form factors of one model share a name when a claim would
not tell them apart. A card that is not listed still works: its product name without the maker's
words becomes its model.

This room must not know how a product name was read, nor what is installed anywhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class CardModel:
    """One model. `memory_mib` is the total the vendor's tool prints, which is less than the name
    promises."""

    name: str
    products: tuple[str, ...]  # the driver's words; the first is what a simulated card calls itself
    memory_mib: int
    architecture: str
    compute_capability: tuple[int, int] | None
    multiprocessors: int | None
    pci_ids: tuple[str, ...]
    vendor: str = "nvidia"


# memory_mib: "Memory-Usage … / total" of nvidia-smi as printed on these cards in public logs
# (drivers 510 and newer, ECC as delivered; older drivers print a little less for V100, P100 and
# T4); AMD: total VRAM of amd-smi. PCI ids: https://pci-ids.ucw.cz. Multiprocessors: vendors' data
# sheets (AMD: compute units).
_TABLE = (
    CardModel("P4", ("Tesla P4",), 8192, "pascal", (6, 1), 20, ("10de:1bb3",)),
    CardModel("P40", ("Tesla P40",), 24576, "pascal", (6, 1), 30, ("10de:1b38",)),
    CardModel(
        "P100-16G",
        ("Tesla P100-SXM2-16GB", "Tesla P100-PCIE-16GB"),
        16384,
        "pascal",
        (6, 0),
        56,
        ("10de:15f8", "10de:15f9"),
    ),
    CardModel(
        "V100-16G",
        (
            "Tesla V100-SXM2-16GB",
            "Tesla V100-PCIE-16GB",
            "Tesla V100-DGXS-16GB",
            "Tesla V100-FHHL-16GB",
        ),
        16384,
        "volta",
        (7, 0),
        80,
        ("10de:1db1", "10de:1db2", "10de:1db3", "10de:1db4"),
    ),
    CardModel(
        "V100-32G",
        (
            "Tesla V100-SXM2-32GB",
            "Tesla V100-PCIE-32GB",
            "Tesla V100S-PCIE-32GB",
            "Tesla V100-SXM3-32GB",
            "Tesla V100-DGXS-32GB",
        ),
        32768,
        "volta",
        (7, 0),
        80,
        ("10de:1db5", "10de:1db6", "10de:1db7", "10de:1db8", "10de:1df6"),
    ),
    CardModel("T4", ("Tesla T4", "NVIDIA T4"), 15360, "turing", (7, 5), 40, ("10de:1eb8",)),
    CardModel(
        "RTX-2080Ti",
        ("NVIDIA GeForce RTX 2080 Ti",),
        11264,
        "turing",
        (7, 5),
        68,
        ("10de:1e04", "10de:1e07"),
    ),
    CardModel(
        "A100-40G",
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 40GB PCIe"),
        40960,
        "ampere",
        (8, 0),
        108,
        ("10de:20b0", "10de:20b1", "10de:20f1"),
    ),
    CardModel(
        "A100-80G",
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-80GB"),
        81920,
        "ampere",
        (8, 0),
        108,
        ("10de:20b2", "10de:20b5"),
    ),
    CardModel(
        "A800-80G",
        ("NVIDIA A800-SXM4-80GB", "NVIDIA A800 80GB PCIe"),
        81920,
        "ampere",
        (8, 0),
        108,
        ("10de:20f3", "10de:20f5"),
    ),
    CardModel("A30", ("NVIDIA A30",), 24576, "ampere", (8, 0), 56, ("10de:20b7",)),
    CardModel("A10", ("NVIDIA A10",), 23028, "ampere", (8, 6), 72, ("10de:2236",)),
    CardModel("A10G", ("NVIDIA A10G",), 23028, "ampere", (8, 6), 80, ("10de:2237",)),
    CardModel("A40", ("NVIDIA A40",), 46068, "ampere", (8, 6), 84, ("10de:2235",)),
    CardModel("RTX-A6000", ("NVIDIA RTX A6000",), 49140, "ampere", (8, 6), 84, ("10de:2230",)),
    CardModel(
        "RTX-3090", ("NVIDIA GeForce RTX 3090",), 24576, "ampere", (8, 6), 82, ("10de:2204",)
    ),
    CardModel(
        "RTX-3090Ti", ("NVIDIA GeForce RTX 3090 Ti",), 24564, "ampere", (8, 6), 84, ("10de:2203",)
    ),
    CardModel("L4", ("NVIDIA L4",), 23034, "ada", (8, 9), 58, ("10de:27b8",)),
    CardModel("L20", ("NVIDIA L20",), 46068, "ada", (8, 9), 92, ("10de:26b7", "10de:26ba")),
    CardModel("L40", ("NVIDIA L40",), 46068, "ada", (8, 9), 142, ("10de:26b5",)),
    CardModel("L40S", ("NVIDIA L40S",), 46068, "ada", (8, 9), 142, ("10de:26b9",)),
    CardModel(
        "RTX-6000-Ada",
        ("NVIDIA RTX 6000 Ada Generation",),
        49140,
        "ada",
        (8, 9),
        142,
        ("10de:26b1",),
    ),
    CardModel("RTX-4090", ("NVIDIA GeForce RTX 4090",), 24564, "ada", (8, 9), 128, ("10de:2684",)),
    CardModel(
        "RTX-4090D", ("NVIDIA GeForce RTX 4090 D",), 24564, "ada", (8, 9), 114, ("10de:2685",)
    ),
    CardModel(
        "H100",
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"),
        81559,
        "hopper",
        (9, 0),
        132,
        ("10de:2330", "10de:2331"),
    ),
    CardModel("H100-NVL", ("NVIDIA H100 NVL",), 95830, "hopper", (9, 0), 132, ("10de:2321",)),
    CardModel(
        "H800",
        ("NVIDIA H800", "NVIDIA H800 PCIe"),
        81559,
        "hopper",
        (9, 0),
        132,
        ("10de:2322", "10de:2324"),
    ),
    CardModel("H20", ("NVIDIA H20",), 97871, "hopper", (9, 0), 78, ("10de:2329",)),
    CardModel("H200", ("NVIDIA H200",), 143771, "hopper", (9, 0), 132, ("10de:2335",)),
    CardModel("H200-NVL", ("NVIDIA H200 NVL",), 143771, "hopper", (9, 0), 132, ("10de:233b",)),
    CardModel(
        "GH200-96G",
        ("NVIDIA GH200 480GB", "NVIDIA GH200 120GB", "GH200 120GB", "GH200 480GB"),
        97871,
        "hopper",
        (9, 0),
        132,
        ("10de:2342",),
    ),
    CardModel("B200", ("NVIDIA B200",), 183359, "blackwell", (10, 0), 148, ("10de:2901",)),
    CardModel(
        "B300",
        ("NVIDIA B300 SXM6 AC", "NVIDIA B300"),
        275040,
        "blackwell",
        (10, 3),
        148,
        ("10de:3182",),
    ),
    CardModel(
        "RTX-5090", ("NVIDIA GeForce RTX 5090",), 32607, "blackwell", (12, 0), 170, ("10de:2b85",)
    ),
    CardModel(
        "RTX-PRO-6000",
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        ),
        97887,
        "blackwell",
        (12, 0),
        188,
        ("10de:2bb5", "10de:2bb1", "10de:2bb4"),
    ),
    CardModel("MI210", ("AMD Instinct MI210",), 65520, "cdna2", None, 104, ("1002:740f",), "amd"),
    CardModel(
        "MI300X", ("AMD Instinct MI300X",), 196592, "cdna3", None, 304, ("1002:74a1",), "amd"
    ),
)

CATALOGUE: Mapping[str, CardModel] = MappingProxyType({card.name: card for card in _TABLE})

#: Vendors in the words of agents, dialects and limits. A limit that names one of them never means a
#: model.
VENDORS = frozenset(
    {
        "nvidia", "amd", "intel", "ascend", "aws-neuron", "biren", "cambricon", "enflame", "google", "habana", "hygon",
        "iluvatar", "kunlunxin", "metax", "mthreads", "thead", "vastai",
    }
)  # fmt: skip

_MAKERS = frozenset(
    {"nvidia", "tesla", "geforce", "amd", "instinct", "intel", "r", "tm", "corporation"}
)


def canonical_model(product: str, pci_id: str | None = None) -> str:
    """The claim name of a card from the driver's words, or from its `vendor:device` id when those
    are unknown.

    >>> canonical_model("NVIDIA A100-SXM4-40GB"), canonical_model("NVIDIA GeForce RTX 4080 SUPER")
    ('A100-40G', 'RTX-4080-SUPER')
    >>> canonical_model("Graphics Device", "10de:2335")
    'H200'
    """
    known = _BY_PRODUCT.get(_words(product)) or _BY_PCI_ID.get((pci_id or "").lower())
    return known.name if known else "-".join(_words(product)).upper() or "UNKNOWN"


def vendor_of(model: str) -> str:
    """The vendor of a model of the catalogue; empty for one that is not in it.

    >>> vendor_of("H200"), vendor_of("MI300X"), vendor_of("ASCEND910B3")
    ('nvidia', 'amd', '')
    """
    known = CATALOGUE.get(model)
    return known.vendor if known else ""


def find_vendor(name: str) -> str | None:
    """The vendor of that name, whatever its case; None where it names none.

    >>> find_vendor("AMD"), find_vendor("H200")
    ('amd', None)
    """
    return name.lower() if name.lower() in VENDORS else None


def find_model(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` means, whatever its case and separators; None when it means
    none of them.

    >>> find_model("a100_40g", ["A100-40G", "H200"])
    'A100-40G'
    """
    by_key = {_key(k): k for k in known}
    return by_key.get(_key(name)) if _key(name) else None


def nearest_model(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that looks most like `name`, for "did you mean"; None when nothing is like
    it.

    The beginning of a name means the first name that goes on from there.

    >>> nearest_model("H2OO", ["A100-40G", "H20", "H200"]), nearest_model("A100", ["A10", "A100-40G"])
    ('H200', 'A100-40G')
    """
    by_key = {_looks(k): k for k in sorted(known)}
    begun = []
    for key, name_known in by_key.items():
        if len(_key(name)) > 1 and key.startswith(_looks(name)):
            begun.append(name_known)
    if begun:
        return begun[0]
    near = difflib.get_close_matches(_looks(name), by_key, n=1, cutoff=0.5)
    return by_key[near[0]] if near else None


def _words(product: str) -> tuple[str, ...]:
    words = re.findall(r"[a-z0-9]+", product.lower())
    return tuple(word for word in words if word not in _MAKERS)


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _looks(name: str) -> str:
    """The key with letters that are read as digits, so that `H2OO` is H200 rather than H20."""
    return _key(name).translate(str.maketrans("oil", "011"))


_BY_PRODUCT = {_words(product): card for card in _TABLE for product in card.products}
_BY_PCI_ID = {pci_id: card for card in _TABLE for pci_id in card.pci_ids}
