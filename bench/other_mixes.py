"""Lists of pods that nobody has tuned to: openb's own shapes in other mixes, made anew from a seed.

Pods are drawn from the published lists by what they ask for (a share, a card, several cards,
processors alone). A seed decides how much of the compute each kind asks for (several cards up to a
half, shares up to four fifths of the rest), how many pods ask for processors alone (up to a
quarter), how many name a model (as in openb's typed lists; none to three in ten), whether
processors are scarcer or not (times 0.8 to 1.15), and whether shares have openb's sizes or a few
round ones. Together they ask for what the cluster has.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

SEEDS = range(3000, 3008)
COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
CAPACITY_MILLI = 6_212_000
WIDEST_MILLI_CORES = 96_000
"""Of the model that large claims name here."""

Pod = dict[str, str]


@dataclass(frozen=True)
class Mix:
    """Parts of the compute asked for; of all pods those without cards; of those with cards those
    that name a model."""

    multi: float
    share: float
    bare: float
    typed: float
    cpu: float
    sizes: tuple[int, ...]

    @classmethod
    def drawn(cls, chance: Random) -> "Mix":
        multi = chance.uniform(0, 0.5)
        return cls(
            multi=multi,
            share=(1 - multi) * chance.uniform(0.05, 0.8),
            bare=chance.uniform(0, 0.25),
            typed=chance.choice((0, 0, 0.1, 0.2, 0.3)),
            cpu=chance.choice((0.8, 1, 1, 1, 1.15)),
            sizes=chance.choice(((), (), (), (100, 250, 330, 500, 700), (200, 400, 600, 900))),
        )

    def __str__(self) -> str:
        parts = f"{self.multi:.0%} several cards, {self.share:.0%} shares, {self.typed:.0%} typed, {self.bare:.0%} bare"
        return f"{parts}, processors x {self.cpu:g}" + (
            f", sizes {self.sizes}" if self.sizes else ""
        )


def write(folder: Path, out: Path, seeds: Sequence[int] = SEEDS) -> list[tuple[str, str, Path]]:
    """A list per seed under `out`: its name, its mix in words, where it lies. The same seed writes
    the same list."""
    shapes = _shapes(folder)
    out.mkdir(parents=True, exist_ok=True)
    return [_written(shapes, seed, out / f"other-mix-{seed}.csv") for seed in seeds]


def _written(shapes: dict[str, list[Pod]], seed: int, path: Path) -> tuple[str, str, Path]:
    chance = Random(seed)
    mix = Mix.drawn(chance)
    pods = [*_with_cards(shapes, mix, chance)]
    pods += [
        _pod(chance.choice(shapes["bare"]), mix, chance)
        for _ in range(int(len(pods) * mix.bare / (1 - mix.bare)))
    ]
    chance.shuffle(pods)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows({**pod, "name": f"pod-{number:05}"} for number, pod in enumerate(pods))
    return path.stem, str(mix), path


def _with_cards(shapes: dict[str, list[Pod]], mix: Mix, chance: Random) -> Iterator[Pod]:
    for kind, part in (
        ("share", mix.share),
        ("one", 1 - mix.multi - mix.share),
        ("multi", mix.multi),
    ):
        asked = 0
        while asked < part * CAPACITY_MILLI:
            pod = _pod(chance.choice(shapes[kind]), mix, chance)
            if kind == "share" and mix.sizes:
                pod["gpu_milli"] = str(chance.choice(mix.sizes))
            if chance.random() < mix.typed:
                pod["gpu_spec"] = _model(kind, pod, shapes, chance)
            asked += int(pod["num_gpu"]) * int(pod["gpu_milli"])
            yield pod


def _pod(row: Pod, mix: Mix, chance: Random) -> Pod:
    several = int(row["num_gpu"]) > 1
    cpu = int(row["cpu_milli"]) if several else int(int(row["cpu_milli"]) * mix.cpu)
    return {**{name: row[name] for name in COLUMNS[1:5]}, "cpu_milli": str(cpu), "gpu_spec": ""}


def _model(kind: str, pod: Pod, shapes: dict[str, list[Pod]], chance: Random) -> str:
    """Drawn from openb's typed lists; a large claim names the model of which there is most, if it
    has room for it."""
    if kind == "multi":
        return "G2" if int(pod["cpu_milli"]) <= WIDEST_MILLI_CORES else ""
    return chance.choice(shapes[f"typed {kind}"])["gpu_spec"]


def _shapes(folder: Path) -> dict[str, list[Pod]]:
    """Pods by kind: the main list's, the large ones of the list with most of them, and those that
    name a model."""
    found: dict[str, list[Pod]] = {}
    for pod in _rows(folder, "default"):
        found.setdefault(_kind(pod), []).append(pod)
    found["multi"] = [pod for pod in _rows(folder, "multigpu40") if _kind(pod) == "multi"]
    for pod in _rows(folder, "gpuspec25"):
        if pod["gpu_spec"]:
            found.setdefault(f"typed {_kind(pod)}", []).append(pod)
    return found


def _rows(folder: Path, name: str) -> list[Pod]:
    with (folder / f"openb_pod_list_{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _kind(pod: Pod) -> str:
    count = int(pod["num_gpu"])
    if count != 1:
        return "multi" if count else "bare"
    return "one" if int(pod["gpu_milli"]) == 1000 else "share"
