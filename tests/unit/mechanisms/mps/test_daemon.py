import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpupool.mechanisms.mps.daemon import DaemonPlace, DaemonProcesses
from tests.support.deep_trees import few_frames, make_deep_tree
from tests.support.supervised import until

UUID = "GPU-8f6dbc4f-0000-0000-0000-000000000001"


@pytest.fixture
def place(tmp_path: Path) -> DaemonPlace:
    folder = tmp_path / "mps" / "card"
    folder.mkdir(parents=True)
    return DaemonPlace(folder, UUID, os.getuid(), os.getgid())


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of the real one's name that does nothing."""
    path = tmp_path / "nvidia-cuda-mps-server"
    path.symlink_to("/bin/sleep")
    return path


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    processes = list["subprocess.Popen[bytes]"]()
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(program: Path | str, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """A program whose environment the kernel shows: for a moment after exec it shows none.

    It names its card, so that tests beside this one do not take it for a daemon of theirs.
    """
    process = subprocess.Popen([program, "60"], env={"CUDA_VISIBLE_DEVICES": UUID, **environment})
    until(Path(f"/proc/{process.pid}/environ").read_bytes, "the environment")
    return process


def test_processes_are_found_by_name_and_pipe_directory(
    place: DaemonPlace, program: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    environment = place.target.environment
    own = start(program, environment)
    other = start(program, {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/other"})
    client = start("/bin/sleep", environment)
    started += [own, other, client]
    assert DaemonProcesses().find_processes(place.target) == (own.pid,)


def test_a_process_that_ended_and_was_not_waited_for_is_no_daemon(
    place: DaemonPlace, program: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    process = start(program, place.target.environment)
    started.append(process)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert DaemonProcesses().find_processes(place.target) == ()


def test_what_does_not_end_by_itself_is_killed(
    place: DaemonPlace, program: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    process = start(program, place.target.environment)
    started.append(process)
    assert DaemonProcesses().end_processes(place.target, is_asked=False) == ()
    assert process.wait() == -9


def test_a_number_that_went_to_another_process_is_not_killed(
    place: DaemonPlace, started: list["subprocess.Popen[bytes]"]
) -> None:
    other = subprocess.Popen(["/bin/sleep", "60"])
    started.append(other)

    DaemonProcesses()._kill_process(other.pid, place.target)
    other.send_signal(signal.SIGCONT)  # it is there to take it
    assert os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def list_foreign(proc: Path, words: str, environment: dict[str, str], root: Path) -> list[int]:
    """Return what is foreign of one process 4711 in a directory that plays /proc."""
    entry = proc / "4711"
    entry.mkdir(parents=True)
    (entry / "comm").write_text("nvidia-cuda-mps\n")
    (entry / "cmdline").write_text("\0".join([*words.split(), ""]))
    variables = [f"{name}={value}" for name, value in environment.items()]
    (entry / "environ").write_text("\0".join([*variables, ""]))
    return list(DaemonProcesses(proc).find_foreign(UUID, root))


@pytest.mark.parametrize("words", ["nvidia-cuda-mps-control -d", "/usr/bin/nvidia-cuda-mps-server"])
@pytest.mark.parametrize(
    ("environment", "is_foreign"),
    [
        ({"CUDA_VISIBLE_DEVICES": UUID, "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps"}, True),
        ({"PATH": "/bin"}, True),
        ({"CUDA_VISIBLE_DEVICES": "GPU-another"}, False),
        ({"CUDA_MPS_PIPE_DIRECTORY": "/state/mps/0123/pipe"}, False),
    ],
)
def test_a_daemon_of_others_counts_where_it_could_serve_the_card(
    tmp_path: Path, words: str, environment: dict[str, str], is_foreign: bool
) -> None:
    found = list_foreign(tmp_path / "proc", words, environment, Path("/state/mps"))
    assert found == ([4711] if is_foreign else [])


def test_a_command_of_an_operator_is_no_daemon(tmp_path: Path) -> None:
    """Such as `echo ps | nvidia-cuda-mps-control`, which lasts for milliseconds."""
    found = list_foreign(
        tmp_path / "proc", "nvidia-cuda-mps-control", {"PATH": "/bin"}, Path("/state/mps")
    )
    assert found == []


def test_stale_sockets_go_and_a_link_takes_nothing_with_it(
    place: DaemonPlace, tmp_path: Path
) -> None:
    place.make_directories()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    for name in ("control", "control_lock"):
        (place.target.pipe / name).touch()
    (place.target.pipe / "gpupool" / "a1").mkdir(parents=True)
    (place.target.pipe / "link").symlink_to(tmp_path / "precious")
    place.remove_stale_sockets()
    assert list(place.target.pipe.iterdir()) == []
    assert (tmp_path / "precious" / "file").exists()


def test_directories_that_the_owner_made_inside_one_another_go(place: DaemonPlace) -> None:
    place.make_directories()
    make_deep_tree(place.target.pipe / "gpupool")
    with few_frames():
        place.remove_stale_sockets()
    assert list(place.target.pipe.iterdir()) == []


def test_the_log_is_read_for_the_server_that_runs(place: DaemonPlace) -> None:
    place.make_directories()
    log = place.target.log / "server.log"
    log.write_text(
        "[2026-11-01 10:00:00.000 Server 17] Failed to start : no device\n"
        "[2026-11-01 10:00:01.000 Server 18] Creating server context on device 0\n"
    )
    assert place.find_server_problem(17) == "Failed to start : no device"
    assert place.find_server_problem(18) == ""


def test_a_log_that_is_a_link_or_a_pipe_is_not_read(place: DaemonPlace, tmp_path: Path) -> None:
    """The owner of the daemon writes there: a link would show a file of root's."""
    place.make_directories()
    secret = tmp_path / "secret"
    secret.write_text("[Server 17] Failed: secret\n")
    log = place.target.log / "server.log"
    log.symlink_to(secret)
    assert place.find_server_problem(17) == ""
    log.unlink()
    os.mkfifo(log)
    assert place.find_server_problem(17) == ""


def test_a_directory_of_logs_that_is_a_link_is_not_followed(
    place: DaemonPlace, tmp_path: Path
) -> None:
    place.make_directories()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "server.log").write_text("[Server 17] Failed: secret\n")
    (place.target.log / "gpupool").symlink_to(tmp_path / "elsewhere")
    assert place.find_server_problem(17) == ""
    (place.target.log / "gpupool").unlink()
    (place.target.log / "gpupool").mkdir()
    (place.target.log / "gpupool" / "server.log").write_text("[Server 17] Failed: own\n")
    assert place.find_server_problem(17) == "Failed: own"


def test_the_directories_are_the_owners_alone(place: DaemonPlace) -> None:
    for _ in range(2):
        place.make_directories()
    for directory in (place.target.pipe, place.target.log):
        assert directory.stat().st_mode & 0o777 == 0o700
