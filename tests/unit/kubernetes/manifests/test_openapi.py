"""Definitions are written in the words that CustomResourceDefinitions take."""

from __future__ import annotations

from enum import StrEnum

from gpupool.kubernetes.manifests.openapi import (
    array_of,
    condition,
    definition,
    opaque,
    record,
    text,
    whole,
    words,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def test_definition_names_its_columns_and_rules_where_there_are_some() -> None:
    columns = (("Cards", "integer", ".status.cards", 0), ("Why", "string", ".status.why", 1))
    rule = {"rule": "self.spec.a > 0"}
    made = definition("Pool", "pools", ("pl",), record({}), record({}), columns, (rule,))
    (version,) = made["spec"]["versions"]
    assert version["additionalPrinterColumns"][1] == {
        "name": "Why",
        "type": "string",
        "jsonPath": ".status.why",
        "priority": 1,
    }
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] == [rule]
    assert made["metadata"]["name"] == "pools.gpupool.dev"
    plain = definition("Pool", "pools", (), record({}), record({}), ())
    schema = plain["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "x-kubernetes-validations" not in schema, "an empty list of rules is refused"


def test_record_without_required_fields_has_no_empty_list() -> None:
    assert "required" not in record({"a": text(3)})
    assert record({"a": text(3)}, ("a",))["required"] == ["a"]


def test_opaque_record_names_its_fields_for_people_alone() -> None:
    made = opaque(record({"uid": text(3), "cards": whole()}))
    assert made["description"] == "fields: uid, cards"
    assert "properties" not in made


def test_array_by_keys_is_a_map_and_a_default_of_nothing_is_kept() -> None:
    assert "x-kubernetes-list-type" not in array_of(text(3), 8)
    made = array_of(record({"uid": text(3)}), 8, ("uid",), default=[])
    assert made["x-kubernetes-list-map-keys"] == ["uid"]
    assert (made["maxItems"], made["default"]) == (8, [])
    assert "default" not in array_of(text(3), 8)


def test_words_and_numbers_have_bounds_and_defaults_where_given() -> None:
    assert words(Colour) == {"type": "string", "enum": ["red", "blue"]}
    assert words(Colour, "red")["default"] == "red"
    assert "maximum" not in whole()
    assert (whole(9)["minimum"], whole(9)["maximum"]) == (0, 9)
    assert condition()["required"] == ["type", "status"]
