"""What must hold of a pool after any kills, read from the database file, the machine and the jobs'
own lines.

Each check returns sentences; none is the good answer. `books` may be asked at any instant, the
others of a pool in which nothing is live any more.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from gpupool.model.partition import PartitionSlot, is_valid_set, read_partition_slots, read_profiles
from tests.faults.load import FAIL_CODE, Intent, Truth
from tests.faults.pool import FaultPool
from tests.faults.scheduling_invariants import LIVE, promises

NS = 10**9
MIB = 1 << 20


NOT_STARTED = 126
"""Exit code of a job whose command its supervisor could not start."""


def books(pool: FaultPool) -> list[str]:
    """Sums, holdings, intervals and events, at one instant."""
    with pool.database() as connection:
        return [
            *_cards_add_up(connection),
            *_pieces_are_those_of_seats(connection),
            *_tenants_add_up(connection),
            *_hosts_add_up(connection),
            *promises(connection),
            *_every_job_holds_what_it_should(connection),
            *_intervals_match_allocations(connection),
            *_strays(connection),
            *_no_second_is_sold_twice(connection),
            *_events_are_gapless(connection),
        ]


def _cards_add_up(db: sqlite3.Connection) -> Iterator[str]:
    rows = db.execute(
        "SELECT d.uuid, d.used_milli, d.used_bytes, d.shares, coalesce(sum(h.gpu_milli), 0) milli,"
        " coalesce(sum(h.memory_bytes), 0) bytes, count(h.gpu_milli) seats FROM devices d LEFT JOIN"
        " (SELECT s.* FROM seats s JOIN allocations a ON a.id = s.allocation_id WHERE a.state <> 'released') h"
        " ON h.device_id = d.id GROUP BY d.id"
    )
    for row in rows:
        says, is_ = (
            (row["used_milli"], row["used_bytes"], row["shares"]),
            (row["milli"], row["bytes"], row["seats"]),
        )
        if says != is_:
            yield f"card {row['uuid']} says {says}, its seats add up to {is_}"


def _pieces_are_those_of_seats(db: sqlite3.Connection) -> Iterator[str]:
    """What a card in partition mode says is cut of it is what seats hold, and can stand
    together."""
    held: dict[int, list[PartitionSlot]] = defaultdict(list)
    for row in db.execute(
        "SELECT s.device_id, s.start, s.size, s.profile FROM seats s JOIN allocations a ON a.id = s.allocation_id"
        " WHERE a.state <> 'released' AND s.profile IS NOT NULL"
    ):
        held[row["device_id"]].append(PartitionSlot(row["start"], row["size"], row["profile"]))
    for row in db.execute("SELECT id, uuid, pieces, facts FROM devices"):
        says, is_ = (
            read_partition_slots(json.loads(row["pieces"] or "null")),
            tuple(sorted(held[row["id"]])),
        )
        if says != is_:
            yield f"card {row['uuid']} says {says}, its seats are {is_}"
        if not is_valid_set(read_profiles(json.loads(row["facts"]).get("profiles", ())), is_):
            yield f"card {row['uuid']} cannot be cut into {is_}"


def _tenants_add_up(db: sqlite3.Connection) -> Iterator[str]:
    rows = db.execute(
        "SELECT t.name, t.held_milli, t.held_memory_bytes, coalesce(sum(h.gpu_milli), 0) milli,"
        " coalesce(sum(h.memory_bytes), 0) bytes FROM tenants t LEFT JOIN"
        " (SELECT j.tenant_id, s.* FROM seats s JOIN allocations a ON a.id = s.allocation_id"
        "  JOIN jobs j ON j.id = a.job_id WHERE a.state <> 'released') h ON h.tenant_id = t.id GROUP BY t.id"
    )
    for row in rows:
        says, is_ = (row["held_milli"], row["held_memory_bytes"]), (row["milli"], row["bytes"])
        if says != is_:
            yield f"tenant {row['name']} says {says}, its seats add up to {is_}"


def _hosts_add_up(db: sqlite3.Connection) -> Iterator[str]:
    rows = db.execute(
        "SELECT n.name, n.used_cpu_milli, n.used_host_bytes, coalesce(sum(a.cpu_milli), 0) cpu,"
        " coalesce(sum(a.host_bytes), 0) bytes FROM nodes n LEFT JOIN allocations a ON a.node_id = n.id"
        " AND a.state <> 'released' GROUP BY n.id"
    )
    for row in rows:
        says, is_ = (row["used_cpu_milli"], row["used_host_bytes"]), (row["cpu"], row["bytes"])
        if says != is_:
            yield f"node {row['name']} says {says} of its processors and memory, its allocations add up to {is_}"


def _every_job_holds_what_it_should(db: sqlite3.Connection) -> Iterator[str]:
    rows = db.execute(
        "SELECT j.public_id, j.state, j.gang_id, j.array_id, sum(a.state <> 'released') held, count(a.id) ever,"
        " c.cards, (SELECT count(*) FROM launches l WHERE l.job_id = j.id) launches"
        " FROM jobs j JOIN claims c ON c.id = j.claim_id LEFT JOIN allocations a ON a.job_id = j.id GROUP BY j.id"
    ).fetchall()
    told = _events_by_job(db, "job.placed", "job.ended")
    for row in rows:
        live, holds = row["state"] in LIVE, row["held"] or 0
        name = f"job {row['public_id']} ({row['state']})"
        if holds != (1 if row["state"] in ("starting", "running") else 0):
            yield f"{name} holds {holds} allocations"
        placed, ended = told["job.placed"][row["public_id"]], told["job.ended"][row["public_id"]]
        if ended != (0 if live else 1):
            yield f"{name} has {ended} events of its end"
        if placed != row["ever"]:
            yield f"{name} was placed {placed} times and had {row['ever']} allocations"
        shared = row["gang_id"] is not None or row["array_id"] is not None
        if row["launches"] != (1 if live and not shared else 0):
            yield f"{name} has {row['launches']} descriptions of its start"
    yield from _shared_launches(db)


def _shared_launches(db: sqlite3.Connection) -> Iterator[str]:
    """An array or a gang keeps how to start its members as long as one of them is live or still to
    be made."""
    rows = db.execute(
        "SELECT public_id, launch IS NOT NULL kept, stopped_ns IS NULL AND made < size rest,"
        f" (SELECT count(*) FROM jobs WHERE array_id = arrays.id AND state IN {LIVE}) live FROM arrays UNION ALL"
        " SELECT public_id, launch IS NOT NULL, 0,"
        f" (SELECT count(*) FROM jobs WHERE gang_id = gangs.id AND state IN {LIVE}) FROM gangs"
    )
    for row in rows.fetchall():
        if bool(row["kept"]) != bool(row["rest"] or row["live"]):
            yield f"{row['public_id']} keeps {row['kept']} launches with {row['live']} live members, rest {row['rest']}"


def _events_by_job(db: sqlite3.Connection, *kinds: str) -> dict[str, Counter[str]]:
    """Events have no index by subject: they are read once, and not once for each job."""
    return {
        kind: Counter(
            row[0] for row in db.execute("SELECT subject FROM events WHERE kind = ?", (kind,))
        )
        for kind in kinds
    }


def _intervals_match_allocations(db: sqlite3.Connection) -> Iterator[str]:
    """Each seat is counted from its grant to its end without a gap, its last part as it is now.

    A size that it got in the very second of its end was held for no whole second.
    """
    query = "SELECT subject, at_ns FROM events WHERE kind = 'job.resized'"
    resized = {(row["subject"], row["at_ns"] // NS) for row in db.execute(query)}
    rows = db.execute(
        "SELECT a.public_id, a.state, a.granted_ns, a.released_ns, s.gpu_milli, s.memory_bytes, i.start_s,"
        " i.end_s, i.gpu_milli held, i.memory_mib, i.id, s.device_id, a.id allocation, j.public_id job FROM seats s"
        " JOIN allocations a ON a.id = s.allocation_id JOIN jobs j ON j.id = a.job_id"
        " LEFT JOIN intervals i ON i.allocation_id = a.id AND i.device_id = s.device_id"
        " ORDER BY a.id, s.device_id, i.start_s"
    ).fetchall()
    for _, found in groupby(rows, key=lambda row: (row["allocation"], row["device_id"])):
        yield from _parts_of_a_seat(list(found), resized)


def _parts_of_a_seat(parts: list[Any], resized: set[tuple[str, int]]) -> Iterator[str]:
    first, last = parts[0], parts[-1]
    start = first["granted_ns"] // NS
    end = None if first["state"] != "released" else first["released_ns"] // NS
    if end == start and first["id"] is None:
        return  # held for no whole second
    name = f"allocation {first['public_id']} ({first['state']})"
    wanted = (start, end, last["gpu_milli"], last["memory_bytes"] // MIB)
    told = (first["start_s"], last["end_s"], last["held"], last["memory_mib"])
    at_its_end = wanted[:2] == told[:2] and (first["job"], end) in resized
    if wanted != told and not at_its_end:
        yield f"{name} should count {wanted}, the ledger has {told}"
    for one, other in pairwise(parts):
        if one["end_s"] != other["start_s"]:
            yield f"{name}: a part ends at {one['end_s']}, the next begins at {other['start_s']}"


def _strays(db: sqlite3.Connection) -> Iterator[str]:
    seats = db.execute("SELECT count(*) FROM seats").fetchone()[0]
    strays = db.execute(
        "SELECT count(*) FROM intervals i LEFT JOIN seats s ON s.allocation_id = i.allocation_id"
        " AND s.device_id = i.device_id WHERE s.allocation_id IS NULL"
    ).fetchone()[0]
    if strays:
        yield f"{strays} intervals belong to none of {seats} seats"


def _no_second_is_sold_twice(db: sqlite3.Connection) -> Iterator[str]:
    memory = {
        row["id"]: row["memory_bytes"] // MIB
        for row in db.execute("SELECT id, memory_bytes FROM devices")
    }
    changes: dict[int, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in db.execute("SELECT * FROM intervals"):
        card = changes[row["device_id"]]
        card[row["start_s"]].update(milli=row["gpu_milli"], mib=row["memory_mib"])
        if row["end_s"] is not None:
            card[row["end_s"]].subtract({"milli": row["gpu_milli"], "mib": row["memory_mib"]})
    for device, card in changes.items():
        held: Counter[str] = Counter()
        for second in sorted(card):
            held.update(card[second])
            if held["milli"] > 1000 or held["mib"] > memory[device] or min(held.values()) < 0:
                yield f"card {device} counts {dict(held)} in second {second}"
                break


def _events_are_gapless(db: sqlite3.Connection) -> Iterator[str]:
    count, first, last = db.execute("SELECT count(*), min(seq), max(seq) FROM events").fetchone()
    said = db.execute("SELECT event_seq FROM pool").fetchone()[0]
    if (count, first or 1, last or 0) != (said, 1, said):
        yield f"the event log has {count} events from {first} to {last}, the pool says {said}"


# Of a pool in which nothing is live -----------------------------------------------------------------------


def report_closes(report: dict[str, Any]) -> list[str]:
    """What `gpupool report -o json` says, in both columns."""
    wrong = []
    for row, total in (
        ("card_milliseconds", "capacity_card_milliseconds"),
        ("memory_mib_seconds", "capacity_memory_mib_seconds"),
    ):
        added = sum(line[row] for line in report["rows"])
        if added != report[total]:
            wrong.append(f"the report's {row} add up to {added} of {report[total]}")
        if any(line[row] < 0 for line in report["rows"]):
            wrong.append(f"the report has negative {row}")
    return wrong


def report_matches_intervals(pool: FaultPool, report: dict[str, Any]) -> list[str]:
    """Our own sum over the ledger against the report's rows of tenants."""
    sums = "sum((end_s - start_s) * gpu_milli), sum((end_s - start_s) * memory_mib)"
    ours = tuple(n or 0 for n in pool.rows(f"SELECT {sums} FROM intervals")[0])
    rows = [row for row in report["rows"] if row["kind"] == "tenant"]
    said = (
        sum(row["card_milliseconds"] for row in rows),
        sum(row["memory_mib_seconds"] for row in rows),
    )
    return [] if ours == said else [f"tenants held {ours} by the ledger, {said} by the report"]


