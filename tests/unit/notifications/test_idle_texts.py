"""Messages about idle jobs say what was kept, what comes next, and the command to come back."""

from __future__ import annotations

from gpupool.notifications.texts import write_sentence
from gpupool.notifications.topics import JOB_KINDS, Topic, list_kinds

WARNING = {
    "name": "nb",
    "act": "warn",
    "share": "0.50 GPU (50 % compute) + 8192 MiB",
    "idle_seconds": 3012,
    "next_act": "suspend",
    "next_seconds": 600,
    "command": "gpupool idle keep nb",
}


def test_a_warning_says_what_comes_and_when() -> None:
    assert write_sentence(Topic.JOB_IDLE, "j-1", WARNING, "en") == (
        "Job nb has not used its share (0.50 GPU (50 % compute) + 8192 MiB) for 50m; "
        "it is suspended in 10m. To stay: gpupool idle keep nb"
    )
    assert "10m后将挂起" in write_sentence(Topic.JOB_IDLE, "j-1", WARNING, "zh")


def test_a_stop_says_whether_the_work_is_saved() -> None:
    stop = {"name": "nb", "act": "stop", "idle_seconds": 7200, "command": "gpupool logs nb"}
    assert write_sentence(Topic.JOB_IDLE, "j-1", stop, "en") == (
        "Job nb was idle for 2h and is stopped. It never said that its work is saved. "
        "Its output: gpupool logs nb"
    )
    stop["saved_ns"] = 1_700_000_000 * 10**9
    assert "2023-11-14T22:13:20Z that its work is saved" in write_sentence(
        Topic.JOB_IDLE, "j-1", stop, "en"
    )


def test_names_of_tenants_are_no_format() -> None:
    data = WARNING | {"name": "{idle}", "share": "{name}"}
    assert "Job {idle} has not used its share ({name})" in write_sentence(
        Topic.JOB_IDLE, "j-1", data, "en"
    )


def test_users_hear_of_their_own_idle_jobs() -> None:
    assert {kind for kind in list_kinds(Topic) if kind.startswith("job.")} == JOB_KINDS
    assert "job.idle-stopped" in JOB_KINDS
