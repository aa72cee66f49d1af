"""`PoolSettings`: settings that change while the pool runs. The one object is called `pool`.

Fields that it omits come from `--settings` (the chart's value `settings`), and then from the
defaults here. An object that this program cannot read changes nothing: the settings in use stay,
also for the next leader, which reads them in the status. Shapes and their JSON, no requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.dialects.manifests.registry import DIALECTS
from gpupool.kubernetes.resources import names
from gpupool.scheduling import (
    DEFAULT_POLICY,
    DEFAULT_PREEMPTION_RULES,
    PreemptionRules,
    find_policy,
)

SETTINGS = f"/apis/{names.API_VERSION}/poolsettings"
NAME = "pool"
ALL = "all"
NATIVE = "native"
WORDS = (ALL, *(one.name for one in DIALECTS))
#: Seconds of a day: the most for times in the settings.
DAY = 86_400

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """Everything that may change without a restart."""

    #: Name of the placement policy.
    policy: str = DEFAULT_POLICY
    #: Whether the controller binds pods that request nothing but cards, CPUs and memory.
    direct: bool = False
    #: Dialects that admission reads; `all` stands for every one.
    dialects: frozenset[str] = frozenset({NATIVE})
    preemption: PreemptionRules = DEFAULT_PREEMPTION_RULES
    #: Whether pods get cards. Otherwise running pods go on, and waiting pods say why they wait.
    placing: bool = True
    #: Whether `managedFields` of pods and ledgers are cleared: cheaper writes, and no record.
    forget_field_managers: bool = False
    #: Seconds until a released pod with an owner that no node takes is deleted; 0: never.
    replace_seconds: int = 300

    @property
    def enabled_dialects(self) -> frozenset[str] | None:
        """Names of the dialects that are read; None: all."""
        return None if ALL in self.dialects else self.dialects

    @classmethod
    def from_json(cls, spec: Json, base: Settings | None = None) -> Settings:
        """Read a spec; omitted fields are those of `base`.

        Raises:
            BadOption: a value is out of range. The schema may be newer than this program.
            UnknownPolicy: this program has no policy of that name.
        """
        base = base or cls()
        rules = spec.get("preemption") or {}
        find_policy(spec.get("policy", base.policy))
        preemption = replace(
            base.preemption,
            enabled=_read_bool(rules, "enabled", base.preemption.enabled),
            reclaims=_read_bool(rules, "reclaim", base.preemption.reclaims),
            protected_s=_read_number(rules, "protectedSeconds", base.preemption.protected_s, DAY),
            per_hour=_read_number(rules, "perHour", base.preemption.per_hour, 100_000),
        )
        return cls(
            policy=spec.get("policy", base.policy),
            direct=_read_bool(spec, "direct", base.direct),
            dialects=_read_dialects(spec["dialects"]) if "dialects" in spec else base.dialects,
            preemption=preemption,
            placing=_read_bool(spec, "placing", base.placing),
            forget_field_managers=_read_bool(
                spec, "forgetFieldManagers", base.forget_field_managers
            ),
            replace_seconds=_read_number(spec, "replaceSeconds", base.replace_seconds, DAY),
        )

    def to_json(self) -> dict[str, Any]:
        """Return every field under its name in a spec."""
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
        """Read the JSON of a command line. Raises BadOption, UnknownPolicy."""
        try:
            read = json.loads(text or "{}")
        except ValueError as error:
            raise BadOption(
                f"--settings is no JSON: {error}", hint='--settings \'{"policy": "binpack"}\''
            ) from None
        known = cls().to_json()
        unknown = sorted(set(read) - set(known)) if isinstance(read, dict) else [text[:40]]
        if unknown:
            raise BadOption(
                f"--settings: nothing is called {unknown[0]!r}", hint=f"known: {', '.join(known)}"
            )
        return cls.from_json(read)


def _read_number(spec: Json, name: str, default: int | None, most: int) -> Any:
    found = spec.get(name, default)
    # `True` is an int in Python.
    if found is not None and (
        isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most
    ):
        raise BadOption(f"{name} is {found!r}, and has to be a whole number from 0 to {most}")
    return found


def _read_bool(spec: Json, name: str, default: bool) -> bool:
    found = spec.get(name, default)
    if not isinstance(found, bool):
        raise BadOption(f"{name} is {found!r}, and has to be true or false")
    return found


def _read_dialects(listed: Any) -> frozenset[str]:
    found = frozenset(map(str, listed))
    if unknown := sorted(found - set(WORDS)):
        near = get_close_matches(unknown[0], WORDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(WORDS)}"
        raise BadOption(f"dialects: there is none called {unknown[0]!r}", hint=hint)
    if not found & {ALL, NATIVE}:
        raise BadOption(
            "dialects: gpupool's own words have nobody else to read them", hint=f"add {NATIVE}"
        )
    return found


class PoolSettings:
    """The object as it was reported last, and the settings in use."""

    def __init__(self, base: Settings) -> None:
        self.in_use = self._base = base
        self.known: Json | None = None
        #: Why the object's spec is not in use; None if it is.
        self.refusal: GpupoolError | None = None

    def note_settings(self, found: Json, gone: bool) -> bool:
        """Note the object as it is now; return whether other settings are in use from now on."""
        if found["metadata"]["name"] != NAME:
            return False
        first = self.known is None
        before = self.in_use
        self.known = None if gone else found
        try:
            spec = {} if gone else found.get("spec") or {}
            self.in_use = Settings.from_json(spec, self._base)
            self.refusal = None
        except GpupoolError as error:
            self.refusal = error
            # A new leader keeps what the last one used; afterwards the settings in use stay anyway.
            if first and (kept := (found.get("status") or {}).get("inUse")):
                self.in_use = Settings.from_json(kept, self._base)
        return self.in_use != before
