"""Texts of requests."""

from gpupool.client.messages import path_segment, request_message


def test_a_segment_of_a_path_stays_one_segment_whatever_it_holds() -> None:
    assert path_segment("../x?y#z%41\n") == "..%2Fx%3Fy%23z%2541%0A"
    assert (path_segment(".."), path_segment(".")) == ("%2E%2E", "%2E")


def test_a_query_repeats_the_name_of_a_list_and_omits_none() -> None:
    lines, payload = request_message(
        "GET", "jobs", None, {"state": ["a b", "c"], "all": True, "tenant": None}, None
    )
    assert (lines[1], payload) == ("/api/v1/jobs?state=a%20b&state=c&all=true", b"")
