"""Admission of plain native pods inside the API server: the normal form in CEL, without a call to
the webhook.

A `MutatingAdmissionPolicy` (`admissionregistration.k8s.io/v1`, on by default from Kubernetes 1.36).
It takes only pods of which it is sure: our three resources and no other word of any dialect,
numbers that make sense, nothing that admission refuses, and a size that a node has and the tenant
may have, by what the controller writes into the status of the `PoolSettings`. It makes of them what
`admission.decide` makes (a test compares). All others, and everything while that status is not
there, are left to the webhook: whatever fails here is no failure.
"""

from __future__ import annotations

from typing import Any

from gpupool.base.units import MIB, WHOLE
from gpupool.dialects.amounts import LEAST_MIB, MOST_BYTES, MOST_CARDS
from gpupool.dialects.contract import WordPlace
from gpupool.dialects.kubernetes.native import GPUS, MEMORY, MILLI, SLOT
from gpupool.dialects.manifests import pod_rules
from gpupool.dialects.manifests.registry import DIALECTS
from gpupool.kubernetes.resources import direct_binding, names
from gpupool.kubernetes.resources.pod_matcher import any_name_expression, quote_string
from gpupool.kubernetes.resources.pool_settings import NAME

Object = dict[str, Any]

POLICY = f"native.{names.GROUP}"
VERSION = "admissionregistration.k8s.io/v1"
#: In the order of the text in which they are kept.
OWN = (MILLI, GPUS, MEMORY)
NO_LIMIT = 1 << 62
APPS = "object.spec.containers"
INITS = "object.spec.?initContainers.orValue([])"
ALL = f"({APPS} + {INITS})"
_SANDBOXED = f"object.spec.?runtimeClassName.orValue('').lowerAscii().matches('{'|'.join(pod_rules.SANDBOXES)}')"
_UNPLACED = "object.spec.?nodeName.orValue('') == ''"


def objects(*excluded: str) -> list[Object]:
    """The policy and its binding; pods of these namespaces are none of ours."""
    on = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    apart = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(excluded)}
    is_direct = (
        f"params.?status.?inUse.?direct.orValue(false) && {direct_binding.cel_condition(*OWN)}"
    )
    spec = {
        "paramKind": {"apiVersion": names.API_VERSION, "kind": "PoolSettings"},
        "matchConstraints": {
            "resourceRules": [on],
            "namespaceSelector": {"matchExpressions": [apart]},
        },
        "matchConditions": [{"name": "plain", "expression": condition()}],
        "variables": [
            {"name": "claim", "expression": _claim()},
            {"name": "typed", "expression": _typed_value()},
            {"name": "direct", "expression": is_direct},
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _patches()}}],
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
    }
    by = {"policyName": POLICY, "paramRef": {"name": NAME, "parameterNotFoundAction": "Allow"}}
    return [
        {
            "apiVersion": VERSION,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": spec,
        },
        {
            "apiVersion": VERSION,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": by,
        },
    ]


# --- whom it takes ----------------------------------------------------------------------------


def condition() -> str:
    """Which pods the policy takes."""
    plain = f"{_own('name')} || !({_foreign('name', WordPlace.RESOURCE)})"
    return " && ".join(
        (
            f"{APPS}.exists(c, {_asks('c')})",
            f"{APPS}.all(c, !{_asks('c')} || ({_sound('c')} && {_could_ever('c')}))",
            f"{INITS}.all(c, !{_asks('c')})",
            *(
                f"{ALL}.all(c, {_amounts('c', part)}.all(name, {plain}))"
                for part in ("limits", "requests")
            ),
            f"{ALL}.all(c, c.?env.orValue([]).all(e, !({_foreign('e.name', WordPlace.ENV)})))",
            f"object.metadata.?annotations.orValue({{}}).all(key, !({_foreign('key', WordPlace.ANNOTATION)}))",
            f"object.metadata.?labels.orValue({{}}).all(key, !({_foreign('key', WordPlace.LABEL)}))",
            f"object.spec.?nodeSelector.orValue({{}}).all(key, !({_foreign('key', WordPlace.SELECTOR)}))",
            f"object.spec.?schedulerName.orValue('{pod_rules.KUBERNETES}') == '{pod_rules.KUBERNETES}'",
            f"!{_SANDBOXED}",
            _UNPLACED,
        )
    )