def node_leftovers(pool: FaultPool) -> list[str]:
    """Everything on the machine that a pool without live jobs must not have."""
    names = ("allocation.json", "allocation.json.new", "spec", "spec.tmp", "sock")
    found = [
        f"{job.name}/{name} is left"
        for job in _directories(pool.paths.jobs)
        for name in names
        if (job / name).exists()
    ]
    found += [
        f"prepared/{path.name} is left" for path in _directories(pool.paths.agent / "prepared")
    ]
    return found + node_processes(pool) + [f"cgroup {path} is left" for path in pool.cgroups()]


def node_processes(pool: FaultPool) -> list[str]:
    """Processes of the pool's jobs, after a purge too."""
    found = [f"supervisor {one.pid} of {one.job} runs" for one in pool.supervisors()]
    return found + [
        f"process {pid} of job {job} runs" for pid, job in pool.job_processes().items() if job
    ]


def _directories(root: Path) -> list[Path]:
    return sorted(root.iterdir()) if root.is_dir() else []


def nothing_ran_twice(truth: Truth) -> list[str]:
    """By the lines that the commands wrote themselves."""
    wrong = []
    for path in sorted(truth.lines.iterdir()):
        kinds = [line[:1] for line in path.read_text().splitlines()]
        if kinds not in (
            [],
            ["s"],
            ["s", "e"],
        ):  # the first: killed between opening the file and writing
            wrong.append(f"job {path.name} wrote {kinds}")
    return wrong


