from gpupool.dialects.kubernetes.vendors import MAKERS
from gpupool.model.catalogue import CATALOGUE, VENDORS
from gpupool.probes import pci
from gpupool.scheduling.filtering.feasibility import CardKind, is_model_match


def test_a_name_of_a_vendor_never_means_a_model() -> None:
    for vendor in VENDORS:
        assert not [model for model in CATALOGUE if is_model_match(vendor, model)]
        assert not CardKind(vendor.upper(), "").is_of(vendor)


def test_every_vendor_that_a_request_or_an_agent_names_can_be_limited() -> None:
    named = (
        {maker.name for maker in MAKERS}
        | {card.vendor for card in CATALOGUE.values()}
        | set(pci.VENDORS.values())
    )
    assert named <= VENDORS