def done() -> str:
    """Return whether a pod is in the normal form and has nothing that admission would refuse."""
    # A pod that was written in this form by hand is not refused for its size: it waits, with the
    # reason in its condition.
    gated = (
        f"object.spec.?schedulingGates.orValue([]).exists(g, g.name == {quote_string(names.GATE)})"
    )
    named = f"object.spec.?schedulerName.orValue('') == {quote_string(names.DIRECT)}"
    return " && ".join(
        (
            f"object.metadata.?labels[?{quote_string(names.MANAGED)}].orValue('') == 'true'",
            f"object.metadata.?annotations.orValue({{}}).exists(key, key == {quote_string(names.CLAIM)})",
            f"({named} ? ({direct_binding.cel_condition()}) : {gated})",
            f"{ALL}.all(c, !c.?securityContext.?privileged.orValue(false))",
            f"!{_SANDBOXED}",
            _UNPLACED,
        )
    )


def _amounts(of: str, part: str) -> str:
    return f"{of}.?resources.?{part}.orValue({{}})"


def _own(name: str) -> str:
    return f"{name} in [{', '.join(map(quote_string, OWN))}]"


def _asks(of: str) -> str:
    return f"{_amounts(of, 'limits')}.exists(n, {_own('n')})"


def _foreign(variable: str, where: WordPlace) -> str:
    """Whether it is a word of a dialect at that place, or begins as one: then it may be a mistyped
    one."""
    words = []
    for one in DIALECTS:
        for name in one.names:
            if name.where is where:
                words.append(name)
    typed = where not in (WordPlace.ENV, WordPlace.SELECTOR)
    prefixes = sorted({prefix for one in DIALECTS for prefix in one.prefixes}) if typed else []
    return " || ".join(
        [
            any_name_expression(variable, words),
            *(f"{variable}.startsWith({quote_string(one)})" for one in prefixes),
        ]
    )


def _sound(of: str) -> str:
    """Numbers that admission takes, of a container that is not privileged."""
    limits = f"{of}.resources.limits"
    milli, gpus, memory = (f"quantity(string({limits}[{quote_string(name)}]))" for name in OWN)
    return " && ".join(
        (
            f"({quote_string(MILLI)} in {limits} ? {_within(milli, 1, WHOLE)} : !({quote_string(MEMORY)} in {limits}))",
            f"(!({quote_string(GPUS)} in {limits}) || {_within(gpus, 1, MOST_CARDS)})",
            f"(!({quote_string(MEMORY)} in {limits}) || {_within(memory, LEAST_MIB * MIB, MOST_BYTES)})",
            f"(!({quote_string(MEMORY)} in {limits}) || {memory}.asInteger() % {MIB} == 0)",
            f"!{of}.?securityContext.?privileged.orValue(false)",
        )
    )


def _within(quantity: str, least: int, most: int) -> str:
    return f"({quantity}.isInteger() && {quantity}.asInteger() >= {least} && {quantity}.asInteger() <= {most})"


def _could_ever(of: str) -> str:
    """Whether a node has that much, and the tenant may have it."""
    count, milli, memory = _numbers(of)
    limit = "params.?status.?admits.?limits[?request.namespace]"
    bytes_most = f"{limit}.?memoryBytes.orValue({NO_LIMIT})"
    return " && ".join(
        (
            f"params.?status.?admits.?cards.orValue([]).exists(f, f.count >= {count} && f.memoryBytes >= {memory})",
            f"{count} * {milli} <= {limit}.?gpuMilli.orValue({NO_LIMIT})",
            f"({_has_memory(of)} ? {count} * {memory} <= {bytes_most} : {bytes_most} == {NO_LIMIT})",
            f"!{limit}.?others.orValue(false)",
        )
    )


# --- what becomes of them ---------------------------------------------------------------------


def _numbers(of: str) -> tuple[str, str, str]:
    """How many cards; of each how many thousandths and bytes (0: not said)."""
    return _number(of, GPUS, 1), _number(of, MILLI, WHOLE), _number(of, MEMORY, 0)


def _number(of: str, name: str, default: int) -> str:
    limits = f"{of}.resources.limits"
    key = quote_string(name)
    return f"({key} in {limits} ? quantity(string({limits}[{key}])).asInteger() : {default})"


