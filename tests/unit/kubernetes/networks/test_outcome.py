"""What a Tenant reads of its network."""

from __future__ import annotations

from gpupool.kubernetes.networks.judgement import NetworkRefusal
from gpupool.kubernetes.networks.outcome import NetworkOutcome, list_conditions, shorten

PEERS = ("speech",)


def statuses_of(outcome: NetworkOutcome) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in list_conditions(outcome)]


def test_each_outcome_has_its_reason() -> None:
    assert statuses_of(NetworkOutcome()) == [("NetworkInForce", "Unknown", "NotCompared")]
    assert statuses_of(NetworkOutcome(None, ())) == [("NetworkInForce", "True", "InForce")]
    assert statuses_of(NetworkOutcome(None, ("Vpc x",))) == [("NetworkInForce", "False", "Pending")]


def test_peerings_have_a_condition_where_some_are_wanted() -> None:
    assert statuses_of(NetworkOutcome(None, (), PEERS))[1] == ("PeeringsInForce", "True", "Peered")
    assert statuses_of(NetworkOutcome(None, ("Vpc x",), PEERS))[1][2] == "Pending"
    missing = NetworkOutcome(None, (), PEERS, ("speech: it has not agreed",))
    assert list_conditions(missing)[1]["message"] == "speech: it has not agreed"


def test_a_refusal_is_told_with_its_code_and_the_next_step() -> None:
    refusal = NetworkRefusal("GP-2083", "Kube-OVN is not installed", "kubectl get crd")
    (one,) = list_conditions(NetworkOutcome(refusal, None, PEERS))
    assert one["message"] == (
        "GP-2083: Kube-OVN is not installed; what was in force stays; kubectl get crd"
    )


def test_a_long_message_is_cut_to_what_a_condition_holds() -> None:
    (one,) = list_conditions(NetworkOutcome(NetworkRefusal("GP-1001", "x" * 5000)))
    assert len(one["message"]) == 1024


def test_many_objects_are_counted() -> None:
    assert shorten(["a", "b"]) == "a, b"
    assert shorten([str(number) for number in range(7)]) == "0, 1, 2, 3, 4 and 2 more"
