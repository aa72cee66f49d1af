"""Policies that the API server itself enforces (`ValidatingAdmissionPolicy`, in CEL).

Only the controller writes ledgers and opens gates, an agent reports about its own node alone, and
no pod that requests GPUs bypasses admission. The kind is of `admissionregistration.k8s.io/v1`, from
Kubernetes 1.30. Each policy has one binding.
"""

from __future__ import annotations

from typing import Any

from gpupool.base.errors import LedgerInUse, PastAdmission, WrittenByGpupoolAlone
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.kubernetes.resources.names import GROUP

Object = dict[str, Any]

#: In the token of a service account of a pod that runs on that node (KEP-4193).
NODE_NAME = "authentication.kubernetes.io/node-name"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
_MASTERS = "'system:masters' in request.userInfo.groups"
_LOCKED = (names.CLAIM, names.TYPED, names.PLACED)


def policies(controller: str, agent: str, meter: str) -> list[Object]:
    """Every policy and its binding, for these users (`system:serviceaccount:NAMESPACE:NAME`)."""
    made = [
        _gpu_node(controller, agent, meter),
        _deletion(controller),
        _gate(controller),
        _net(),
        _settings(controller),
    ]
    objects = []
    for policy in made:
        objects += [policy, bind_policy(policy["metadata"]["name"])]
    return objects


def _gpu_node(controller: str, agent: str, meter: str) -> Object:
    """One policy without conditions: for each of either the API server copies the whole ledger,
    twice."""
    on = (GROUP, ("gpunodes", "gpunodes/status"), ("CREATE", "UPDATE"))
    rules = [*_ledger(controller), *_metered_rules(meter), _own_node(agent)]
    return _policy(
        "gpunodes", on, [], [_rule(rule, message, "Forbidden") for rule, message in rules]
    )


def _ledger(controller: str) -> list[tuple[str, str]]:
    message = (
        f"{WrittenByGpupoolAlone.code}: who has which card is written by gpupool's controller alone"
    )
    parts = {"allocations": "[]", "ended": "[]", "ledgerNs": "0"}
    same = (
        f"{_part('object', k, v)} == (oldObject == null ? {v} : {_part('oldObject', k, v)})"
        for k, v in parts.items()
    )
    return [(f"{_is(controller)} || {rule}", message) for rule in same]


def _metered_rules(meter: str) -> list[tuple[str, str]]:
    """What is in the books is the meter's word, and the only one that it has."""
    said = f"{_note('object', names.METERED)} == (oldObject == null ? '' : {_note('oldObject', names.METERED)})"
    spec = "object.?spec.orValue({}) == oldObject.?spec.orValue({})"
    return [
        (
            f"{_is(meter)} || {said}",
            f"{WrittenByGpupoolAlone.code}: {names.METERED} is written by gpupool's meter alone",
        ),
        (
            f"!{_is(meter)} || {spec}",
            f"{WrittenByGpupoolAlone.code}: the meter says what is in the books, and nothing else",
        ),
    ]


def _own_node(agent: str) -> tuple[str, str]:
    rule = f"!{_is(agent)} || request.userInfo.extra[?'{NODE_NAME}'].orValue([]) == [object.metadata.name]"
    return (
        rule,
        f"{WrittenByGpupoolAlone.code}: an agent reports of the node that it runs on, and of no other",
    )


def _deletion(controller: str) -> Object:
    """A ledger that holds something is not deleted: its pods would go on, and their cards be given
    out again.

    Its Node takes it along, by the garbage collector. Deleting the definition is no deletion of a
    ledger to the API server; what agents report afterwards keeps their nodes closed
    (`GpuNode.unaccounted`).
    """
    empty = "size(oldObject.?spec.?allocations.orValue([])) == 0"
    given_up = f"oldObject.metadata.?annotations[?'{names.GIVEN_UP}'].orValue('') == 'true'"
    message = (
        f"'{LedgerInUse.code}: pods have cards of node ' + oldObject.metadata.name + ': kubectl gpupool release '"
        f" + oldObject.metadata.name + ' --drain; to give up what is known of them: kubectl annotate gpunode '"
        f" + oldObject.metadata.name + ' {names.GIVEN_UP}=true'"
    )
    rule = _rule(f"{_is(controller)} || {_is(COLLECTOR)} || {given_up} || {empty}", "", "Forbidden")
    rule = {
        **rule,
        "message": f"{LedgerInUse.code}: pods have cards of this node",
        "messageExpression": message,
    }
    return _policy("deletion", (GROUP, ("gpunodes",), ("DELETE",)), [], [rule])


