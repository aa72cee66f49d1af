"""What gpupool-hook says of images: folders that look like one, and this machine's own libraries in
them."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from gpupool.base.errors import ImageRejection
from tests.unit.native.front_pool import COMMON, NATIVE, SANITIZERS, SECONDS, compile_front

pytestmark = pytest.mark.root

HOOK = NATIVE / "hook"
KIND = platform.machine()
MULTIARCH = f"usr/lib/{KIND}-linux-gnu"
LIBC = Path(f"/{MULTIARCH}/libc.so.6")
MUSL = f"lib/ld-musl-{KIND}.so.1"
VERSION = platform.libc_ver()[1]
USAGE = (
    "usage: gpupool-hook CODE GLIBC < STATE\n"
    "       gpupool-hook --report SOCKET ALLOCATION [CODE] < STATE\n"
)
NEXT = f"2.{int(VERSION.partition('.')[2]) + 1}"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hook") / "gpupool-hook"
    sources = [*sorted(HOOK.glob("*.c")), *(file for file in COMMON if file.name != "http.c")]
    compile_front(made, "-D_GNU_SOURCE", *SANITIZERS, sources=sources)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image with nothing in it, in the bundle of a container."""
    (tmp_path / "rootfs/etc").mkdir(parents=True)
    (tmp_path / "config.json").write_text(
        json.dumps({"ociVersion": "1.2.0", "root": {"path": "rootfs"}})
    )
    return tmp_path / "rootfs"


def put(root: Path, place: str, content: bytes | None = None) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_bytes(LIBC.read_bytes() if content is None else content)


def link(root: Path, place: str, target: str) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).symlink_to(target)


def older(minor: int) -> bytes:
    """This machine's glibc as if it had ended with an older version: no newer one is named in
    it."""
    content = LIBC.read_bytes()
    for found in set(re.findall(rb"GLIBC_2\.(\d+)\0", content)):
        if int(found) > minor:
            content = content.replace(
                b"GLIBC_2.%s\0" % found, b"GLIBC_2.%s\0" % b"".rjust(len(found), b"1")
            )
    return content