def token_of(row: sqlite3.Row) -> str:
    """Which submission a job came from."""
    return str(json.loads(row["command"])[-1])


def states_are_true(pool: FaultPool, truth: Truth) -> list[str]:
    """Every job's state against what it wrote and what we did to it."""
    wrong = []
    for row in pool.rows("SELECT * FROM jobs"):
        intent = truth.intents[token_of(row)]
        lie = _lie(row, intent, truth)
        if lie:
            facts = f"exit_code={row['exit_code']} signal={row['signal']} reason={row['reason']!r}"
            wrong.append(
                f"job {row['public_id']} of kind {intent.kind} is {row['state']} ({facts}): {lie}"
            )
    return wrong


def _lie(row: sqlite3.Row, intent: Intent, truth: Truth) -> str:
    job, state, wrote = row["public_id"], row["state"], truth.lines_of(row["public_id"])
    supervisor_killed, killed = job in truth.killed_supervisors, job in truth.killed_jobs
    asked_to_stop = (
        job in truth.stopped_jobs or intent.stopped or (intent.attached and intent.client_gone)
    )
    touched = supervisor_killed or killed or asked_to_stop
    if state == "done" and (wrote != ["s", "e 0"] or row["exit_code"] != 0):
        return f"it wrote {wrote}"
    if (
        state == "failed"
        and row["reason"].startswith("exit code")
        and wrote[-1:] != [f"e {row['exit_code']}"]
    ):
        return f"it wrote {wrote}"
    if state == "lost" and not supervisor_killed:
        return "its supervisor was not killed"
    if state == "stopped" and not asked_to_stop:
        return "nobody asked for its end"
    # A command that has not been executed yet is a process of the supervisor's program.
    if row["signal"] == 9 and not (
        killed or supervisor_killed or asked_to_stop or intent.kind == "overtime"
    ):
        return "nobody killed it"
    if (
        state in ("done", "failed", "stopped")
        and supervisor_killed
        and wrote == ["s"]
        and row["exit_code"] == 0
    ):
        return "it never came to its end"
    if truth.shortages and state == "failed" and row["exit_code"] == NOT_STARTED and not wrote:
        return ""  # its supervisor lacked room or descriptors, and said that the command never ran
    if not touched:
        return _untouched(row, intent, wrote)
    return ""


