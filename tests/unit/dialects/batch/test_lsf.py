"""LSF: `bsub -gpu` as IBM's page has it."""

from __future__ import annotations

import pytest

from gpupool.base.errors import GpupoolError
from gpupool.dialects.batch import lsf
from gpupool.dialects.batch.script import submit_line


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (
            '#BSUB -gpu "num=1:mode=shared:mps=yes:j_exclusive=no"',
            "1.00 GPU (100 % compute) + its part of the memory",
        ),
        (
            '#BSUB -gpu "num=2:mode=exclusive_process"',
            "2 × [1.00 GPU (100 % compute) + its part of the memory]",
        ),
        ('#BSUB -gpu "num=1:gmem=24G"', "1.00 GPU (best effort) + 24576 MiB"),
        (
            '#BSUB -gpu "num=1:j_exclusive=yes:gmem=24G"',
            "1.00 GPU (100 % compute) + its part of the memory",
        ),
        (
            'bsub -gpu "num=4/host:gmodel=TeslaV100" -q gpu ./train',
            "4 × [1.00 GPU (100 % compute) + its part of the memory]",
        ),
        ("#BSUB -gpu -", "1.00 GPU (100 % compute) + its part of the memory"),
    ],
)
def test_cards_are_of_each_host(text: str, share: str) -> None:
    assert str(lsf.understand_script(text).ask) == share


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ('#BSUB -gpu "num=1:mig=3/2"', "GP-2016: -gpu: num=1:mig=3/2: which MIG profile"),
        ('#BSUB -gpu "number=1"', "GP-1041: -gpu: number=1: 'number=1' is not known"),
        ('#BSUB -gpu "num=1/task"', "GP-1041: -gpu num: '1/task' is no quantity"),
        ("#BSUB -J x", "GP-1040: no line of the script asks for a card"),
        ('#BSUB -gpu "num=1" -w "done(1)"', "GP-2016: -w: done(1): jobs are not started"),
        ('#BSUB -gpu "num=1', "GP-1040: #BSUB -gpu"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(GpupoolError) as refused:
        lsf.understand_script(text)
    assert f"{refused.value.code}: {refused.value.message}".startswith(refusal)


def test_the_line_to_type_says_all_of_it() -> None:
    text = (
        "#!/bin/sh\n#BSUB -J train[1-4] -n 8 -W 24:00 -P nlp -r\n#BSUB -gpu "
        '"num=1:mode=exclusive_process"\n./train\n'
    )
    line, _ = submit_line(lsf.understand_script(text), ("bash", "job.sh"))
    assert line == (
        "gpupool submit --gpu 1 --name train --cpus 8 --max-time 86400s --array 4 --project nlp --requeue"
        " -- bash job.sh"
    )
