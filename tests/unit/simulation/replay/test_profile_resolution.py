"""Partitioned cards and claims to partitions in what a simulation is fed with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import BadTrace
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.simulation.replay.arrival_jobs import build_jobs
from gpupool.simulation.replay.fragments import select_untouched
from gpupool.simulation.replay.measure import classify_job
from gpupool.simulation.replay.pool_changes import alter_pool
from gpupool.simulation.replay.profile_resolution import resolve_trace
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.studies.study import StudyCase as StudyCase
from gpupool.simulation.studies.study import StudyQuestion, simulate_case
from gpupool.simulation.traces.nodes import read_nodes, read_table
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace
from gpupool.simulation.traces.trace import WorkloadTrace, read_csv, write_csv
from tests.support.partition_builders import asked, on, part, pool, with_jobs

HEADER = "arrival_seconds,gpu_milli,seconds,profile,cards,model\n"


def claims(*lines: str) -> WorkloadTrace:
    return read_csv("t.csv", HEADER + "\n".join(lines))


def test_a_table_may_say_that_a_nodes_cards_are_in_partition_mode() -> None:
    nodes = read_table("n.csv", "sn,gpu,model,partitioned\na,2,H200,1\nb,1,H200,\n")
    assert list(build_card_table(nodes).layouts) == [0, 1]
    with pytest.raises(
        BadTrace, match=r"line 2, column partitioned: what a T4 can be cut into is not known"
    ):
        read_table("n.csv", "sn,gpu,model,partitioned\na,2,T4,1\n")


def test_a_claim_names_a_profile_and_the_nodes_say_how_much_that_is() -> None:
    (one,) = resolve_trace(claims("0,,60,3g,2,"), read_nodes("2xH200:mig")).arrivals
    assert (one.shape.profile, one.shape.gpu_milli, one.shape.count) == ("3g.71gb", 428, 2)
    assert classify_job(next(iter(build_jobs((one,))))) == "partition"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "0,500,60,1g.18gb,,",
            "column gpu_milli: a partition (1g.18gb) has the size of its profile",
        ),
        ("0,,60,1g.18gb,0,", "column cards: 0 is not from 1 to 100000"),
    ],
)
def test_a_claim_that_says_more_than_its_profile_is_refused(line: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        claims(line)
    assert says in caught.value.message


def test_a_profile_that_no_node_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        BadTrace, match=r"no card can be cut into 5g; the nodes publish: 1g\.6gb, 1g\.6gb\+me, 2g"
    ):
        resolve_trace(claims("0,,60,5g,,"), read_nodes("1xA30:mig"))
    with pytest.raises(BadTrace, match=r"1g means 1g\.18gb \(142 milli\), 1g\.6gb \(250 milli\)"):
        resolve_trace(claims("0,,60,1g,,"), read_nodes("1xH200:mig,1xA30:mig"))


def test_what_is_written_down_is_read_back() -> None:
    trace = resolve_trace(
        claims("0,,60,1g.18gb,,H200", "1,500,60,,,"), read_nodes("1xH200:mig+1xH200")
    )
    again = read_csv("t.csv", write_csv(trace))
    assert [one.shape.profile for one in again.arrivals] == ["1g.18gb", None]
    plain = claims("1,500,60,,,")
    assert "profile" not in write_csv(plain).splitlines()[0]


def test_made_up_traces_ask_for_partitions_when_told_to() -> None:
    parameters = TraceParameters(share_pct=0, partition_pct=50, days=1, cards=2, cards_per_node=2)
    assert {one.shape.profile for one in generate_trace(parameters).arrivals} > {"1g", "2g"}
    question = StudyQuestion(
        read_nodes("1xH200:mig+1xH200"), ("default",), (1,), synthetic=parameters
    )
    figures = simulate_case(StudyCase(question, "default", 1), lambda _part: None).figures
    assert figures.waits["partition"].jobs > 0
    assert figures.waits["partition"].unstarted < figures.waits["partition"].jobs


def test_a_pool_that_loses_and_gains_nodes_keeps_its_partitions_true() -> None:
    cards = pool("1xH200,1xH200:mig", {"sim-1:0": [(0, "1g.18gb")]})
    before = with_jobs(cards, [on(cards, "a", "sim-1:0", 0, "1g.18gb")], asked("1g.18gb", "b"))
    after = alter_pool(before, read_nodes("1xH200:mig"), ["sim-0"]).snapshot
    assert {row: len(cut.slots) for row, cut in after.cards.layouts.items()} == {0: 1, 1: 0}
    assert after.running[0].rows == (0,)


def test_an_empty_partitioned_card_is_not_counted_as_a_free_whole_one() -> None:
    assert select_untouched(pool("1xH200:mig+1xH200")).tolist() == [False, True]


def test_placement_policies_are_not_told_of_partitions_that_are_expected() -> None:
    expected = ExpectedDemand((part("1g.18gb"), replace(part("1g.18gb"), profile=None)), (3.0, 2.0))
    assert expected.without_partitions.counts == (2.0,)
    plain = replace(expected, shapes=expected.shapes[1:], counts=(2.0,))
    assert plain.without_partitions is plain
