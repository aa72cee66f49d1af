"""The front door and the Python command do the same: what they send, what they print, how they
end."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from gpupool.base.errors import TooManyCards, list_error_classes
from gpupool.terminal.commands import GLOBAL_OPTIONS
from gpupool.terminal.share_options import OF
from tests.unit.native.front_pool import (
    FELL_BACK,
    HANG_UP,
    FakePool,
    Programs,
    chunked,
    ended,
    first,
    http,
    job,
    problem,
)

DONE = http(first(ended()))
SUBMITTED = http(first(job(attached=False)))

UNDERSTOOD = [
    "run true",
    "run -- true",
    "run --gpu 0.1 --memory 1GiB -- true",
    "run --gpu=0.1 --memory=1GiB true --gpu 0.9 -- -x",
    "run --gpu .25 --mem 1.5GiB -- true",
    "run --gpu 1 --count 4 -- true",
    "run --gpu 4 true",
    "run --gpu 1. --memory 8192MiB true",
    "run --sharing best-effort --memory 16GB true",
    "run --sharing offline --memory 16GB true",
    "run --policy burst --gpu 0.3 true",
    "submit --policy=best-effort --memory 16GB true",
    "run --sharing burst --gpu 0.333 --memory 7kb true",
    "run --model H200 --label rack=r1 --label zone=a=b --label rack= true",
    "run --model 'ü\"\\ 😀' true",
    "run --name a.b-c_1 --tenant team --project p --priority high --max-time 1h30m true",
    "run --name first --name second --priority 007 --max-time 2D true",
    "run --no-wait --no-fence -q --no-color true",
    "run --quiet -v true",
    "run --verbose true",
    "--state-dir pool run true",
    "--no-color --state-dir=other run --state-dir ./nowhere/..//pool/ true",
    "--state-dir pool run --state-dir= true",
    "submit true",
    "submit --array 3 --name sweep --gpu 0.5 -- true 'é\n'",
    "submit -o json -- true",
    "submit -o text --output=json true",
    "submit ./python-gpupool",
    "submit --gpu 0.2 --memory 2Gi --count 2 --model L40S --label a=b --sharing fixed --name n --no-color true",
    "submit --mem=3GiB --gpu=1 --priority low --max-time=90s --tenant t --project p --no-wait --no-fence true",
    "submit --state-dir pool true",
    "run /bin/sh -c true",
]


@pytest.mark.parametrize("words", UNDERSTOOD)
def test_a_plain_command_line_is_taken_and_sent_as_python_sends_it(
    programs: Programs, words: str
) -> None:
    done = programs.both(words, SUBMITTED if "submit" in words else DONE)
    assert done.code == 0
    assert [asked.line.split("?")[0] for asked in done.asked] == ["POST /api/v1/jobs"]


def test_every_option_of_run_and_submit_is_compared_here() -> None:
    for command, table in OF.items():
        compared = [*UNDERSTOOD, *LEFT_TO_PYTHON.splitlines()]
        lines = " ".join(line for line in compared if command in line.split())
        typed = {word.split("=")[0] for word in lines.split()}
        assert {flag for flags, *_ in (*table, *GLOBAL_OPTIONS) for flag in flags} <= typed, command


LEFT_TO_PYTHON = """
--help
--lang zh run true
run --lang en true
submit --lang zh true
--version
ps
run
run --
run --help -- true
run --isolation hard --goal latency --host process -- true
run --network lab --address 10.0.0.9 --security-group web -- true
run --when-idle suspend --idle-after 5m -- true
submit --when-idle=suspend --idle-after=5m -- true
run --after j:any --retries 3 --retry-backoff 30s:10m -- true
submit --after=j --retries=3 --retry-backoff=30s -- true
run --exact -- true
submit --exact -- true
run --dry-run -- true
run --preview -- true
submit --preview --gpu=0.1 -- true
run --no-gang true
run --keep-output true
run --no-keep-output true
submit --no-gang true
submit --network=lab --address=10.0.0.9 --security-group=web -- true
submit --isolation=soft --goal=density --host=container --dry-run -- true
submit --help
run --gp 0.1 true
run --gpu
run --gpu -- true
run --gpu= true
run --gpu 0 true
run --gpu -1 true
run --gpu 1.5 true
run --gpu 0.3001 true
run --gpu 1e-1 true
run --gpu 200000 true
run --gpu 4 --count 2 true
run --image a:1 --pull always --user u --workdir /w --env A=b --registry-auth f --volume /a:/b true
run --volume /a:/b true
submit --image a.yaml --pull never --user u --workdir /w --env A=b --registry-auth f --volume /a:/b true
run --memory 1GiB true
run --gpu 1 --memory 8 true
run --gpu 1 --memory 8G true
run --gpu 1 --memory 0GiB true
run --gpu 1 --memory '8 GiB' true
run --gpu 1 --memory 8GiBs true
run --gpu 1 --memory 2000000TiB true
run --gpu 1 --memory .5GiB true
run --count 0 true
run --count 100001 true
run --count +1 true
run --sharing none true
run --policy fgd true
run --sharing= true
run --label rack true
run --label =r1 true
run --name -x true
run --name a/b true
run --name j-4k9x2m7q8w true
run --tenant= true
run --project é true
run --priority -5 true
run --priority +5 true
run --priority 'very high' true
run --max-time 90 true
run --max-time 0s true
run --max-time '1h 30m' true
run --max-time 99999999w true
run --cpus 4 true
run --host-memory 8GiB true
run --topology nvlink,preferred true
run --profile 1g.18gb true
submit --profile 3g.71gb --count 2 true
run --preemptible true
run --requeue true
run --reservation night true
submit --gang 4 --gang-min 2 --topology rack true
submit --cpus 0.5 --host-memory 1GiB --preemptible --requeue --reservation night true
submit --gang-file no-such.yaml true
run --no-wait=yes true
run -q=1 true
run -qv true
run --array 3 true
run -o json true
submit -q true
submit --array 0 true
submit --array 1000001 true
submit -o yaml true
submit -o=json true
submit -ojson true
submit -o= true
run no-such-command-xyz
run ./python
run ''
run /etc
run /etc/passwd
--state-dir
--no-colour run true
-q run true
--state-dir nowhere run true
run --state-dir //double/slash true
"""


@pytest.mark.parametrize(
    "words", ["", "run --name 'a\nb' true", *LEFT_TO_PYTHON.strip().splitlines()]
)
def test_anything_else_is_left_to_python_before_anything_is_sent(
    programs: Programs, words: str
) -> None:
    done = programs.run(programs.front, words, DONE)
    assert (done.code, done.asked) == (FELL_BACK, [])
    assert done.out.decode().rstrip("\n") == f"fell back: {' '.join(shlex.split(words))}".rstrip(
        "\n"
    )


def test_words_or_surroundings_that_are_no_utf_8_are_left_to_python(programs: Programs) -> None:
    odd = os.fsdecode(b"\xff")
    here = programs.environment
    for words, environment in (
        (["run", "true", odd], here),
        (["run", "--model", odd, "true"], here),
        (["run", "--label", f"a={odd}", "true"], here),
        (["run", "true", os.fsdecode(b"\xed\xa0\x80")], here),
        (["run", "true"], here | {"X": odd}),
        (["run", "true"], here | {odd: "x"}),
        (["run", "true"], here | {"GPUPOOL_STATE_DIR": "", "GPUPOOL_URL": "http://127.0.0.1:1"}),
    ):
        done = programs.run(programs.front, words, DONE, env=environment)
        assert (done.code, done.asked) == (FELL_BACK, []), (words, environment)


def test_an_environment_that_readers_read_differently_is_left_to_python(
    programs: Programs, tmp_path: Path
) -> None:
    # Only execve itself can give a name twice, or none.
    code = (
        "import ctypes, sys\n"
        "words = ctypes.c_char_p * 3\n"
        "argv = words(sys.argv[1].encode(), b'run', b'true')\n"
        "argv = (ctypes.c_char_p * 4)(*argv, None)\n"
        "env = [b'PATH=/bin:/usr/bin', b'HOME=/', b'GPUPOOL_STATE_DIR=pool', *[w.encode() for w in sys.argv[2:]]]\n"
        "ctypes.CDLL(None).execve(argv[0], argv, (ctypes.c_char_p * (len(env) + 1))(*env, None))\n"
    )
    for odd, expected in (
        (["A=1", "A=2"], FELL_BACK),
        (["=1"], FELL_BACK),
        (["A"], FELL_BACK),
        (["A=1", "AB=2"], 0),
    ):
        programs.pool.play(DONE)
        done = subprocess.run(
            [sys.executable, "-c", code, str(programs.front), *odd],
            cwd=tmp_path,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode, len(programs.pool.asked)) == (expected, expected == 0), odd


def test_a_saved_login_is_left_to_python(programs: Programs, tmp_path: Path) -> None:
    environment = {
        name: value for name, value in programs.environment.items() if name != "GPUPOOL_STATE_DIR"
    }
    (tmp_path / ".config" / "gpupool").mkdir(parents=True)
    (tmp_path / ".config" / "gpupool" / "login.json").write_text("{}")
    done = programs.run(programs.front, "run true", DONE, env=environment)
    assert (done.code, done.asked) == (FELL_BACK, [])


def test_a_directory_that_is_gone_is_left_to_python(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    environment = programs.environment | {"GPUPOOL_STATE_DIR": str(tmp_path / "pool")}
    words = ["-c", 'cd gone && rmdir ../gone && exec "$0" run true', str(programs.front)]
    assert programs.run(Path("/bin/sh"), words, DONE, env=environment).code == FELL_BACK


def test_closed_descriptors_are_left_to_python(programs: Programs) -> None:
    for closed in ("0<&-", "1>&-", "2>&-"):
        words = ["-c", f'exec "$0" run true {closed}', str(programs.front)]
        assert programs.run(Path("/bin/sh"), words, DONE).code == FELL_BACK


def test_an_installation_without_its_python_part_says_so(
    programs: Programs, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "gpupool").write_bytes(programs.front.read_bytes())
    (alone / "gpupool").chmod(0o755)
    done = programs.run(alone / "gpupool", "ps", DONE)
    assert done.code == 7
    assert done.err.startswith(b"gpupool: GP-5009: this installation is not whole")
    (alone / "gpupool-cli").symlink_to("gpupool")  # itself: it must not start itself for ever
    assert programs.run(alone / "gpupool", "ps", DONE).code == 7


@pytest.mark.parametrize("closed", ["interpreter", "command"])
def test_an_interpreter_that_the_account_may_not_run_is_said(
    programs: Programs, tmp_path: Path, closed: str
) -> None:
    """The installation is whole: to install it again would change nothing."""
    (tmp_path / "gpupool").write_bytes(programs.front.read_bytes())
    (tmp_path / "gpupool").chmod(0o755)
    interpreter, command = tmp_path / "python", tmp_path / "gpupool-cli"
    interpreter.write_bytes(Path("/bin/true").read_bytes())
    interpreter.chmod(0o644 if closed == "interpreter" else 0o755)
    command.write_text(f"#!{interpreter}\n")
    command.chmod(0o644 if closed == "command" else 0o755)
    done = programs.run(tmp_path / "gpupool", "ps", DONE)
    assert done.code == 7
    assert done.err.startswith(b"gpupool: GP-5009: this account may not run the Python")
    assert b"pip install" not in done.err
    for one in (interpreter, command):
        one.chmod(0o755)
    assert programs.run(tmp_path / "gpupool", "ps", DONE).code == 0


def test_python_beside_a_link_to_the_front_door_is_found(
    programs: Programs, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "store"
    elsewhere.mkdir()
    (elsewhere / "gpupool").write_bytes(programs.front.read_bytes())
    (elsewhere / "gpupool").chmod(0o755)
    (tmp_path / "gpupool").symlink_to(elsewhere / "gpupool")
    (tmp_path / "gpupool-cli").symlink_to(programs.front.parent / "gpupool-cli")
    assert programs.run(tmp_path / "gpupool", "ps", DONE).code == FELL_BACK


def test_a_state_directory_with_a_long_name_is_reached(programs: Programs, tmp_path: Path) -> None:
    far = tmp_path / ("d" * 120)
    pool = FakePool(far)
    programs.pool, before = pool, programs.pool
    try:
        assert programs.both(["run", "--state-dir", str(far), "true"], DONE).code == 0
    finally:
        programs.pool = before
        pool.close()


ENDS = [
    ended(),
    ended("failed", 3),
    ended("failed", None, signal=9, reason="killed by signal 9"),
    ended("failed", None, reason="the program could not be started: x"),
    ended("stopped", None, signal=15, reason="max time of 2 s is over"),
    ended("stopped", 0, reason=""),
    ended("lost", None, reason="its node went away"),
    ended("done", 0, ended_ns=10**18 + 59 * 10**9),
    ended("done", 0, ended_ns=10**18 + 200_000 * 10**9),
    ended("done", 0, ended_ns=10**18 - 1),
    ended("done", 0, started_ns=None),
]


@pytest.mark.parametrize("how", ["", "-q", "-v"])
@pytest.mark.parametrize("number", range(len(ENDS)))
def test_every_end_is_told_in_the_same_words_with_the_same_code(
    programs: Programs, number: int, how: str
) -> None:
    programs.both(f"run {how} true", http(first(ENDS[number])))


@pytest.mark.parametrize("how", ["", "-q", "-v"])
def test_waiting_is_told_in_the_same_words_and_once(programs: Programs, how: str) -> None:
    reason = "0 of 1 cards have 0.10 GPU free · é"
    # Only -v asks what would help, once for each reason.
    hints = [http({"hints": ["ask for 0.05 GPU · é", "wait"], "ahead": 1}, 200)] * (how == "-v")
    ended_before = [problem("GP-3000", 404)] * (how == "-v")
    done = programs.both(
        f"run {how} true",
        http(first(job(state="pending"))),
        http(job(reason=reason, generation=4), 200),
        *hints,
        http(job(reason=reason, generation=5), 200),
        http(job(reason="another", generation=6), 200),
        *ended_before,
        http(job(state="starting", generation=7), 200),
        http(ended(generation=8), 200),
    )
    assert done.err.decode().count("waits:") == (0 if how == "-q" else 2)
    assert ("gpupool: ask for 0.05 GPU · é\ngpupool: wait\n" in done.err.decode()) is bool(hints)
    assert (
        done.asked[1].line
        == "GET /api/v1/jobs/j-4k9x2m7q8w?generation=3&wait_seconds=2.0&lease=true"
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("code", [*list_error_classes(), "GP-9999"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_every_problem_reads_the_same_and_ends_with_the_same_code(
    programs: Programs, command: str, code: str
) -> None:
    answer = problem(code, hint="do this\n\n  \nor that")
    if code == TooManyCards.code:
        # Python decides whether it asks for the gang that this refusal may offer.
        done = programs.run(programs.front, f"{command} true", answer)
        assert (done.code, len(done.asked), done.err) == (FELL_BACK, 1, b"")
        return
    programs.both(f"{command} true", answer)


def test_more_cards_than_a_node_has_are_requested_as_a_gang(programs: Programs) -> None:
    refused = problem("GP-2004", gang={"members": 2, "count": 8})
    gang = http(first(job(name="true.0", attached=False), "true", 2))
    done = programs.run(programs.python, "submit --gpu 16 true", refused, gang)
    assert (done.code, done.out) == (0, b"true\n")
    assert b"16 cards are more than a node has: requested as a gang of 2 members of 8" in done.err
    body = json.loads(done.asked[1].body)
    assert body["gang"]["parts"] == [{"name": "member", "count": 2}]
    assert (body["shape"]["count"], body["attached"]) == (8, False)
    for words in ("submit --gpu 16 -o json true", "submit --gpu 16 --no-gang true"):
        done = programs.run(programs.python, words, refused)
        assert (done.code, len(done.asked)) == (3, 1)
    # A program that reads JSON gets the refusal, also from the front door.
    programs.both("submit --gpu 16 -o json true", refused)


def test_what_cannot_be_printed_is_escaped_as_python_escapes_it(programs: Programs) -> None:
    odd = "".join(
        sign
        for sign in map(chr, [*range(0x3100), *range(0xE000, 0x110000, 7), *range(0xFE00, 0x10000)])
        if unicodedata.category(sign) not in ("Cn", "Cs")
    )
    programs.both("submit true", problem("GP-2000", detail=odd, hint=odd))
    for detail in ("", "\n", "a\n\nb\n", "a\r\nb\rc\u2028d\x85e\x0bf"):
        programs.both("submit true", problem("GP-2000", detail=detail, hint=detail))


def test_broken_answers_read_the_same(programs: Programs) -> None:
    for answer in (
        b"garbage\r\n\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        http(b"{}{}", 201),
        http(b"\xff\xfe", 409),
        http(b'{"detail": "x"}', 409, "application/problem+json"),
        http(b"<html>", 502, "text/html"),
        http(b"", 500, "text/html"),
        http(b'{"count": 1}', 201),
        http(b'{"code": "GP-2001"}', 409, "application/problem+json"),
    ):
        done = programs.both("submit true", answer)
        assert done.code in (1, 3, 7), answer


def test_an_answer_that_is_no_json_is_a_pool_that_stopped_answering(programs: Programs) -> None:
    broken = (
        b"{",
        b'{"first": "\x01"}',
        b'{"first": {}',
        b'["]',
        b'{"a": 01}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
    )
    for body in broken:
        for status in (201, 409):
            done = programs.run(programs.front, "submit true", http(body, status))
            assert done.code == 7
            assert done.err.endswith(b"answered with broken JSON\n  gpupool doctor\n"), body


def test_answers_in_chunks_or_on_a_connection_that_closes_are_understood(
    programs: Programs,
) -> None:
    assert programs.both("submit true", chunked(first(job()))).out == b"j-4k9x2m7q8w\n"
    closing = http(first(job()), extra="Connection: close\r\n")
    assert programs.both("submit true", closing).code == 0
    waiting = http(first(job()), extra="Connection: close\r\n")
    assert len(programs.both("run true", waiting, http(ended(generation=4), 200)).asked) == 2
    to_the_end = b"HTTP/1.1 201 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    assert programs.both("submit true", to_the_end + json.dumps(first(job())).encode()).code == 0


def test_a_submission_whose_answer_was_lost_is_repeated_once_with_its_key(
    programs: Programs,
) -> None:
    done = programs.both("submit true", HANG_UP, SUBMITTED)
    assert done.code == 0
    assert [asked.head for asked in done.asked[:1]] == [asked.head for asked in done.asked[1:]]
    assert programs.both("submit true", HANG_UP).code == 7


def test_a_pool_that_vanishes_under_a_submission_is_told_the_same(
    programs: Programs, tmp_path: Path
) -> None:
    def vanish() -> bytes:
        programs.pool.go_away()
        return HANG_UP

    for words in ("submit true", "--state-dir \"it's/../it's here\" submit true"):
        if "here" in words:
            (tmp_path / "it's here").symlink_to("pool")
        outcomes = []
        for program in (programs.python, programs.front):
            outcomes.append(programs.run(program, words, vanish))
            programs.pool.listen()
        assert outcomes[0] == outcomes[1]
        assert b"GP-5001" in outcomes[0].err


def test_a_pool_that_restarts_while_a_job_waits_is_waited_for(programs: Programs) -> None:
    def vanish() -> bytes:
        programs.pool.go_away()
        return HANG_UP

    outcomes = []
    for program in (programs.python, programs.front):
        programs.pool.play(http(first(job())), vanish, http(ended(generation=9), 200))
        process = programs.start(program, "run -v true")
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        assert b"the pool does not answer" in said[0]
        programs.pool.listen()
        out, err = process.communicate(timeout=20)
        outcomes.append((process.returncode, out, said, err))
        assert b"the pool is back" in err
    assert outcomes[0] == outcomes[1]


def test_a_pool_that_answers_unavailable_while_a_job_waits_is_asked_again(
    programs: Programs,
) -> None:
    away = problem("GP-5000", 503)
    done = programs.both(
        "run -v true", http(first(job())), away, away, http(ended(generation=9), 200)
    )
    assert done.code == 0
    assert programs.both("run -v true", http(first(job())), problem("GP-3003", 404)).code == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_job_waits_stops_the_job(
    programs: Programs, number: signal.Signals
) -> None:
    def interrupt() -> bytes:
        programs.send(number)
        with contextlib.suppress(AssertionError):
            programs.pool.await_asked(3)
        return HANG_UP

    outcomes = []
    for program in (programs.python, programs.front):
        ready = http(first(job()))
        stopped = http([ended("stopped", None, signal=15)], 200)
        programs.pool.play(ready, interrupt, stopped, http(ended("stopped", None, signal=15), 200))
        process = programs.start(program, "run true")
        out, err = process.communicate(timeout=20)
        outcomes.append(
            (
                process.returncode,
                out,
                err,
                [(one.line, one.body) for one in programs.pool.asked[2:]],
            )
        )
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 130
    assert outcomes[0][3][0] == ("POST /api/v1/jobs/j-4k9x2m7q8w/stop", b"{}")


def test_a_signal_before_the_pool_has_answered_stops_the_job_too(programs: Programs) -> None:
    def interrupt() -> bytes:
        programs.send(signal.SIGINT)
        programs.pool.await_asked(2)
        return HANG_UP

    outcomes = []
    for program in (programs.python, programs.front):
        programs.pool.play(
            interrupt,
            http(first(job())),
            http([], 200),
            http(ended("stopped", None, signal=15), 200),
        )
        process = programs.start(program, "run true")
        process.communicate(timeout=20)
        outcomes.append((process.returncode, [(one.head, one.body) for one in programs.pool.asked]))
    assert outcomes[0] == outcomes[1]
    assert [head.split(" HTTP")[0] for head, _ in outcomes[1][1]][1:3] == [
        "POST /api/v1/jobs",
        "POST /api/v1/jobs/j-4k9x2m7q8w/stop",
    ]


def test_a_signal_that_was_ignored_stays_ignored(programs: Programs) -> None:
    def hang_up_on_it() -> bytes:
        programs.send(signal.SIGHUP)
        return http(ended(generation=4), 200)

    programs.pool.play(http(first(job())), hang_up_on_it)
    process = programs.start(Path("/usr/bin/nohup"), [str(programs.front), "run", "true"])
    process.communicate(timeout=20)
    assert (process.returncode, len(programs.pool.asked)) == (0, 2)


def test_a_reader_that_has_gone_is_no_error_and_a_full_disk_is_one(programs: Programs) -> None:
    for words in ("submit true", "submit -o json true"):
        read, write = os.pipe()
        os.close(read)
        try:
            assert programs.both(words, SUBMITTED, stdout=write).code == 141
        finally:
            os.close(write)
        with open("/dev/full", "wb") as full:
            assert b"No space left" in programs.both(words, SUBMITTED, stdout=full).err


def test_a_large_command_line_is_sent_whole(programs: Programs) -> None:
    words = ["submit", "true", *(["é" * 30_000] * 20)]
    done = programs.both(words, SUBMITTED)
    assert len(json.loads(done.asked[0].body)["launch"]["argv"]) == 21


def test_output_on_a_terminal_is_the_same(programs: Programs) -> None:
    seats = [
        {"device": f"node-1:{n}", "uuid": "x", "model": "H200", "gpu_milli": 100, "memory_bytes": 1}
        for n in (0, 3)
    ]
    granted = job(state="starting", seats=seats, simulated=True, attach_socket="/nowhere/sock")
    outcomes = []
    for program in (programs.python, programs.front):
        shown = []
        for words, answers in (
            ("submit true", [SUBMITTED]),
            ("submit --array 3 true", [http(first(job(), "sweep", 3))]),
            ("run true", [http(first(granted)), http(ended("failed", 4, generation=9), 200)]),
        ):
            master, slave = os.openpty()
            programs.pool.play(*answers)
            process = programs.start(program, words, stderr=slave)
            out, _ = process.communicate(timeout=20)
            os.close(slave)
            said = b""
            with contextlib.suppress(OSError):
                while piece := os.read(master, 65536):
                    said += piece
            os.close(master)
            shown.append((process.returncode, out, said))
        outcomes.append(shown)
    assert outcomes[0] == outcomes[1]
    assert "on node-1:0, node-1:3 (H200, SIMULATED) · fence: none" in outcomes[1][2][2].decode()


def test_a_terminal_for_the_job_is_left_to_python(programs: Programs) -> None:
    master, slave = os.openpty()
    programs.pool.play(DONE)
    process = programs.start(
        programs.front, "run true", stdin=slave, stdout=slave, stderr=subprocess.PIPE
    )
    process.communicate(timeout=20)
    os.close(master)
    os.close(slave)
    assert (process.returncode, programs.pool.asked) == (FELL_BACK, [])
