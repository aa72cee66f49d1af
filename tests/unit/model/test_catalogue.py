"""Names of card models: from the driver's words, and from what people type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.model.catalogue import CATALOGUE, canonical_model, find_model, nearest_model


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100-40G"),
        ("NVIDIA A100 80GB PCIe", "A100-80G"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-16G"),
        ("Tesla V100S-PCIE-32GB", "V100-32G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX-4090D"),
        ("AMD Instinct MI300X", "MI300X"),
        ("nvidia h200", "H200"),
    ],
)
def test_a_drivers_words_become_the_name_used_in_claims(product: str, model: str) -> None:
    assert canonical_model(product) == model


def test_a_card_that_is_not_listed_keeps_its_product_name() -> None:
    assert canonical_model("NVIDIA Rubin X1 (preview)") == "RUBIN-X1-PREVIEW"
    assert canonical_model("") == "UNKNOWN"


def test_a_product_name_nobody_knows_is_settled_by_the_pci_id() -> None:
    assert canonical_model("NVIDIA Graphics Device", "10DE:2335") == "H200"


def test_every_listed_product_and_pci_id_leads_back_to_its_own_model() -> None:
    for card in CATALOGUE.values():
        assert [canonical_model(product) for product in card.products] == [card.name] * len(
            card.products
        )
        assert [canonical_model("", pci_id) for pci_id in card.pci_ids] == [card.name] * len(
            card.pci_ids
        )


def test_no_pci_id_and_no_product_is_listed_twice() -> None:
    ids = [pci_id for card in CATALOGUE.values() for pci_id in card.pci_ids]
    products = [product for card in CATALOGUE.values() for product in card.products]
    assert len(ids) == len(set(ids))
    assert len(products) == len(set(products))


@pytest.mark.parametrize("typed", ["a100-40g", "A100_40G", "a10040g", " A100 40G "])
def test_case_and_separators_do_not_matter(typed: str) -> None:
    assert find_model(typed, CATALOGUE) == "A100-40G"


def test_a_name_that_is_only_like_a_model_is_not_that_model() -> None:
    assert find_model("H2000", CATALOGUE) is None
    assert find_model("", CATALOGUE) is None
    assert find_model("-", CATALOGUE) is None


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("H2OO", "H200"),
        ("H20O", "H200"),
        ("A100-80", "A100-80G"),
        ("4090", "RTX-4090"),
        ("L4OS", "L40S"),
        ("T44", "T4"),
    ],
)
def test_the_nearest_name_is_found_for_a_slip(typed: str, near: str) -> None:
    assert nearest_model(typed, CATALOGUE) == near


def test_nothing_is_near_to_nonsense() -> None:
    assert nearest_model("banana", CATALOGUE) is None
    assert nearest_model("H200", []) is None


@given(st.text(max_size=40))
def test_any_product_name_has_a_model_that_finds_itself(product: str) -> None:
    model = canonical_model(product)
    assert model
    assert find_model(model.lower(), [model]) == model
