"""Whether a pool defragments itself, by its server's environment."""

import pytest

from gpupool.base.errors import BadOption
from gpupool.host.settings.defragmentation import read_budget
from gpupool.scheduling.rebalancing.automatic_defragment import DefragmentBudget


def test_it_is_off_until_it_is_switched_on() -> None:
    assert read_budget({"PATH": "/bin", "GPUPOOL_DEFRAG": ""}) is None
    assert read_budget({"GPUPOOL_DEFRAG": "off", "GPUPOOL_DEFRAG_MOVES": "5"}) is None
    assert read_budget({"GPUPOOL_DEFRAG": "on"}) == DefragmentBudget()


def test_every_number_is_taken() -> None:
    asked = {
        "GPUPOOL_DEFRAG": "on",
        "GPUPOOL_DEFRAG_MOVES": "5",
        "GPUPOOL_DEFRAG_LOST_GPU_MINUTES": "90",
        "GPUPOOL_DEFRAG_QUIET": "30",
        "GPUPOOL_DEFRAG_HOURS": "22-6",
    }
    assert read_budget(asked) == DefragmentBudget(
        moves=5, lost_gpu_seconds=5400, quiet_seconds=30, hours=(22, 6)
    )


@pytest.mark.parametrize(
    "environ",
    [
        {"GPUPOOL_DEFRAG": "perhaps"},
        {"GPUPOOL_DEFRAG_MOVES": "-1"},
        {"GPUPOOL_DEFRAG_HOURS": "22"},
        {"GPUPOOL_DEFRAG_HOURS": "6-6"},
        {"GPUPOOL_DEFRAG_HOURS": "24-3"},
    ],
)
def test_anything_else_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        read_budget({"GPUPOOL_DEFRAG": "on", **environ})
