"""Describes what an advice policy did with a job's request, from columns of the joined rows."""

from __future__ import annotations

from typing import Any, Final

from gpupool.allocations.store.advice_rows import APPLIED, EXACT, LAPSED, PROPOSED, WAITS
from gpupool.allocations.store.advice_tables import advice_claims, advice_runs
from gpupool.base.units import format_gpu, format_mib
from gpupool.wire.rightsizing.policies import AdvisedShareOut

#: What a query of jobs selects, joined to both tables.
ADVICE_COLUMNS: Final = (
    advice_claims.c.state.label("advice_claim_state"),
    advice_claims.c.policy.label("advice_claim_policy"),
    advice_claims.c.asked_milli.label("advice_claim_asked_milli"),
    advice_claims.c.asked_bytes.label("advice_claim_asked_bytes"),
    advice_claims.c.gpu_milli.label("advice_claim_milli"),
    advice_claims.c.memory_bytes.label("advice_claim_bytes"),
    advice_runs.c.state.label("advice_run_state"),
    advice_runs.c.policy.label("advice_run_policy"),
    advice_runs.c.asked_milli.label("advice_run_asked_milli"),
    advice_runs.c.asked_bytes.label("advice_run_asked_bytes"),
    advice_runs.c.gpu_milli.label("advice_run_milli"),
    advice_runs.c.memory_bytes.label("advice_run_bytes"),
)


def describe_advised_share(row: Any) -> AdvisedShareOut | None:
    """Describe what the policies of a job did with its request; None: nothing."""
    kind = "claim" if row.advice_run_state in (None, LAPSED) else "run"
    state = getattr(row, f"advice_{kind}_state")
    if state is None:
        return None
    asked = _read_size(row, f"advice_{kind}_asked")
    given = _read_size(row, f"advice_{kind}")
    return AdvisedShareOut(
        state=state,
        policy=getattr(row, f"advice_{kind}_policy") or None,
        asked_milli=asked[0],
        asked_bytes=asked[1],
        gpu_milli=given[0],
        memory_bytes=given[1],
        text=_write_sentence(state, _format_size(*asked), _format_size(*given)),
    )


def _read_size(row: Any, prefix: str) -> tuple[int, int | None]:
    return getattr(row, f"{prefix}_milli"), getattr(row, f"{prefix}_bytes")


def _format_size(milli: int, memory: int | None) -> str:
    return f"{format_gpu(milli)} + {'its part' if memory is None else format_mib(memory)}"


def _write_sentence(state: str, asked: str, given: str) -> str:
    if state == EXACT:
        return f"asked exactly {asked}: no advice policy changes it"
    if state == PROPOSED:
        return f"asked {asked}; the advice policy proposes {given}"
    if state == APPLIED:
        return f"asked {asked}, runs with {given} by the advice policy; --exact refuses it"
    if state == WAITS:
        return f"asked {asked}; {given} by the advice policy was too little, it waits for room"
    return f"asked {asked} and has it again: {given} by the advice policy was too little"
