"""Parts of one kind of a network for programs, as its load balancers or its routes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from gpupool.client.messages import path_segment
from gpupool.client.transport import Api
from gpupool.wire.common import WireModel

Shape = TypeVar("Shape", bound=WireModel)


class NetworkParts(Generic[Shape]):
    """Iterates over the parts of a kind, and creates and deletes them. Each use asks the pool."""

    def __init__(self, api: Api, path: str, shape: type[Shape], tenant: str | None = None) -> None:
        """Make the object; sends nothing.

        Args:
            path: of the list, relative to /api/v1.
            shape: of one part.
            tenant: the owner, where it is not the caller's.
        """
        self._api = api
        self._path = path
        self._shape = shape
        self._query: Mapping[str, Any] = {} if tenant is None else {"tenant": tenant}

    def __iter__(self) -> Iterator[Shape]:
        for item in self._api.request("GET", self._path, query=self._query):
            yield self._shape.model_validate(item)

    def create(self, **fields: Any) -> Shape:
        """Create a part once, however often the request has to be sent.

        Args:
            fields: as the REST API names them: those of the kind's `...In` in `gpupool.wire`.
        """
        made = self._api.request(
            "POST",
            self._path,
            fields,
            query=self._query,
            idempotency_key=os.urandom(16).hex(),
        )
        return self._shape.model_validate(made)

    def delete(self, *names: str) -> None:
        """Delete a part by its name or id; a DNS record by its name and its address."""
        path = "/".join((self._path, *map(path_segment, names)))
        self._api.request("DELETE", path, query=self._query)