def _untouched(row: sqlite3.Row, intent: Intent, wrote: list[str]) -> str:
    if intent.kind == "fail":
        wanted: tuple[Any, ...] = ("failed", FAIL_CODE, ["s", f"e {FAIL_CODE}"])
    elif intent.kind == "overtime":
        return (
            ""
            if row["state"] == "failed" and "max-time" in row["reason"]
            else "it exceeded its --max-time"
        )
    else:
        wanted = ("done", 0, ["s", "e 0"])
    found = (row["state"], row["exit_code"], wrote)
    return "" if found == wanted else f"it should be {wanted}, and wrote {wrote}"


def every_submission_once(pool: FaultPool, truth: Truth) -> list[str]:
    """As many jobs as were asked for: exactly where we had or awaited an answer, else all or
    none."""
    made: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    for row in pool.rows("SELECT public_id, command FROM jobs ORDER BY id"):
        token = token_of(row)
        made[token] += 1
        firsts.setdefault(token, row["public_id"])
    for row in pool.rows(
        "SELECT command, size - made AS given_up FROM arrays WHERE stopped_ns IS NOT NULL"
    ):
        made[token_of(row)] += row["given_up"]
    wrong = []
    for token, intent in truth.intents.items():
        allowed = {intent.count} if intent.certain or intent.first else {0, intent.count}
        if made[token] not in allowed:
            wrong.append(f"{token} asked for {intent.count} jobs and has {made[token]}")
        if intent.first and firsts.get(token) != intent.first:
            wrong.append(f"{token} was answered {intent.first} and is {firsts.get(token)}")
    return wrong


def watcher_saw_all(pool: FaultPool, seen: list[tuple[int, str, str]]) -> list[str]:
    """Every event once, in order, whatever happened to the connection."""
    wanted = [
        (row["seq"], row["kind"], row["subject"])
        for row in pool.rows("SELECT * FROM events ORDER BY seq")
    ]
    if seen == wanted:
        return []
    numbers = [seq for seq, _, _ in seen]
    twice = [seq for seq, times in Counter(numbers).items() if times > 1]
    missed = sorted({seq for seq, _, _ in wanted} - set(numbers))
    return [
        f"the watcher saw {len(seen)} of {len(wanted)} events; twice {twice[:5]}, missed {missed[:5]}"
    ]
