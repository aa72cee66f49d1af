"""A row of `gpupool doctor`: what was looked at, how it is, what was found, what to do next."""

from __future__ import annotations

OK, WARN, FAIL = "ok", "warn", "fail"

Check = dict[str, str]


def check(name: str, state: str, said: str, following: str = "") -> Check:
    return {"name": name, "state": state, "text": said, "next": following}
