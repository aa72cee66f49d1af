"""A trace is read whole or refused with the line and the column."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB, MIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape, SharingKind
from gpupool.simulation.traces.trace import JobArrival, read_csv, write_csv

HEAD = "arrival_seconds,gpu_milli,seconds"


def refusal(text: str) -> BadTrace:
    with pytest.raises(BadTrace) as caught:
        read_csv("jobs.csv", text)
    return caught.value


def test_three_columns_are_enough() -> None:
    trace = read_csv("jobs.csv", f"{HEAD}\n1.5,300,60\n0,1000,0.25\n")
    assert trace.arrivals == (
        JobArrival("job-000001", 0, Shape(1000), NS // 4),
        JobArrival("job-000000", 3 * NS // 2, Shape(300), 60 * NS),
    )


def test_what_is_written_reads_back_as_it_was() -> None:
    shape = Shape(1000, 8 * GIB, 4, "H200|H100", cpu_milli=8000, host_bytes=512 * MIB)
    arrival = JobArrival("train", NS, shape, 90 * NS, "nlp", -100, 900, "big", 3, preemptible=True)
    text = write_csv(read_csv("a", f"{HEAD}\n0,1,1\n").__class__("a", (arrival,), {"nlp": 3}))
    again = read_csv("a", text)
    assert again.arrivals == (arrival,)
    assert again.weights == {"nlp": 3}


def test_a_tenant_is_the_owner_of_its_mps_shares() -> None:
    text = f"{HEAD},tenant,sharing\n0,300,60,nlp,mps\n0,300,60,nlp,\n"
    shapes = [arrival.shape for arrival in read_csv("jobs.csv", text).arrivals]
    assert shapes == [Shape(300, sharing=SharingKind.MPS, owner="nlp"), Shape(300)]


def test_missing_columns_are_named() -> None:
    error = refusal("arrival_seconds,cards\n1,1\n")
    assert error.message == "jobs.csv lacks the columns gpu_milli, seconds"
    assert error.code == "GP-1030"
    assert error.details["missing"] == ["gpu_milli", "seconds"]


@pytest.mark.parametrize(
    ("cells", "column", "says"),
    [
        ("0,-300,60", "gpu_milli", "-300 is not from 0 to 1000"),
        ("0,1001,60", "gpu_milli", "1001 is not from 0 to 1000"),
        ("0,many,60", "gpu_milli", "'many' is not a number"),
        ("0,0.5,60", "gpu_milli", "0.5 is not a whole number"),
        ("-1,300,60", "arrival_seconds", "-1 is not from 0 to 316224000"),
        ("nan,300,60", "arrival_seconds", "nan is not a whole number"),
        ("0,300,1e12", "seconds", "1e12 is not from 0 to 316224000"),
        ("0,300,", "seconds", "is empty"),
    ],
)
def test_a_wrong_value_is_told_with_its_line_and_column(cells: str, column: str, says: str) -> None:
    error = refusal(f"{HEAD}\n0,1000,1\n{cells}\n")
    assert error.message == f"jobs.csv, line 3, column {column}: {says}"
    assert (error.details["line"], error.details["column"]) == (3, column)


def test_lines_of_another_length_unknown_columns_and_no_lines_are_refused() -> None:
    assert refusal(f"{HEAD}\n1,2\n").message == "jobs.csv, line 2: 2 cells, the header has 3"
    assert (
        refusal(f"{HEAD},colour\n1,2,3,red\n").message == "jobs.csv has an unknown column 'colour'"
    )
    assert refusal(f"{HEAD}\n").message == "jobs.csv is empty: it has a header and no lines"
    assert refusal("").message.startswith("jobs.csv lacks the columns")


def test_a_tenant_has_one_weight_a_job_one_name_and_a_gang_one_arrival() -> None:
    assert (
        "tenant a has 2 here and 1 above"
        in refusal(f"{HEAD},tenant,weight\n0,1,1,a,1\n0,1,1,a,2\n").message
    )
    assert refusal(f"{HEAD},job\n0,1,1,x\n0,1,1,x\n").message == "jobs.csv: two jobs are named x"
    assert "roles of the gang g" in refusal(f"{HEAD},gang\n0,1000,1,g\n1,1000,1,g\n").message


def test_a_job_without_cards_asks_for_no_compute() -> None:
    assert read_csv("a", f"{HEAD},cpu_milli\n0,0,5,4000\n").arrivals[0].shape == Shape(
        0, None, 0, cpu_milli=4000
    )
    assert "300 on 0 cards" in refusal(f"{HEAD},cards\n0,300,1,0\n").message
