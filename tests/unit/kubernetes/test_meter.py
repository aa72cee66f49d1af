"""What a meter says of a ledger that is no more comes after all that was said of it before."""

from __future__ import annotations

from gpupool.kubernetes.meter import NS, Page, left_behind, statement
from gpupool.kubernetes.objects import GpuNode


def age(said: dict[str, int]) -> tuple[int, int]:
    """By which a server tells the newer of two statements."""
    return said["born_ns"], said["generation"]


def test_what_is_left_in_pages_is_newer_than_a_ledger_that_was_made_in_the_same_second() -> None:
    last = statement(GpuNode("n", version=900), 7 * NS, ())
    after = statement(*left_behind("n", [Page("/one", 5 * NS, []), Page("/two", 7 * NS, [])]), ())
    assert age(after) > age(last)
    assert age(after) < age(statement(GpuNode("n", version=1), 8 * NS, ())), "and older than a ledger that comes again"
