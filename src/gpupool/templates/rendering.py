"""Makes the request of a job of a template's document and values. Pure.

The request is a body of `POST /jobs` and is checked as every other one: a template gives no rights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from gpupool.base.errors import BadTemplateValue, GpupoolError
from gpupool.base.units import GIB, MIB, parse_gpu
from gpupool.model.gang import MEMBER
from gpupool.templates import sweep
from gpupool.templates.references import (
    Missing,
    fill_command,
    fill_text,
    fill_value,
    list_references,
)
from gpupool.templates.values import FieldFault, refuse_faults, show_scalar
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.documents import FieldValue, TemplateIn
from gpupool.wire.templates.uses import TemplateUse

#: What a text may refer to beside fields: the address on which a program has to listen.
LISTEN: Final = "listen_address"
#: In commands to type next: the name of the job.
JOB: Final = "job"
#: The variables of a caller without a shell: a browser, a program.
USUAL_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
#: Where its job starts: every user may write there.
USUAL_DIRECTORY: Final = "/tmp"
#: Tells a job, and those who look at it, of which template and version it is.
VARIABLE: Final = "GPUPOOL_TEMPLATE"
#: Part of the request, by the part of the document that gives it.
_PARTS: Final[Mapping[str, str]] = {
    "gpu_milli": "gpu",
    "memory_bytes": "memory_gib",
    "cpu_milli": "cpus",
    "host_bytes": "host_memory_gib",
    "max_seconds": "max_hours",
    "idle_seconds": "idle_minutes",
    "cwd": "directory",
    "workdir": "directory",
    "volumes": "mounts",
}


@dataclass(frozen=True)
class ServedPort:
    """The port of the jobs, as rendered."""

    number: int
    is_http: bool
    health: str | None


@dataclass(frozen=True)
class Rendering:
    """The request, and what belongs to it."""

    job: JobIn
    #: The variables of the document and of a sweep, without those of the caller.
    variables: Mapping[str, str]
    port: ServedPort | None
    #: The field that says how many jobs there are; None: none does.
    count_field: str | None


class _Renderer:
    """One document with its values, while it is rendered."""

    def __init__(self, document: TemplateIn, values: Mapping[str, FieldValue]) -> None:
        self._document = document
        self._job = document.job
        self._values = values

    def refuse(self, part: str, problem: str) -> None:
        """Raise BadTemplateValue at the field from which a part of the document comes."""
        named = self.find_field(part)
        fault = FieldFault(named or part, problem, self._values.get(named or ""), "")
        refuse_faults([fault], self._document.name)

    def find_field(self, part: str) -> str | None:
        """Return the first field to which a part of the document refers; None: to none."""
        text = str(getattr(self._job, part, ""))
        found = [name for name in list_references(text) if name in self._document.fields]
        return found[0] if found else None

    def fill(self, part: str) -> Any:
        return fill_value(getattr(self._job, part), self._values)

    def fill_number(self, part: str) -> float | None:
        return self.read_number(part, getattr(self._job, part))

    def read_number(self, part: str, written: Any) -> float | None:
        value = fill_value(written, self._values)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(part, f"got {value!r:.80}, expected a number")
        return float(value)

    def fill_count(self, part: str, written: Any) -> int | None:
        number = self.read_number(part, written)
        if number is not None and number != int(number):
            self.refuse(part, f"got {number:g}, expected a whole number")
        return None if number is None else int(number)

    def fill_text(self, part: str) -> str | None:
        value = self.fill(part)
        return None if value is None else show_scalar(value)

    def fill_flag(self, part: str) -> bool:
        value = self.fill(part)
        if value not in (None, True, False):
            self.refuse(part, f"got {value!r:.80}, expected true or false")
        return bool(value)

    def build_shape(self) -> dict[str, Any]:
        gpu = self.fill_number("gpu")
        count = self.fill_count("count", self._job.count)
        try:
            milli, cards = parse_gpu(f"{1.0 if gpu is None else gpu:.10g}")
        except GpupoolError as error:
            self.refuse("gpu", error.message)
            raise
        if cards is not None and count is not None and count != 1:
            self.refuse("count", f"got {count}, and {cards} whole cards are asked for already")
        shape: dict[str, Any] = {"gpu_milli": milli, "count": cards or count or 1}
        memory = self.fill_number("memory_gib")
        if memory is not None:
            shape["memory_bytes"] = math.ceil(memory * 1024) * MIB
            shape["memory_typed"] = f"{memory:.10g}GiB"
        shape["model"] = self.fill_text("model")
        shape["sharing"] = self._job.sharing
        shape["cpu_milli"] = round((self.fill_number("cpus") or 0) * 1000)
        shape["host_bytes"] = math.ceil((self.fill_number("host_memory_gib") or 0) * GIB)
        return shape

    def build_launch(
        self, use: TemplateUse, argv: list[str], variables: Mapping[str, str]
    ) -> dict[str, Any]:
        image = self.fill_text("image")
        directory = self.fill_text("directory")
        own = use.launch
        launch: dict[str, Any] = {"argv": argv, "env": dict(variables)}
        network = self.fill_text("network")
        if network is not None:
            launch["network"] = {"name": network}
        if own is not None:
            launch |= {"umask": own.umask, "limits": own.limits}
        if image is not None:
            launch["container"] = self._build_container(image, directory)
            return launch
        around = own.env if own is not None and own.env else USUAL_ENVIRONMENT
        launch["env"] = {**around, **launch["env"]}
        launch["cwd"] = directory or (own.cwd if own is not None else None) or USUAL_DIRECTORY
        return launch

    def build_gang(self) -> dict[str, Any] | None:
        gang = self._job.gang
        if gang is None:
            return None
        size = self.fill_count("gang", gang.size)
        if size is None:
            self.refuse("gang", "a gang needs a size")
        role = {
            "name": MEMBER,
            "count": size,
            "minimum": self.fill_count("gang", gang.minimum),
        }
        group: dict[str, Any] = {"name": "gang", "parts": [role]}
        within = fill_value(gang.within, self._values)
        if within is not None:
            level, _, how = str(within).partition(",")
            if how not in ("", "preferred"):
                self.refuse("gang", f"got {within!r:.80}, expected rack or rack,preferred")
            group["within"] = {how or "required": level}
        return group

    def build_trials(self) -> list[list[str]] | None:
        """Return the arguments of each job of a sweep; None without one."""
        asked = self._job.sweep
        if asked is None:
            return None
        parameters = fill_value(asked.parameters, self._values)
        method = str(fill_value(asked.method, self._values))
        trials = self.fill_count("sweep", asked.trials)
        seed = self.fill_count("sweep", asked.seed) or 0
        listed = parameters if isinstance(parameters, list) else []
        try:
            return sweep.list_trials(
                [show_scalar(one) for one in listed], method, trials, seed, asked.argument
            )
        except ValueError as error:
            named = list_references(asked.parameters)[0]
            fault = FieldFault(named, str(error), parameters, "parameters like lr=0.1,0.01")
            refuse_faults([fault], self._document.name)
            raise

    def build_port(self) -> ServedPort | None:
        port = self._job.port
        number = None if port is None else self.fill_count("port", port.number)
        if port is None or number is None:
            return None
        if not 1 <= number <= 65535:
            self.refuse("port", f"got {number}, expected 1 to 65535")
        return ServedPort(number, port.is_http, port.health)

    def fill_environment(self, values: Mapping[str, FieldValue]) -> dict[str, str]:
        variables = {VARIABLE: f"{self._document.name}@{self._document.version}"}
        for name, text in self._job.env.items():
            try:
                variables[name] = fill_text(text, values)
            except Missing:
                continue
        return variables

    def _build_container(self, image: str, directory: str | None) -> dict[str, Any]:
        volumes = list[dict[str, Any]]()
        for text in self._job.mounts:
            filled = fill_value(text, self._values)
            if filled is None:
                continue
            source, _, rest = show_scalar(filled).partition(":")
            target, _, mode = rest.partition(":")
            if mode not in ("", "ro", "rw"):
                self.refuse("mounts", f"got {filled!r:.80}, expected SOURCE:TARGET or :ro after it")
            volumes.append({"source": source, "target": target, "read_only": mode == "ro"})
        found: dict[str, Any] = {"image": image, "pull": self._job.pull, "volumes": volumes}
        if directory is not None:
            found["workdir"] = directory
        return found


def render_job(
    document: TemplateIn,
    values: Mapping[str, FieldValue],
    use: TemplateUse,
    name: str | None,
    listen_address: str,
    texts: Mapping[str, FieldValue] | None = None,
) -> Rendering:
    """Return the request that a document makes of the values.

    Args:
        document: A checked version of a template.
        values: Checked values of its fields (`values.check_values`).
        use: What the caller says beside values.
        name: The job's name; None: it gets one later.
        listen_address: What `${listen_address}` is.
        texts: What the command and its environment have in place of values of fields.

    Raises:
        BadTemplateValue: Values are right by themselves and wrong together.
    """
    made = _Renderer(document, {**values, LISTEN: listen_address})
    shown = {**values, LISTEN: listen_address, **(texts or {})}
    argv = fill_command(document.job.argv, shown)
    if not argv:
        made.refuse("argv", "no element of the command is left")
    trials = made.build_trials()
    array = made.fill_count("array", document.job.array) if trials is None else len(trials)
    port = made.build_port()
    # One job that serves has the name that is asked for, and no number.
    if port is not None and array == 1:
        array = None
    hours = made.fill_number("max_hours")
    idle = made.fill_number("idle_minutes")
    variables = made.fill_environment(shown)
    if trials is not None:
        variables |= sweep.build_environment(trials)
        argv = sweep.wrap_command(argv)
    launch = made.build_launch(use, argv, variables)
    body = {
        "shape": made.build_shape(),
        "launch": launch,
        "name": name,
        "tenant": use.tenant,
        "project": use.project,
        "priority": use.priority,
        "max_seconds": None if hours is None else round(hours * 3600),
        "idle_seconds": None if idle is None else round(idle * 60),
        "preemptible": made.fill_flag("preemptible"),
        "requeue": made.fill_flag("requeue"),
        "array": array,
        "gang": made.build_gang(),
    }
    try:
        job = JobIn.model_validate(body)
    except ValidationError as error:
        raise _locate(made, document, error) from error
    return Rendering(job, variables, port, made.find_field("array"))


def fill_follow(document: TemplateIn, values: Mapping[str, FieldValue], job: str) -> list[str]:
    """Return the commands to type next; those that name a field without a value are left out."""
    found = list[str]()
    for line in document.follow:
        try:
            found.append(fill_text(line, {**values, JOB: job}))
        except Missing:
            continue
    return found


def _locate(made: _Renderer, document: TemplateIn, error: ValidationError) -> BadTemplateValue:
    """Return what the request's own checks found, at the fields from which its parts come."""
    faults = list[dict[str, Any]]()
    for one in error.errors(include_url=False, include_input=False):
        words = [str(word) for word in one["loc"]]
        parts = [_PARTS.get(word, word) for word in reversed(words)]
        fields = [field for part in parts if (field := made.find_field(part))]
        named = fields[0] if fields else ".".join(words)
        faults.append(FieldFault(named, str(one["msg"]), None, "").describe())
    first = faults[0]
    return BadTemplateValue(
        f"{first['field']}: {first['problem']}",
        hint=f"gpupool template show {document.name}  lists the fields",
        fields=faults,
    )
