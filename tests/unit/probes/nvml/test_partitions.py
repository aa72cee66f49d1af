"""MIG profiles and partitions as the driver lists them."""

from typing import Any


def test_shapes_are_taken_from_the_card_and_not_from_a_table(pair: dict[str, Any]) -> None:
    shapes = {p["name"]: p for p in pair["devices"][0]["profiles"]}
    assert shapes["3g.71gb"]["starts"] == [0, 4]
    assert (shapes["3g.71gb"]["size"], shapes["3g.71gb"]["profile_id"]) == (4, 9)
    assert shapes["3g.71gb"]["gpu_milli"] == 428
    assert (shapes["1g.18gb+me"]["media"], shapes["1g.18gb"]["media"]) == (True, False)


def test_partitions_that_exist_are_seen_with_place_and_uuid(pair: dict[str, Any]) -> None:
    first, second, _ = pair["devices"]
    assert (first["partitioned"], second["partitioned"], second["partitions"]) == (True, False, [])
    (piece,) = first["partitions"]
    assert piece["slot"] == {"start": 4, "size": 4, "profile": "3g.71gb"}
    assert (piece["uuid"], piece["gpu_instance"]) == ("MIG-7f3c1d2e-0000-5000-8000-000000000001", 2)
