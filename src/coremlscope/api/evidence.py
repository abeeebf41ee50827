"""Evidence for rules out of profiles that contain both Core ML's plan and ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike

from coremlscope.base.errors import UsageError
from coremlscope.base.version import __version__
from coremlscope.describe.forms import list_forms
from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.results.agreement import Agreement
from coremlscope.results.evidence import Evidence, EvidencePlan, EvidenceRow, OpForm, UnitVerdict
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import PlannedOp
from coremlscope.results.profile import Profile

#: Replacement of an author's name, or a path, in Core ML's messages.
_HIDDEN = "‹name›"
_WORD = re.compile(r"[A-Za-z_](?:[\w.:/-]*\w)?")
_PATH = re.compile(r"(?:file://|~|\.{0,2})/[^\s'\",;)]+")
#: Names that are words of messages as well.
_SHORTEST_NAME = 3


def gather_evidence(profile: Profile, model: str | PathLike[str] | bytes | Model | None = None) -> Evidence:
    """Returns the operations on which plans by rules and by Core ML differ, to correct the rules.

    Args:
        profile: A profile with both plans, as of `plan_by_core_ml`, `profile` on a Mac, or `import_files`.
        model: The model, from which forms of operations are read; without it, types of inputs are those of
            the operations that make them.

    Raises:
        UsageError: The profile does not contain both plans.
        ModelError: The model cannot be read.
    """
    if not profile.agreements:
        raise UsageError(
            "there is no plan of Core ML beside one by rules",
            "for a file that was imported, name its --model, --device and --os",
        )
    known = model if model is None or isinstance(model, Model) else container.read(model)
    forms = {} if known is None else list_forms(known)
    return Evidence(
        version=__version__, plans=tuple(_plan(profile, found, forms) for found in profile.agreements)
    )


def _plan(profile: Profile, found: Agreement, forms: Mapping[str, OpForm]) -> EvidencePlan:
    plan, model = profile.plans[found.theirs], profile.model
    return EvidencePlan(
        chip=plan.chip,
        os=plan.os,
        compute_units=found.compute_units,
        kind=model.kind,
        spec_version=model.spec_version,
        opset=model.functions[0].opset if model.functions else "",
        compared=found.compared,
        agreed=found.agreed,
        unknown=found.unknown,
        cost_share=found.cost_share,
        weighted_by=found.weighted_by,
        rows=tuple(_rows(profile, found, forms)),
    )


def _rows(profile: Profile, found: Agreement, forms: Mapping[str, OpForm]) -> Iterator[EvidenceRow]:
    theirs, ours = profile.plans[found.theirs], profile.plans[found.ours]
    setting = found.compute_units
    partners = {op.id: op for op in ours.ops if not op.inserted}
    differing = {one.op: one for one in found.disagreements}
    places = {id_: row for row, id_ in enumerate(profile.ops.id)}
    names = _names(profile)
    for op in theirs.ops:
        if op.inserted or op.choices[setting].unit is None or op.id not in partners or op.id not in differing:
            continue
        row = places[op.id]
        yield EvidenceRow(
            type=op.type,
            layer_type=profile.ops.layer_type[row] or "",
            form=forms.get(op.id) or _form(profile.ops, row),
            outputs=op.outputs,
            before=tuple(profile.ops.type[maker] for maker in profile.ops.inputs[row] or ()),
            ours=_verdict(
                partners[op.id],
                setting,
                [(reason.unit, reason.rule) for reason in ours.reasons(partners[op.id], setting)],
            ),
            theirs=_verdict(op, setting, [(r.unit, _without(r.core_ml or r.text, names)) for r in op.why]),
            share=differing[op.id].share,
        )


def _form(ops: OpTable, row: int) -> OpForm:
    made = tuple(ops.outputs[maker][0] for maker in ops.inputs[row] or () if ops.outputs[maker])
    return OpForm(inputs={"operands": made} if made else {})


def _verdict(op: PlannedOp, setting: ComputeUnits, reasons: Sequence[tuple[ComputeUnit, str]]) -> UnitVerdict:
    units = dict.fromkeys(unit for unit, text in reasons if text)
    return UnitVerdict(
        unit=op.choices[setting].unit,
        backend=op.choices[setting].backend,
        supported=op.supported,
        cost_ms=op.cost_ms,
        reasons={unit: tuple(text for of, text in reasons if of == unit and text) for unit in units},
    )


def _names(profile: Profile) -> frozenset[str]:
    """Returns the names that the author chose; words that are types of operations are none."""
    ops = profile.ops
    found = {*ops.name, *ops.function, *(name for names in ops.output_names for name in names)}
    found |= {layer for layer in ops.layer if layer}
    for function in profile.model.functions:
        found |= {feature.name for feature in (*function.inputs, *function.outputs, *function.states)}
    common = {*ops.type, *(kind for kind in ops.layer_type if kind), "main"}
    return frozenset(name for name in found - common if len(name) >= _SHORTEST_NAME)


def _without(message: str, names: frozenset[str]) -> str:
    """Returns a message of Core ML without the author's names and without paths."""
    message = _PATH.sub(_HIDDEN, message)
    for name in sorted((name for name in names if not _WORD.fullmatch(name)), key=len, reverse=True):
        message = message.replace(name, _HIDDEN)
    return _WORD.sub(lambda found: _HIDDEN if found.group() in names else found.group(), message)
