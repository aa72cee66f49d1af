"""MIG slots: refusals, fragmentation and time of a decision on eight cards, beside first fit and
fixed geometries; accepted claims of 10,000 random sequences, beside these and a published score;
create calls until a layout stands, beside trying every ordering."""

from pathlib import Path

from bench.mig_sequences import OURS, compare_rules
from bench.mig_streams import (
    FixedGeometries,
    LeastLoss,
    StreamResult,
    count_calls_of_orderings,
    count_calls_with_placement,
    list_mixes,
    place_first_fit,
    run_stream,
)
from bench.partition_life import MIXES
from bench.rows import Row

NAME = "mig"
COMMAND = "python -m bench mig"
SEEDS = range(42, 47)
SEQUENCES = 10_000
#: Microseconds of a decision: a scheduler's cycle makes thousands.
DECISION_LIMIT_US = 1000.0


def run(out: Path) -> list[Row]:
    rows = []
    for mix in MIXES:
        ours = [run_stream(mix, LeastLoss(mix), seed) for seed in SEEDS]
        first = [run_stream(mix, place_first_fit, seed) for seed in SEEDS]
        fixed = [run_stream(mix, FixedGeometries(), seed) for seed in SEEDS]
        rows.extend(_compare(mix, ours, first, "first fit: first card, lowest start"))
        rows.extend(_compare(mix, ours, fixed, "fixed geometries, as HAMi up to 2.9"))
        rows.append(_time_decisions(mix, ours))
    return [*rows, *_compare_sequences(), _count_calls()]


def _compare_sequences() -> list[Row]:
    """Return a row for the accepted claims and one for the fragmented, for each peer."""
    totals = compare_rules(SEQUENCES)
    ours = totals.pop(OURS)
    command = f"{COMMAND} (bench/mig_sequences.py)"
    found = []
    for name, peer in totals.items():
        losses = SEQUENCES - peer.wins - peer.ties
        found.append(
            Row(
                f"mig, {SEQUENCES:,} random sequences: claims that found a slot; peer {name}",
                "%",
                100 * ours.accepted / ours.claims,
                command,
                peer=100 * peer.accepted / peer.claims,
                peer_command=command,
                least_ratio=1.0,
                note=f"ours accepts more in {peer.wins:,} sequences, as many in {peer.ties:,}, fewer "
                f"in {losses:,}",
            )
        )
        found.append(
            Row(
                f"mig, {SEQUENCES:,} random sequences: claims without a slot beside enough free "
                f"compute; peer {name}",
                "%",
                100 * ours.fragmented / ours.claims,
                command,
                peer=100 * peer.fragmented / peer.claims,
                peer_command=command,
                limit_ratio=1.0,
            )
        )
    found.append(
        Row(
            f"mig, {SEQUENCES:,} random sequences: a decision among 4 cards, mean",
            "µs",
            ours.decision_us / ours.claims,
            command,
            limit=DECISION_LIMIT_US,
        )
    )
    return found


def _compare(mix: str, ours: list[StreamResult], peer: list[StreamResult], rule: str) -> list[Row]:
    note = f"8 H200, {len(ours)} seeds of {ours[0].claims} claims, 1.15 of the compute asked for"
    found = []
    for title, measure in (
        ("claims that found no slot", _measure_refused),
        ("claims without a slot beside enough free compute", _measure_fragmented),
    ):
        samples = tuple(measure(one) for one in ours)
        peer_samples = tuple(measure(one) for one in peer)
        found.append(
            Row(
                f"mig, {mix}: {title}; peer {rule.split(':')[0].split(',')[0]}",
                "%",
                sum(samples) / len(samples),
                COMMAND,
                peer=sum(peer_samples) / len(peer_samples),
                peer_command=f"{COMMAND} ({rule})",
                samples=samples,
                peer_samples=peer_samples,
                note=note,
            )
        )
    return found


def _measure_refused(one: StreamResult) -> float:
    return 100 * one.refused / one.claims


def _measure_fragmented(one: StreamResult) -> float:
    return 100 * one.fragmented / one.claims


def _time_decisions(mix: str, ours: list[StreamResult]) -> Row:
    times = sorted(sample for one in ours for sample in one.decision_us)
    return Row(
        f"mig, {mix}: a decision among 8 cards, mean",
        "µs",
        sum(times) / len(times),
        COMMAND,
        limit=DECISION_LIMIT_US,
        note=f"99 of 100 within {times[len(times) * 99 // 100]:.0f} µs, slowest {times[-1]:.0f} µs",
    )


def _count_calls() -> Row:
    mixes = [mix for mix in list_mixes() if mix]
    ours = [count_calls_with_placement(mix) for mix in mixes]
    peer = [count_calls_of_orderings(mix) for mix in mixes]
    return Row(
        "mig: create calls until a layout stands, all 77 mixes of an H200",
        "calls",
        sum(ours),
        COMMAND,
        peer=sum(peer),
        peer_command=f"{COMMAND} (every ordering without placement, as mig-parted)",
        limit_ratio=1.0,
        note=f"worst mix: ours {max(ours)}, every ordering {max(peer)}",
    )
