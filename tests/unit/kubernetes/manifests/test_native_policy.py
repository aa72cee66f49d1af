"""The policy's expressions are whole, and leave every foreign word to the webhook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.dialects.contract import WordPlace
from gpupool.dialects.manifests.registry import DIALECTS
from gpupool.kubernetes.manifests import native_policy
from gpupool.kubernetes.resources import names

POLICY, BINDING = native_policy.objects("kube-system", "space")


def iterate_expressions(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "expression":
                yield value
            else:
                yield from iterate_expressions(value)
    elif isinstance(found, list):
        for one in found:
            yield from iterate_expressions(one)


def without_texts(expression: str) -> str:
    """The expression without what stands between quotes."""
    return re.sub(r"'[^']*'", "''", expression)


def test_every_expression_closes_what_it_opens() -> None:
    found = [*iterate_expressions(POLICY["spec"]), native_policy.done()]
    assert len(found) == 6
    for expression in found:
        assert expression.count("'") % 2 == 0
        bare = without_texts(expression)
        for opened, closed in ("()", "[]", "{}"):
            assert bare.count(opened) == bare.count(closed), expression


def test_policy_fails_to_the_webhook_and_skips_excluded_namespaces() -> None:
    assert POLICY["spec"]["failurePolicy"] == "Ignore"
    (selector,) = POLICY["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (selector["operator"], selector["values"]) == ("NotIn", ["kube-system", "space"])
    assert BINDING["spec"]["policyName"] == POLICY["metadata"]["name"]
    assert BINDING["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"


@pytest.mark.parametrize(
    "where", [WordPlace.ENV, WordPlace.ANNOTATION, WordPlace.LABEL, WordPlace.SELECTOR]
)
def test_condition_knows_each_exact_word_of_a_dialect_there(where: WordPlace) -> None:
    expression = native_policy._foreign("key", where)
    for dialect in DIALECTS:
        for word in dialect.names:
            if word.where is where and re.fullmatch(r"[\w./-]+", word.key):
                assert word.key in expression
        for prefix in dialect.prefixes:
            starts = f"key.startsWith('{prefix}')" in expression
            assert starts is (where in (WordPlace.ANNOTATION, WordPlace.LABEL))


def test_value_of_nothing_removes_the_name_it_stands_for() -> None:
    added = native_policy._each("limits", "gpupool.dev/slot", "true", "'1'")
    removed = native_policy._each("limits", "gpupool.dev/slot", "true", "")
    assert "op: 'add'" in added
    assert "value: '1'" in added
    assert "op: 'remove'" in removed
    assert "value" not in removed
    assert "/resources/limits/gpupool.dev~1slot'" in removed


def test_pod_counts_as_done_with_label_claim_and_gate_alone() -> None:
    done = native_policy.done()
    for word in (names.MANAGED, names.CLAIM, names.GATE, names.DIRECT):
        assert word in done
    assert "privileged" in done
