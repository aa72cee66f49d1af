"""What the front door reads, against Python's reading and against chance."""

from __future__ import annotations

import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.base.errors import BadInput
from gpupool.base.units import parse_duration, parse_gpu, parse_memory
from tests.unit.native.front_pool import COMMON, FRONT, ROOT, SANITIZERS, compile_front

SEED = 20251121


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("probe") / "probe"
    sources = [
        *(file for file in sorted(FRONT.glob("**/*.c")) if file.name != "main.c"),
        *COMMON,
        Path(__file__).with_name("front_probe.c"),
    ]
    compile_front(target, *SANITIZERS, sources=sources)
    return target


def gpu(text: str) -> tuple[int, int]:
    milli, cards = parse_gpu(text)
    return milli, cards or 0


READERS: dict[str, tuple[Callable[[str], tuple[int, int]], list[str]]] = {
    "gpu": (gpu, ["0.3", "1", "1.0", ".25", "0.001", "1.", "4", "12", "100000"]),
    "memory": (
        lambda text: (parse_memory(text), 0),
        [
            "8GiB",
            "8gi",
            "8192MiB",
            "16GB",
            "1.5GiB",
            "0.0000001TiB",
            "999999TiB",
            "1b",
            "1048577b",
            "3.000001MB",
        ],
    ),
    "duration": (
        lambda text: (parse_duration(text), 0),
        ["90s", "1h30m", "2d", "520w", "1H1h", "0s1m"],
    ),
}
SIGNS = "00123456789...eE+-_ \tsmhdwkKMGTiIbBé١"


def quantities(known: list[str], chance: random.Random) -> list[str]:
    """Good ones, good ones with a sign changed, and mere signs."""
    found = [*known, ""]
    for _ in range(3000):
        signs = list(chance.choice(known))
        for _ in range(chance.randrange(3)):
            signs[chance.randrange(len(signs))] = chance.choice(SIGNS)
        signs.insert(chance.randrange(len(signs) + 1), chance.choice(["", "", *SIGNS]))
        found.append("".join(signs))
    return [*found, *("".join(chance.choices(SIGNS, k=chance.randrange(8))) for _ in range(1000))]


@pytest.mark.parametrize("kind", READERS)
def test_a_quantity_is_read_as_python_reads_it_or_left_to_python(probe: Path, kind: str) -> None:
    read, known = READERS[kind]
    texts = quantities(known, random.Random(SEED))
    done = subprocess.run(
        [str(probe), "units", kind],
        input="\n".join(texts) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers = done.stdout.splitlines()
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers, strict=True):
        if answer != "no":
            assert answer == "{} {}".format(*read(text)), text
    assert "no" not in answers[: len(known)]
    good = sum(1 for text in texts if accepted(read, text))
    assert sum(answer != "no" for answer in answers) > good / 2, "most of what is good is taken"


def accepted(read: Callable[[str], tuple[int, int]], text: str) -> bool:
    try:
        read(text)
    except BadInput:
        return False
    return True


def test_no_command_line_and_no_answer_makes_the_readers_step_too_far(probe: Path) -> None:
    for seed in range(1, 5):
        subprocess.run([str(probe), "fuzz", str(seed), "3000"], check=True, timeout=120)


def test_the_table_of_codes_is_that_of_python() -> None:
    made = subprocess.run(
        [sys.executable, str(FRONT / "pool/make_codes.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    kept, fresh = (FRONT / "pool/codes.h").read_text(), made.stdout
    end = "/* Shown as escapes. */"
    assert kept.split(end)[0] == fresh.split(end)[0]
    if unicodedata.unidata_version == "14.0.0":  # that of the Python it was made with
        assert kept == fresh


def test_the_version_that_the_front_door_names_is_pythons() -> None:
    from gpupool import __version__

    assert f'version = "{__version__}"' in (ROOT / "native" / "pyproject.toml").read_text()