def _settings(controller: str) -> Object:
    """People say what they want, the controller what is in use."""
    own = _is(controller)
    status = "request.?subResource.orValue('')"
    spec = "object.?spec.orValue({})"
    before = "(oldObject == null ? {} : oldObject.?spec.orValue({}))"
    rules = [
        _rule(
            f"{status} != 'status' || {own}",
            f"{WrittenByGpupoolAlone.code}: what is in use is written by gpupool's controller alone",
            "Forbidden",
        ),
        _rule(
            f"{status} == 'status' || !({own}) || {spec} == {before}",
            f"{WrittenByGpupoolAlone.code}: what is wanted is people's to write",
            "Forbidden",
        ),
    ]
    on = (GROUP, ("poolsettings", "poolsettings/status"), ("CREATE", "UPDATE"))
    return _policy("settings", on, [], rules)


def _gate(controller: str) -> Object:
    """Of a managed pod: its gate, our words on it, and our label. One policy, since each costs the
    API server to have the whole pod converted at every change of it; and by a selector, so that
    other pods are not looked at."""
    said = {
        f"!{_has_gate('oldObject')} || {_has_gate('object')}": (
            "a pod gets its cards from gpupool's controller; without them its gate stays"
        ),
        **{
            f"{_note('object', key)} == {_note('oldObject', key)}": f"{key} is gpupool's; to ask for something else, "
            "create the pod anew"
            for key in _LOCKED
        },
        f"object.metadata.?labels[?'{names.MANAGED}'].orValue('') == 'true'": f"the label {names.MANAGED} stays on a "
        "pod that has cards of ours",
    }
    rules = []
    for rule, message in said.items():
        rules.append(_rule(rule, f"{WrittenByGpupoolAlone.code}: {message}", "Forbidden"))
    made = _policy(
        "gate",
        ("", ("pods",), ("UPDATE",)),
        [_not(controller), _managed_condition(), _no_master()],
        rules,
    )
    made["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {names.MANAGED: "true"}}
    return made


def _net() -> Object:
    """No conditions of its own: the API server would convert the whole pod for them, and again for
    the rules."""
    asks = (
        f"(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, "
        f"c.?resources.?limits.orValue({{}}).exists(name, name.startsWith('{GROUP}/')))"
    )
    ours = f"object.metadata.?labels[?'{names.MANAGED}'].orValue('') == 'true'"
    rule = f"!({asks} || {_direct()}) || (({_has_gate('object')} != {_direct()}) && {ours})"
    message = (
        f"{PastAdmission.code}: this pod asks for cards and did not go through gpupool's admission; "
        "is its webhook there? kubectl gpupool doctor"
    )
    on = ("", ("pods",), ("CREATE",))
    alone = (
        f"!{_direct()} || (({asks}) && object.metadata.?annotations.orValue({{}}).exists(key, key == '{names.CLAIM}')"
        f" && {direct_binding.cel_condition()})"
    )
    by_hand = f"{PastAdmission.code}: schedulerName {names.DIRECT} is given by gpupool's admission alone: leave it out"
    return _policy(
        "net", on, [], [_rule(alone, by_hand, "Invalid"), _rule(rule, message, "Invalid")]
    )


# --- words of CEL -----------------------------------------------------------------------------


def _part(of: str, name: str, nothing: str) -> str:
    return f"{of}.?spec.?{name}.orValue({nothing})"


def _has_gate(of: str) -> str:
    return f"{of}.spec.?schedulingGates.orValue([]).exists(g, g.name == '{names.GATE}')"


def _direct() -> str:
    return f"(object.spec.?schedulerName.orValue('') == '{names.DIRECT}')"


def _note(of: str, key: str) -> str:
    return f"{of}.metadata.?annotations[?'{key}'].orValue('')"


def _is(user: str) -> str:
    return f"(request.userInfo.username == '{user}')"


def _not(user: str) -> Object:
    return {"name": "not-the-controller", "expression": f"!{_is(user)}"}


def _no_master() -> Object:
    return {"name": "no-master", "expression": f"!({_MASTERS})"}


def _managed_condition() -> Object:
    return {
        "name": "managed",
        "expression": f"oldObject.metadata.?labels[?'{names.MANAGED}'].orValue('') == 'true'",
    }


# --- shapes -----------------------------------------------------------------------------------


def _rule(expression: str, message: str, reason: str) -> Object:
    return {"expression": expression, "message": message, "reason": reason}


def _policy(
    name: str,
    on: tuple[str, tuple[str, ...], tuple[str, ...]],
    conditions: list[Object],
    rules: list[Object],
) -> Object:
    group, resources, operations = on
    matched = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": list(resources),
        "operations": list(operations),
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{name}.{GROUP}"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [matched]},
            "matchConditions": conditions,
            "validations": rules,
        },
    }


def bind_policy(policy: str) -> Object:
    """Return the binding of a policy to the whole cluster."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }
