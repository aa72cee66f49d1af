"""An API server whose answers a test writes down beforehand."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.client.api import KubeApi

Object = dict[str, Any]
Answer = Object | Exception
CONFLICT = ApiServerRejection("changed meanwhile", status=409, reason="Conflict")
NOT_FOUND = ApiServerRejection("gone", status=404, reason="NotFound")
FORBIDDEN = ApiServerRejection("not allowed", status=403, reason="Forbidden")


class ScriptedApi(KubeApi):
    """Answers by method and path; of several answers the last one stays.

    `sent` are method, path and body of all requests, in order. A request without an answer here
    is answered with its own body, or with an empty object.
    """

    def __init__(
        self, answers: Mapping[tuple[str, str], Answer | Sequence[Answer]] | None = None
    ) -> None:
        self.requests = 0
        self.sent: list[tuple[str, str, Any]] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        for (method, path), answer in (answers or {}).items():
            self.answer_with(method, path, answer)

    def answer_with(self, method: str, path: str, answer: Answer | Sequence[Answer]) -> None:
        """Answer so from now on."""
        of_this = [answer] if isinstance(answer, dict | Exception) else list(answer)
        self._answers[method, path] = of_this

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Method and path of all requests."""
        return [(method, path) for method, path, _ in self.sent]

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> Object:
        self.sent.append((method, path, copy.deepcopy(body)))
        left = self._answers.get((method, path), [body if isinstance(body, dict) else {}])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return copy.deepcopy(answer)
