"""Templates by the command line on a real pool: training, a gang that finds itself, a sweep."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool

SMALL = ("--gpu", "0.2", "--memory", "1GiB", "--hours", "10m")
#: Takes the options of torchrun, and really meets the other members at the master's address.
LAUNCHER = """\
#!{python}
import argparse, socket, sys
parser = argparse.ArgumentParser()
for name in ("nnodes", "node-rank", "nproc-per-node", "master-port"):
    parser.add_argument(f"--{{name}}", type=int)
parser.add_argument("--master-addr")
parser.add_argument("program", nargs=argparse.REMAINDER)
options = parser.parse_args()
where = (options.master_addr, options.master_port)
if options.node_rank == 0:
    total = 0
    with socket.create_server(where) as server:
        for _ in range(options.nnodes - 1):
            member, _address = server.accept()
            total += int(member.makefile().readline())
    print(f"{{options.nnodes}} met, ranks sum to {{total}}, {{options.nproc_per_node}} each: {{options.program}}")
else:
    while True:
        try:
            master = socket.create_connection(where)
            break
        except ConnectionRefusedError:
            continue
    master.sendall(b"%d\\n" % options.node_rank)
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(tmp_path_factory.mktemp("templates") / "pool", sim="4xL40S") as running:
        yield running


def test_training_sweep_and_gang_are_one_command_each(pool: RealPool, tmp_path: Path) -> None:
    script = tmp_path / "train it.py"
    script.write_text("import sys; print(sys.argv[1:])\n")
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(0o755)
    odd = "a b; $(id) ${gpu}"
    training = (*SMALL, "--script", str(script), "--python", sys.executable)
    pool.do("template", "run", "training", "--name", "train", *training, "--", odd, "--epochs", "3")
    parameters = ("--set", "parameters=lr=0.1,0.01", "--set", "parameters=note=x y")
    swept = pool.do("template", "run", "sweep", "--name", "sweep", *training, *parameters)
    assert swept == "sweep\n"
    gang = ("--launcher", str(launcher), "--members", "3", "--gpu", "0.2", "--memory", "1")
    pool.do("template", "run", "torchrun", "--name", "gang", *gang, "--script", "t.py", "--", "-x")
    pool.until_state("train", "done")
    assert pool.do("logs", "train") == f"{[odd, '--epochs', '3']}\n"
    for number, rate in enumerate(("0.1", "0.01")):
        pool.until_state(f"sweep.{number}", "done")
        assert pool.do("logs", f"sweep.{number}") == f"{[f'--lr={rate}', '--note=x y']}\n"
    pool.until_state("gang.0", "done")
    assert pool.do("logs", "gang") == "3 met, ranks sum to 3, 1 each: ['t.py', '-x']\n"


def test_a_dry_run_prints_what_submits_the_same(pool: RealPool, tmp_path: Path) -> None:
    script = tmp_path / "t.py"
    script.write_text("import os; print(os.environ['GPUPOOL_TEMPLATE'])\n")
    words = ("template", "run", "training", "--name", "same", *SMALL, "--script", str(script))
    printed = pool.do(*words, "--dry-run")
    command, _, manifest = printed.partition("\n\n")
    assert command.startswith("env GPUPOOL_TEMPLATE=training@1 gpupool submit --gpu 0.2 ")
    assert "max_seconds: 600" in manifest
    assert pool.json("ps", "same", "--all") == []
    made = json.loads(pool.do(*words, "-o", "json"))
    assert made["follow"] == ["gpupool logs -f same"]
    pool.until_state("same", "done")
    assert pool.do("logs", "same") == "training@1\n"


def test_wrong_fields_and_missing_programs_are_refused_before_a_job(
    pool: RealPool, tmp_path: Path
) -> None:
    done = pool.run("template", "run", "training", "--gpu", "99")
    assert done.returncode == 2
    assert "GP-2171" in done.stderr
    assert "script: a value is needed" in done.stderr
    assert pool.run("template", "run", "vscode").returncode == 127
    assert pool.run("template", "run", "training", "--gpu").returncode == 2
    assert pool.run("template", "run", "nothing").returncode == 5
    document = pool.do("template", "show", "training", "--document")
    file = tmp_path / "mine.yaml"
    file.write_text(document.replace("name: training", "name: mine", 1))
    assert pool.do("template", "add", str(file)) == "mine version 1 added\n"
    shown = pool.json("template", "show", "mine")["document"]
    assert shown["job"] == pool.json("template", "show", "training")["document"]["job"]
    assert pool.do("template", "disable", "mine") == "mine disabled\n"
    assert pool.run("template", "run", "mine", "--script", "x").returncode == 3
    assert pool.do("template", "remove", "mine", "--yes").endswith("template mine removed\n")
