"""`PoolSettings`: what a platform engineer changes while the pool runs. There is one such object, called `pool`.

What it leaves out is as the programs were started with (`--settings`, which the chart's value `settings` becomes), and
what that leaves out is as here. An object that this program cannot read changes nothing: what was in use stays, also
for the next leader, who finds it in the status. Shapes and their JSON, no requests: whoever watches calls `note`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.dialects.registry import DIALECTS
from gpupool.kubernetes import names
from gpupool.scheduling import policies
from gpupool.scheduling.victims import GENTLE, PreemptionRules

SETTINGS = f"/apis/{names.API_VERSION}/poolsettings"
NAME = "pool"
ALL, NATIVE = "all", "native"
WORDS = (ALL, *(one.name for one in DIALECTS))
DAY = 86_400

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """Everything that may change without a restart."""

    policy: str = policies.DEFAULT
    """Rule of placement."""
    direct: bool = False
    """Whether pods that have nothing but cards, processors and memory to be placed by are bound by the controller."""
    dialects: frozenset[str] = frozenset({NATIVE})
    """Whose words admission takes; `all` stands for everybody's."""
    preemption: PreemptionRules = GENTLE
    placing: bool = True
    """Whether pods get cards; while they do not, what runs goes on, and what waits says so."""
    forget_field_managers: bool = False
    """Whether `managedFields` of pods and ledgers that gpupool writes are cleared: cheaper writes, and no record."""
    replace_seconds: int = 300
    """A released pod that has an owner and that no node takes is deleted then; 0 is never."""

    @property
    def taken(self) -> frozenset[str] | None:
        """Names of the dialects that are taken; None is all."""
        return None if ALL in self.dialects else self.dialects

    @classmethod
    def from_json(cls, spec: Json, base: Settings | None = None) -> Settings:
        """What is not said is as in `base`. Raises BadOption, UnknownPolicy: schemas may be newer than a program."""
        base, rules = base or cls(), spec.get("preemption") or {}
        policies.named(spec.get("policy", base.policy))
        preemption = replace(
            base.preemption,
            enabled=_truth(rules, "enabled", base.preemption.enabled),
            reclaims=_truth(rules, "reclaim", base.preemption.reclaims),
            protected_s=_number(rules, "protectedSeconds", base.preemption.protected_s, DAY),
            per_hour=_number(rules, "perHour", base.preemption.per_hour, 100_000),
        )
        return cls(
            policy=spec.get("policy", base.policy),
            direct=_truth(spec, "direct", base.direct),
            dialects=_dialects(spec["dialects"]) if "dialects" in spec else base.dialects,
            preemption=preemption,
            placing=_truth(spec, "placing", base.placing),
            forget_field_managers=_truth(spec, "forgetFieldManagers", base.forget_field_managers),
            replace_seconds=_number(spec, "replaceSeconds", base.replace_seconds, DAY),
        )

    def to_json(self) -> dict[str, Any]:
        rules = self.preemption
        return {
            "policy": self.policy,
            "direct": self.direct,
            "dialects": sorted(self.dialects),
            "preemption": {
                "enabled": rules.enabled,
                "reclaim": rules.reclaims,
                "protectedSeconds": rules.protected_s,
                "perHour": rules.per_hour,
            },
            "placing": self.placing,
            "forgetFieldManagers": self.forget_field_managers,
            "replaceSeconds": self.replace_seconds,
        }

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Of a command line's JSON. Raises BadOption, UnknownPolicy."""
        try:
            read = json.loads(text or "{}")
        except ValueError as error:
            raise BadOption(f"--settings is no JSON: {error}", hint='--settings \'{"policy": "binpack"}\'') from None
        known = cls().to_json()
        unknown = sorted(set(read) - set(known)) if isinstance(read, dict) else [text[:40]]
        if unknown:
            raise BadOption(f"--settings: nothing is called {unknown[0]!r}", hint=f"known: {', '.join(known)}")
        return cls.from_json(read)


def _number(spec: Json, name: str, default: int | None, most: int) -> Any:
    found = spec.get(name, default)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most):
        raise BadOption(f"{name} is {found!r}, and has to be a whole number from 0 to {most}")
    return found


def _truth(spec: Json, name: str, default: bool) -> bool:
    found = spec.get(name, default)
    if not isinstance(found, bool):
        raise BadOption(f"{name} is {found!r}, and has to be true or false")
    return found


def _dialects(listed: Any) -> frozenset[str]:
    found = frozenset(map(str, listed))
    if unknown := sorted(found - set(WORDS)):
        near = get_close_matches(unknown[0], WORDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(WORDS)}"
        raise BadOption(f"dialects: there is none called {unknown[0]!r}", hint=hint)
    if not found & {ALL, NATIVE}:
        raise BadOption("dialects: gpupool's own words have nobody else to read them", hint=f"add {NATIVE}")
    return found


class PoolSettings:
    """The object as it was last heard of, and what is in use."""

    def __init__(self, base: Settings) -> None:
        self.in_use = self._base = base
        self.known: Json | None = None
        self.refusal: GpupoolError | None = None
        """Why what the object says is not in use."""

    def note(self, found: Json, gone: bool) -> bool:
        """The object as it is now; whether something else is in use from here on."""
        if found["metadata"]["name"] != NAME:
            return False
        first, before = self.known is None, self.in_use
        self.known = None if gone else found
        try:
            spec = {} if gone else found.get("spec") or {}
            self.in_use, self.refusal = Settings.from_json(spec, self._base), None
        except GpupoolError as error:
            self.refusal = error
            if first and (kept := (found.get("status") or {}).get("inUse")):
                self.in_use = Settings.from_json(kept, self._base)
        return self.in_use != before
