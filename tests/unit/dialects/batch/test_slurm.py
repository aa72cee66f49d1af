"""Slurm: `#SBATCH` lines as schedmd's sbatch and gres pages have them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import GpupoolError
from gpupool.dialects.batch import slurm
from gpupool.dialects.batch.script import JobClaim, submit_line
from gpupool.dialects.facts import NodeFacts

FACTS = NodeFacts(slurm_shards_per_card=16, slurm_mps_per_card=200)


def script(*options: str, body: str = "python train.py") -> str:
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {option}" for option in options),
            "",
            body,
            "#SBATCH --gres=gpu:8",
            "",
        ]
    )


def job(*options: str, body: str = "python train.py", facts: NodeFacts = FACTS) -> JobClaim:
    return slurm.understand_script(script(*options, body=body), facts)


@pytest.mark.parametrize(
    ("options", "share", "members"),
    [
        (["--gres=gpu:2"], "2 × [1.00 GPU (100 % compute) + its part of the memory]", 1),
        (["--gres=gpu"], "1.00 GPU (100 % compute) + its part of the memory", 1),
        (["--gres gpu:a100:4"], "4 × [1.00 GPU (100 % compute) + its part of the memory]", 1),
        (["-G 8", "-N 2"], "4 × [1.00 GPU (100 % compute) + its part of the memory]", 2),
        (
            ["--gpus-per-node=h100:8", "--nodes=4"],
            "8 × [1.00 GPU (100 % compute) + its part of the memory]",
            4,
        ),
        (
            ["--gpus-per-task=1", "--ntasks=8", "-N2"],
            "4 × [1.00 GPU (100 % compute) + its part of the memory]",
            2,
        ),
        (["--gres=shard:4"], "0.25 GPU (25 % compute) + its part of the memory", 1),
        (["--gres=mps:50"], "0.25 GPU (25 % compute) + its part of the memory", 1),
        (["--gres=gpu:2", "--gres=gpu:1"], "1.00 GPU (100 % compute) + its part of the memory", 1),
        (
            ["--gres=gpu:2 # two", "--gpus-per-node=2"],
            "2 × [1.00 GPU (100 % compute) + its part of the memory]",
            1,
        ),
    ],
)
def test_cards_are_of_each_node(options: list[str], share: str, members: int) -> None:
    found = job(*options)
    assert (str(found.ask), found.members) == (share, members)


def test_lines_after_the_first_command_are_none_of_sbatchs() -> None:
    assert job("--gres=gpu:1").ask.count == 1


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (
            ["--gres=gpu:1,shard:4"],
            "GP-1042: --gres: gpu:1,shard:4: whole cards and parts of cards exclude each other",
        ),
        (["--gres=shard:4", "--gpus=1"], "GP-1042"),
        (
            ["--gres=gpu:1", "--gpus-per-node=2"],
            "GP-1042: --gres: gpu:1 (1 of each node) and --gpus-per-node: 2 (2 of each",
        ),
        (
            ["--gres=shard:17"],
            "GP-1041: --gres: shard:17: a card has 16 of them, and a job one card",
        ),
        (["--gpus=8", "-N 3"], "GP-1041: --gpus: 8 is not the same on each of 3 nodes"),
        (["--gres=fpga:1"], "GP-2016: --gres: fpga:1: fpga is no kind of card"),
        (
            ["--gres=gpu:1", "--dependency=singleton"],
            "GP-2016: --dependency: singleton: 'singleton' has no meaning here",
        ),
        (
            ["--gres=gpu:1", "--dependency=afterok:12?afterany:13"],
            "GP-2016: --dependency: afterok:12?afterany:13: one of several ends is enough",
        ),
        (
            ["--gres=gpu:1", "--dependency=afterok:"],
            "GP-1041: --dependency: afterok:: names no job",
        ),
        (["--gres=gpu:0"], "GP-1041: --gres: 0: this is a whole number from 1"),
        (["--gres=gpu:1", "--time=soon"], "GP-1041: --time: soon: this is no time"),
        (["--gres=gpu:1", "--array=9-0"], "GP-1041: --array: 9-0: these are no indices"),
        (["--gres=gpu:1", "--mem=lots"], "GP-1041: --mem: lots: this is no amount of memory"),
        (["--time=1:00"], "GP-1040: no line of the script asks for a card"),
        (["gres=gpu:1"], "GP-1040: 'gres=gpu:1' is no option of sbatch"),
        (["--gres"], "GP-1040: --gres needs a value"),
        (['--job-name="x'], "GP-1040: #SBATCH --job-name"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: list[str], refusal: str) -> None:
    with pytest.raises(GpupoolError) as refused:
        job(*options)
    assert f"{refused.value.code}: {refused.value.message}".startswith(refusal)


def test_a_shard_needs_its_count_and_mps_is_guessed_as_percent() -> None:
    with pytest.raises(GpupoolError, match="GP-1044") as missing:
        job("--gres=shard:4", facts=NodeFacts())
    assert missing.value.details == {"path": (2,), "fact": "slurm_shards_per_card"}
    guessed = job("--gres=mps:50", facts=NodeFacts())
    assert (guessed.ask.gpu_milli, guessed.ask.guesses) == (
        500,
        ("a card's count of mps is not known: 100, so a percentage",),
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("30:15", 1815),
        ("2:00:00", 7200),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-00:00:30", 86430),
        ("UNLIMITED", None),
    ],
)
def test_times_are_slurms(text: str, seconds: int | None) -> None:
    assert job("--gres=gpu:1", f"--time={text}").max_seconds == seconds


@pytest.mark.parametrize(
    ("text", "many"), [("0-15", 16), ("1,3,5", 3), ("0-9:2", 5), ("0-15%4", 16), ("7", 1)]
)
def test_arrays_are_so_many_jobs(text: str, many: int) -> None:
    assert job("--gres=gpu:1", f"--array={text}").array == many


def test_memory_per_gpu_is_the_nodes_and_not_the_cards() -> None:
    found = job("--gres=gpu:2", "--mem-per-gpu=32G")
    assert (found.host_bytes, found.ask.memory_bytes) == (64 << 30, None)
    assert "not memory of the card" in found.notes[0]
    assert job("--gres=gpu:1", "-n4", "-c2", "--mem-per-cpu=4G").host_bytes == 32 << 30


def test_the_line_to_type_says_all_of_it() -> None:
    found = job(
        "-J train --gres=gpu:a100:4 -N 2",
        "-t 1:00:00 -A nlp -p gpu -c 8 --ntasks=4 --mem=64G --requeue",
        body="srun python x.py $SLURM_PROCID",
    )
    line, left_out = submit_line(found, ("bash", "job.sh"))
    assert line == (
        "gpupool submit --gpu 4 --model 'A100-40G|A100-80G' --name train --cpus 16 --host-memory 65536MiB"
        " --max-time 3600s --gang 2 --project nlp --requeue -- bash job.sh"
    )
    assert left_out == ("the queue gpu: what a tenant may have is its quota's to say",)
    assert [note.split(":")[0] for note in found.notes] == [
        "the script calls srun, which is Slurm's",
        "the script reads SLURM_PROCID",
    ]


def test_a_part_is_typed_as_a_share_and_an_array_of_gangs_is_not_kept() -> None:
    line, _ = submit_line(job("--gres=shard:4", "--array=0-3"), ("bash", "job.sh"))
    assert line == "gpupool submit --gpu 0.25 --sharing burst --array 4 -- bash job.sh"
    line, _ = submit_line(job("--gres=mps:50"), ("bash", "job.sh"))
    assert line == "gpupool submit --gpu 0.25 --sharing mps -- bash job.sh"
    line, left_out = submit_line(job("--gres=gpu:1", "-N 2", "--array=0-3"), ("bash", "job.sh"))
    assert line == "gpupool submit --gpu 1 --gang 2 -- bash job.sh"
    assert left_out == ("an array of gangs: submit it 4 times",)


def test_a_dependency_is_typed_as_after() -> None:
    found = job("--gres=gpu:1", "-d afterok:prep:12,afterany:load,afternotok:main")
    assert found.after == ("prep:ok", "12:ok", "load:any", "main:fail")
    line, _ = submit_line(found, ("bash", "job.sh"))
    assert line == (
        "gpupool submit --gpu 1 --after prep:ok --after 12:ok --after load:any --after main:fail"
        " -- bash job.sh"
    )


def test_no_option_is_left_out_without_a_word() -> None:
    text = "#!/bin/bash\n#SBATCH --gres=gpu:1 --output=run.log --mail-type=END\n#SBATCH --licenses=matlab\ntrue\n"
    notes = slurm.understand_script(text).notes
    assert any("--output" in note and "gpupool logs" in note for note in notes)
    assert any("--mail-type" in note and "gpupool notify" in note for note in notes)
    assert any("--licenses" in note and "left out" in note for note in notes)
    plain = slurm.understand_script("#SBATCH --gres=gpu:1 --time=10 --job-name=a --nodes=1\ntrue\n")
    assert not any("left out" in note for note in plain.notes)
