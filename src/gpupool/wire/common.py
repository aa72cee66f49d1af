"""Shapes shared by every resource: pages, problems, events."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class WireModel(BaseModel):
    """Base of every shape: unknown fields in a request are refused, not ignored."""

    # A misspelt field that was ignored would take effect as its default.
    model_config = ConfigDict(extra="forbid", use_enum_values=True)


class Page(WireModel, Generic[T]):
    """One page of a list. `next` goes into `?after=`; null on the last page."""

    items: list[T]
    next: str | None = None


class Problem(BaseModel):
    """RFC 9457 problem details; `code` is stable, `hint` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    numbers: dict[str, Any] = Field(default_factory=dict)


class Event(WireModel):
    """One line of the event log. `seq` has no gaps and orders events by commit."""

    seq: int
    at_ns: int
    kind: str
    subject: str
    tenant: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)


# 63 characters, as `base.ids.check_name`: the most that a label value of Kubernetes holds.
Name = Annotated[str, Field(min_length=1, max_length=63)]
#: Bound of integers in requests: everything below fits a signed 64-bit column.
BIG = 2**62
