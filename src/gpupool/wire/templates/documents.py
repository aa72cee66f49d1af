"""The document of a template: one version, as admins write it and the pool keeps it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.submissions import Sharing

#: Largest number: beyond it a float has no whole numbers, and no amount of the pool comes near.
MOST = 2**53
#: The value of a field. A number or truth value may come as text, as a command line has it.
Scalar = (
    bool
    | int
    | Annotated[float, Field(allow_inf_nan=False)]
    | Annotated[str, Field(max_length=8192)]
)
FieldValue = Scalar | Annotated[list[Scalar], Field(max_length=1000)]
#: Text with references: `${lr}` is the value of the field `lr`.
Reference = Annotated[str, Field(max_length=8192)]
#: A number, or text with a reference to a field that is one.
NumberOrReference = (
    Annotated[int, Field(ge=-MOST, le=MOST)]
    | Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
    | Reference
)
FieldName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class Words(WireModel):
    """A text in the languages of the console. Null: the English one stands for it."""

    en: Annotated[str, Field(min_length=1, max_length=500)]
    zh: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class TemplateField(WireModel):
    """A field of the form. The words are those of JSON Schema, of which this is a part."""

    type: Literal["string", "integer", "number", "boolean", "array"] = "string"
    title: Words
    description: Words | None = None
    default: FieldValue | None = Field(None, description="null: none")
    required: bool = Field(False, description="a value must be given where there is no default")
    enum: list[Scalar] | None = Field(None, min_length=1, max_length=100)
    minimum: float | None = Field(None, ge=-MOST, le=MOST)
    maximum: float | None = Field(None, ge=-MOST, le=MOST)
    max_length: int | None = Field(None, ge=1, le=8192, description="characters")
    pattern: str | None = Field(
        None, max_length=200, description="of the whole text; of each item of an array"
    )
    max_items: int | None = Field(None, ge=1, le=1000, description="of an array")
    unit: Literal["GiB", "h", "min", "GPU", "cards", "jobs"] | None = Field(
        None, description="of the number; with GiB also `8GiB` is understood, with h and min `90m`"
    )
    order: int = Field(0, description="place in the form, the smallest first")


class TemplateGang(WireModel):
    """Members that start together or not at all."""

    size: NumberOrReference
    minimum: NumberOrReference | None = None
    within: Reference | None = Field(
        None, description="how near together, as --topology: rack, or rack,preferred"
    )


class TemplateSweep(WireModel):
    """An array of which each job gets other arguments, added to `argv`."""

    parameters: Reference = Field(
        description="reference to an array of texts: `lr=0.1,0.01` or a range, `lr=0.0001..0.1`"
    )
    method: Reference = Field("grid", description="grid or random")
    trials: NumberOrReference | None = Field(None, description="jobs of random")
    seed: NumberOrReference = 0
    argument: str = Field("--{name}={value}", max_length=100, description="form of an argument")


class TemplatePort(WireModel):
    """The port on which the jobs serve."""

    number: NumberOrReference
    is_http: bool = True
    health: str | None = Field(
        None, max_length=255, pattern=r"^/", description="path that answers 200 once it serves"
    )


class TemplateJob(WireModel):
    """What the template asks of the pool. Texts may have references to fields.

    A part that names a field without a value is left out. A reference that is a whole element of
    `argv` and names an array gives as many elements.
    """

    argv: list[Reference | Annotated[list[Reference], Field(min_length=1)]] = Field(
        min_length=1, max_length=200, description="a list in it is left out as a whole"
    )
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Reference] = Field(
        default_factory=dict, max_length=100
    )
    directory: Reference | None = None
    gpu: NumberOrReference = Field(1, description="compute of each card: 0.001 to 1, or cards")
    memory_gib: NumberOrReference | None = None
    count: NumberOrReference | None = None
    model: Reference | None = None
    sharing: Sharing | None = None
    cpus: NumberOrReference | None = None
    host_memory_gib: NumberOrReference | None = None
    max_hours: NumberOrReference | None = None
    idle_minutes: NumberOrReference | None = Field(
        None, description="it may be suspended for other claims when its cards were idle so long"
    )
    preemptible: bool | Reference = False
    requeue: bool | Reference = False
    network: Reference | None = None
    image: Reference | None = None
    pull: Literal["never", "missing"] = "never"
    mounts: list[Reference] = Field(
        default_factory=list, max_length=32, description="SOURCE:TARGET or SOURCE:TARGET:ro"
    )
    array: NumberOrReference | None = None
    sweep: TemplateSweep | None = None
    gang: TemplateGang | None = None
    port: TemplatePort | None = None


class TemplateUsers(WireModel):
    """Its users. An empty list allows all; a user is in each list that is not empty."""

    tenants: list[Name] = Field(default_factory=list, max_length=100)
    projects: list[Name] = Field(default_factory=list, max_length=100)
    groups: list[Annotated[str, Field(min_length=1, max_length=255)]] = Field(
        default_factory=list, max_length=100, description="of the identity provider"
    )


class TemplateIn(WireModel):
    """A version of a template. A version never changes."""

    name: Name
    version: int = Field(ge=1, le=1_000_000)
    summary: Words
    fields: dict[FieldName, TemplateField] = Field(default_factory=dict, max_length=64)
    job: TemplateJob
    users: TemplateUsers = TemplateUsers()
    programs: list[Annotated[str, Field(min_length=1, max_length=255)]] = Field(
        default_factory=list, max_length=20, description="that have to be on the job's PATH"
    )
    follow: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default_factory=list,
        max_length=8,
        description="commands to type next; ${job} is the job's name",
    )