def ask(
    program: Path, root: Path, needed: str = VERSION, state: str | None = None
) -> tuple[int, str]:
    """(exit status, what it said)."""
    said = json.dumps({"ociVersion": "1.2.0", "id": "c", "pid": 1, "bundle": str(root.parent)})
    words = [str(program), ImageRejection.code, needed]
    done = subprocess.run(
        words,
        input=said if state is None else state,
        env={
            "ASAN_OPTIONS": "detect_leaks=0"
        },  # the search for leaks wants /proc, and an image has none
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def refused(text: str) -> tuple[int, str]:
    return 1, f"{ImageRejection.code}: {text}\n"


WITH_MUSL = refused(
    "the image has musl and no glibc, and the fence of a share is built for glibc; "
    "use an image with glibc (Debian, Ubuntu, UBI), or ask for a whole card"
)


@pytest.mark.parametrize(
    ("place", "links"),
    [
        (f"{MULTIARCH}/libc.so.6", {"lib": "usr/lib", "lib64": "usr/lib64"}),
        (f"lib/{KIND}-linux-gnu/libc-2.31.so", {f"lib/{KIND}-linux-gnu/libc.so.6": "libc-2.31.so"}),
        ("usr/lib64/libc.so.6", {"lib": "usr/lib", "lib64": "usr/lib64"}),
        ("usr/lib64/libc-2.28.so", {"lib64": "usr/lib64", "usr/lib64/libc.so.6": "libc-2.28.so"}),
        ("usr/lib/libc.so.6", {"lib": "usr/lib", "lib64": "usr/lib", "usr/lib64": "lib"}),
    ],
    ids=[
        "Debian, Ubuntu",
        "Debian 11, Ubuntu 18.04 or older",
        "UBI 9",
        "UBI 8",
        "one folder for everything",
    ],
)
def test_glibc_is_found_where_distributions_have_it(
    program: Path, root: Path, place: str, links: dict[str, str]
) -> None:
    put(root, place)
    for name, target in links.items():
        link(root, name, target)
    assert ask(program, root) == (0, "")
    code, text = ask(program, root, NEXT)
    assert (code, text.partition(";")[0]) == (
        1,
        f"GP-2018: the image has glibc {VERSION}, and the fence of a share needs {NEXT} or newer",
    )


def test_an_older_glibc_is_refused_with_the_numbers(program: Path, root: Path) -> None:
    put(root, f"{MULTIARCH}/libc.so.6", older(28))
    assert ask(program, root, "2.28") == (0, "")
    assert (
        "the image has glibc 2.28, and the fence of a share needs 2.34 or newer"
        in ask(program, root, "2.34")[1]
    )


def test_musl_is_refused_with_the_reason(program: Path, root: Path) -> None:
    put(root, MUSL, b"\x7fELF")
    assert ask(program, root) == WITH_MUSL


def test_musl_that_has_glibcs_names_is_musl(program: Path, root: Path) -> None:
    put(root, MUSL, LIBC.read_bytes()[:4096])
    link(root, "lib64/libc.so.6", f"/{MUSL}")
    link(root, f"lib64/ld-linux-{KIND.replace('_', '-')}.so.2", f"../{MUSL}")
    assert ask(program, root) == WITH_MUSL


def test_musl_beside_glibc_is_a_tool_of_the_image(program: Path, root: Path) -> None:
    put(root, MUSL, b"\x7fELF")
    put(root, f"{MULTIARCH}/libc.so.6")
    assert ask(program, root) == (0, "")


def test_an_image_of_static_programs_is_let_be(program: Path, root: Path) -> None:
    put(root, "bin/server", b"\x7fELF")
    assert ask(program, root) == (0, "")


def test_the_c_library_of_another_kind_of_machine_is_none(program: Path, root: Path) -> None:
    content = bytearray(LIBC.read_bytes())
    content[18:20] = b"\x03\x00"
    put(root, "lib/libc.so.6", bytes(content))
    put(root, MUSL, b"\x7fELF")
    assert ask(program, root) == WITH_MUSL


@pytest.mark.parametrize(
    "target", [f"/{MULTIARCH}/libc.so.6", "../" * 20 + f"{MULTIARCH}/libc.so.6"]
)
def test_no_link_leads_out_of_the_image(program: Path, root: Path, target: str) -> None:
    assert LIBC.exists()
    link(root, "usr/lib64/libc.so.6", target)
    put(root, MUSL, b"\x7fELF")
    assert ask(program, root) == WITH_MUSL
    put(root, f"{MULTIARCH}/libc.so.6")
    assert ask(program, root) == (0, "")


def test_a_folder_that_is_a_link_does_not_lead_out_either(program: Path, root: Path) -> None:
    link(root, "usr", "/../../../usr")
    link(root, "lib64", f"{root.parent}/outside")
    put(root.parent / "outside", "libc.so.6")
    put(root, MUSL, b"\x7fELF")
    assert ask(program, root) == WITH_MUSL


def test_links_in_a_circle_pipes_and_torn_files_are_no_library(program: Path, root: Path) -> None:
    link(root, "usr/lib64/libc.so.6", "libc.so.6")
    put(root, "lib64/libc.so.6", LIBC.read_bytes()[:40])
    put(root, "usr/lib/libc.so.6", b"")
    (root / "lib").mkdir()
    os.mkfifo(root / "lib/libc.so.6")
    put(root, MUSL, b"\x7fELF")
    assert ask(program, root) == WITH_MUSL


def test_a_root_elsewhere_is_found_by_its_absolute_path(
    program: Path, root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "merged"
    put(elsewhere, MUSL, b"\x7fELF")
    config = {
        "hooks": {"createRuntime": [{"path": "/x", "args": ["root"]}]},
        "root": {"path": str(elsewhere)},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ask(program, root) == WITH_MUSL


@pytest.mark.parametrize(
    "state", ["", "{", "[]", '{"bundle": 3}', '{"id": "c"}', '{"bundle": ""}', '{"bundle": "/"} x']
)
def test_a_state_that_says_nothing_lets_nothing_start(
    program: Path, root: Path, state: str
) -> None:
    problem = "the image cannot be looked at: the state of the container names no bundle"
    assert ask(program, root, state=state) == refused(problem)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (None, "the bundle has no config.json"),
        ('{"root": "rootfs"}', "config.json of the bundle names no root"),
        ('{"root": {"readonly": true}}', "config.json of the bundle names no root"),
        ('{"root": {"path": "rootfs"}', "config.json of the bundle names no root"),
        ('{"root": {"path": "/nowhere"}}', "/nowhere: No such file or directory"),
    ],
)
def test_a_bundle_without_a_root_lets_nothing_start(
    program: Path, root: Path, config: str | None, problem: str
) -> None:
    place = root.parent / "config.json"
    place.unlink() if config is None else place.write_text(config)
    assert ask(program, root) == refused(f"the image cannot be looked at: {problem}")


@pytest.mark.parametrize(
    "words",
    [(), ("GP-1",), ("GP-1", "2"), ("GP-1", "2.x"), ("GP-1", "2.34.1"), ("GP-1", "2.34", "x")],
)
def test_it_says_how_it_is_used(program: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (2, USAGE)


def report(program: Path, socket_path: Path, state: str, *code: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(program), "--report", str(socket_path), "u.main", *code],
        input=state,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_report_names_the_cgroups_and_waits_for_the_answer(
    program: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("s") / "s"
    asked: list[dict[str, object]] = []

    def answer(server: socket.socket) -> None:
        door, _ = server.accept()
        with door:
            asked.append(json.loads(door.makefile().readline()))
            door.sendall(b"{}\n")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        answering = threading.Thread(target=answer, args=(server,))
        answering.start()
        said = report(program, place, json.dumps({"pid": os.getpid(), "bundle": "/b"}))
        answering.join(SECONDS)
    assert said == (0, "")
    groups = Path("/proc/self/cgroup").read_text()
    assert asked == [{"container": "u.main", "groups": groups, "own_namespace": False}]


def answer_report(
    program: Path, tmp_path_factory: pytest.TempPathFactory, answer: bytes, *code: str
) -> tuple[int, str]:
    """What the hook says of an answer of the agent."""
    place = tmp_path_factory.mktemp("s") / "s"

    def serve(server: socket.socket) -> None:
        door, _ = server.accept()
        with door:
            door.makefile().readline()
            door.sendall(answer)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        answering = threading.Thread(target=serve, args=(server,))
        answering.start()
        said = report(program, place, json.dumps({"pid": os.getpid()}), *code)
        answering.join(SECONDS)
    return said


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b'{"unlimited": "the driver says no"}\n', "the driver says no"),
        (b'{"unlimited": "it says \\"no\\""}\n', 'it says "no"'),
        (b"{}", "the agent does not answer"),
        (b"{\n", "the agent's answer cannot be read"),
        (b'{"unlimited": "' + b"x" * 3000 + b'"}\n', "the agent does not answer"),
    ],
)
def test_container_that_demands_the_limits_starts_only_with_them(
    program: Path, tmp_path_factory: pytest.TempPathFactory, answer: bytes, reason: str
) -> None:
    free = answer_report(program, tmp_path_factory, answer)
    assert free == (0, f"gpupool sets no memory limit of the driver: {reason}\n")
    demanding = answer_report(program, tmp_path_factory, answer, "GP-1023")
    why = "the claim demands isolation hard, and no memory limit of the driver is set"
    assert demanding == (1, f"GP-1023: {why}: {reason}\n")
    assert answer_report(program, tmp_path_factory, b"{}\n", "GP-1023") == (0, "")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ('{"pid": OWN}', "No such file or directory"),
        ('{"pid": 0}', "its state names no process"),
        ('{"pid": "x"}', "its state names no process"),
        ("", "its state names no process"),
        ('{"pid": 99999999}', "its cgroups cannot be read"),
    ],
)
def test_container_starts_although_the_agent_is_not_told(
    program: Path, tmp_path: Path, state: str, reason: str
) -> None:
    said = report(program, tmp_path / "no-socket", state.replace("OWN", str(os.getpid())))
    assert said == (0, f"gpupool sets no memory limit of the driver: {reason}\n")


def test_agent_that_closes_without_an_answer_is_named(
    program: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("s") / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()

        def close_door() -> None:
            door, _ = server.accept()
            door.makefile().readline()
            door.close()

        closing = threading.Thread(target=close_door)
        closing.start()
        code, said = report(program, place, json.dumps({"pid": os.getpid()}))
        closing.join(SECONDS)
    assert (code, "the agent does not answer" in said) == (0, True)