def _has_memory(of: str) -> str:
    return f"{quote_string(MEMORY)} in {of}.resources.limits"


def _patches() -> str:
    """RFC 6902 operations; for each container that asks, its totals instead of what was typed."""
    count, milli, memory = _numbers("c")
    parts = []
    for part in ("limits", "requests"):
        parts += [
            _each(part, GPUS, f"{quote_string(GPUS)} in {_amounts('c', part)}", ""),
            _each(part, SLOT, _asks("c"), "'1'"),
            _each(part, MILLI, _asks("c"), f"string({count} * {milli})"),
            _each(
                part, MEMORY, f"{_asks('c')} && {_has_memory('c')}", _bytes(f"({count} * {memory})")
            ),
        ]
    notes = {names.CLAIM: "variables.claim", names.TYPED: "variables.typed"}
    parts += [
        _added_fields("annotations", notes),
        _added_fields("labels", {names.MANAGED: "'true'"}),
    ]
    gate = f"{{'name': {quote_string(names.GATE)}}}"
    more = _add("/spec/schedulingGates/-", gate)
    first = _add("/spec/schedulingGates", f"[{gate}]")
    gated = f"(size(object.spec.?schedulingGates.orValue([])) > 0 ? [{more}] : [{first}])"
    parts.append(
        f"(variables.direct ? [{_add('/spec/schedulerName', quote_string(names.DIRECT))}] : {gated})"
    )
    return " + ".join(parts)


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: '{path}', value: {value}}}"


def _pointer(name: str) -> str:
    return name.replace("/", "~1")


def _each(part: str, name: str, where: str, value: str) -> str:
    """Of every container for which it holds; without a value the name goes."""
    path = f"'/spec/containers/' + string(i) + '/resources/{part}/{_pointer(name)}'"
    does = f"op: 'add', path: {path}, value: {value}" if value else f"op: 'remove', path: {path}"
    return f"{APPS}.transformList(i, c, {where}, JSONPatch{{{does}}})"


def _added_fields(part: str, words: dict[str, str]) -> str:
    each = ", ".join(
        _add(f"/metadata/{part}/{_pointer(name)}", value) for name, value in words.items()
    )
    whole = ", ".join(f"{quote_string(name)}: {value}" for name, value in words.items())
    return (
        f"(has(object.metadata.{part}) ? [{each}] : [{_add(f'/metadata/{part}', f'{{{whole}}}')}])"
    )


def _bytes(size: str) -> str:
    gib = 1024 * MIB
    return f"({size} % {gib} == 0 ? string({size} / {gib}) + 'Gi' : string({size} / {MIB}) + 'Mi')"


def _claim() -> str:
    """As `dialects.manifests.normal.dump` writes it."""
    count, milli, memory = _numbers("c")
    one = " + ".join(
        (
            '\'{"container":"\' + c.name',
            f'\'","count":\' + string({count})',
            f'\',"dialects":["native"],"gpu_milli":\' + string({milli}) + \',"kind":"app"\'',
            f"({_has_memory('c')} ? ',\"memory_bytes\":' + string({memory}) : '')",
            f"({milli} < {WHOLE} ? ',\"names_sharing\":false' : '')",
            '\',"sharing":"fixed","vendor":"nvidia"}\'',
        )
    )
    named = "object.spec.?priorityClassName.orValue('')"
    priority = f"({named} == '' ? '' : '\"priority\":\"' + {named} + '\"')"
    listed = f"{APPS}.filter(c, {_asks('c')}).map(c, {one}).join(',')"
    return f"'{{\"containers\":[' + {listed} + '],\"pod\":{{' + {priority} + '}}}}'"


def _typed_value() -> str:
    """As `dialects.manifests.writing` keeps what was typed, but for the order of containers."""
    words = f"[{', '.join(map(quote_string, OWN))}].filter(k, k in {_amounts('c', 'limits')})"
    each = f"{words}.map(k, '\"' + k + '\": \"' + string(c.resources.limits[k]) + '\"').join(', ')"
    listed = f"{ALL}.map(c, '\"' + c.name + '\": {{' + {each} + '}}').join(', ')"
    return f"'{{\"containers\": {{' + {listed} + '}}}}'"
