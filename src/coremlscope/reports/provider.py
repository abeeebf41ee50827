"""How ONNX Runtime's Core ML provider divides an ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_duration
from coremlscope.devices import SETTINGS
from coremlscope.reports.document import Block, Column, Facts, Heading, Hint, Item, Table, Text, Title
from coremlscope.reports.figures import within_ms
from coremlscope.reports.words import model_name, plural
from coremlscope.results.profile import Profile
from coremlscope.results.provider import (
    CORE_ML_PROVIDER,
    LoggedNode,
    ProviderAgreement,
    ProviderEstimate,
    ProviderFix,
    ProviderLog,
    ProviderReport,
    ProviderVerdict,
    Round,
)

if TYPE_CHECKING:
    from coremlscope.planning.onnxruntime.catalog import ProviderRule

#: Name and version of the form of `plan --json`.
SCHEMA = "coremlscope.onnx-plan/1"
_FORMATS = {"neuralnetwork": "NeuralNetwork", "mlprogram": "MLProgram"}
#: Kinds of operators outside that are listed.
_LISTED = 12
#: The estimates of a device: one for each setting.
_SETTINGS = len(SETTINGS)
_COLUMNS = (
    Column("count", is_number=True),
    Column("operator", is_code=True),
    Column("stays outside, because"),
    Column("fix", rank=1),
    Column("then", rank=2),
)
_VERDICT_COLUMNS = (
    Column("device"),
    Column("faster"),
    Column("with the provider"),
    Column("CPU provider"),
    Column("converted by coremltools", rank=1),
)
_COMPARED_COLUMNS = (
    Column("model", is_code=True),
    Column("format"),
    Column("Core ML models", is_number=True),
    Column("operators in them"),
    Column("estimated"),
)
_RULE_COLUMNS = (
    Column("operator", is_code=True),
    Column("rule", is_code=True),
    Column("statement"),
    Column("since", rank=1),
    Column("until", rank=2),
    Column("fix", rank=1),
)
_LOGGED_COLUMNS = (
    Column("count", is_number=True),
    Column("operator", is_code=True),
    Column("stays outside; ONNX Runtime's reason"),
)
_AGREEMENT_COLUMNS = (
    Column("operator", is_code=True),
    Column("rule", is_code=True),
    Column("agree", is_number=True),
    Column("differ", is_number=True),
    Column("for instance", rank=1),
)
_OUTCOMES = {
    "provider": "the provider",
    "cpu": "the CPU provider",
    "close": "too close to call",
    "unknown": "unknown",
}


def verdict_section(profile: Profile) -> Iterator[Block]:
    """Yields what ONNX Runtime makes of an ONNX model, and whether its provider is faster, by device."""
    if not profile.providers:
        return
    doubt = "estimated, not measured; the CPU provider within a factor of 2"
    yield Heading("With ONNX Runtime", doubt if profile.provider_verdicts else "its Core ML provider")
    yield Text(f"{_sentence(profile)}.", "strong")
    yield Table(
        _VERDICT_COLUMNS,
        [
            (
                f"{one.device}, {one.os}",
                _OUTCOMES[one.outcome],
                _best(one),
                _time(one.cpu),
                _time(one.converted),
            )
            for one in profile.provider_verdicts
        ],
    )


def provider_comparison(profiles: Sequence[Profile], names: Sequence[str]) -> Iterator[Block]:
    """Yields what ONNX Runtime's Core ML provider makes of several models, where they are ONNX models."""
    rows = [
        (
            name,
            _FORMATS[report.format],
            str(report.models),
            f"{report.inside}, {report.outside} outside",
            *(_time(one.latency) for one in _fastest(report.estimates)[:1]),
        )
        for profile, name in zip(profiles, names, strict=True)
        for report in profile.providers
    ]
    if rows:
        yield Heading("With ONNX Runtime", "its Core ML provider")
        yield Table(_COMPARED_COLUMNS, [(*row, *[""] * (len(_COMPARED_COLUMNS) - len(row))) for row in rows])


def _sentence(profile: Profile) -> str:
    """Returns the verdict on the first device in one clause, with the fix that helps most."""
    models = {one.format: plural(one.models, "Core ML model") for one in profile.providers}
    verdict = next(iter(profile.provider_verdicts), None)
    cpu = "" if verdict is None or verdict.cpu is None else format_duration(verdict.cpu.value)
    cpu = cpu and f"the CPU provider takes {cpu}, "
    if verdict is not None and verdict.provider is None and verdict.outcome == "cpu":
        return f"On {verdict.device} {cpu}the Core ML provider takes no operator"
    if verdict is None or not cpu or verdict.provider is None:
        counts = ", ".join(f"{count} ({_FORMATS[name]})" for name, count in models.items())
        return f"{counts}; what is faster is not known"
    setting = f"{_FORMATS[verdict.format]}, {verdict.compute_units}"
    core_ml = f"{format_duration(verdict.provider.value)} in {models[verdict.format]} ({setting})"
    close = "too close to call: " if verdict.outcome == "close" else ""
    text = f"On {verdict.device} {close}{cpu}the Core ML provider {core_ml}"
    return text + _after_a_change(profile, verdict.device, verdict.provider.value)


def _after_a_change(profile: Profile, device: str, now_s: float) -> str:
    """Returns the time on a device after the fix that helps most; empty where none does."""
    fixes = [
        (one.latency.value, fix, report)
        for report in profile.providers
        for fix in report.fixes
        for one in fix.estimates
        if one.device == device and one.latency.value < now_s
    ]
    if not fixes:
        return ""
    seconds, fix, report = min(fixes, key=lambda one: one[0])
    ops = list(dict.fromkeys(one.op for one in report.left if one.fix == fix.fix))
    named = f"{fix.count} {ops[0]}" if len(ops) == 1 else f"{plural(fix.count, 'operator')} ({ops[0]} …)"
    return f", and {format_duration(seconds)} after a change of {named}: {fix.fix}"


def _fastest(estimates: Sequence[ProviderEstimate]) -> list[ProviderEstimate]:
    """Returns the estimates on the first device, the fastest first."""
    return sorted(estimates[:_SETTINGS], key=lambda one: one.latency.value)


def _best(verdict: ProviderVerdict) -> str:
    if verdict.provider is None:
        return "nothing runs in Core ML" if verdict.outcome == "cpu" else "unknown"
    return f"{_time(verdict.provider)} {_FORMATS[verdict.format]}, {verdict.compute_units}"


def _time(figure: Figure | None) -> str:
    return "unknown" if figure is None else f"{format_duration(figure.value)} ({within_ms(figure)})"


def provider_sections(report: ProviderReport) -> Iterator[Block]:
    """Yields what the provider makes of a model in one format."""
    default = "ONNX Runtime's own default; " if report.is_default else ""
    yield Heading(f"ModelFormat {_FORMATS[report.format]}", f"{default}ONNX Runtime {report.release}")
    whole = "" if len(report.rounds) == 1 else f"; {report.supported} of {report.nodes} in the first round"
    yield Facts(
        [
            ("partitions", _partitions(report)),
            ("operators", f"{report.inside} in Core ML, {report.outside} outside{whole}"),
            ("graph", report.basis),
        ]
    )
    for given in report.rounds:
        yield Text(given.line, "", 0)
    after = {one.fix: one for one in report.fixes}
    counts = Counter((one.op, one.reason, one.fix) for one in report.left)
    rows = [
        (str(count), op, reason, fix, _after(after.get(fix)))
        for (op, reason, fix), count in counts.most_common()
    ]
    yield Table(_COLUMNS, rows, most=_LISTED, noun="kind of operator", more=" (--json lists them)")
    for one in report.hazards:
        yield Item(f"{one.text[0].upper()}{one.text[1:]}.", one.fix, mark="!", style="warning")
    yield from map(Item, report.notes)


def _after(fix: ProviderFix | None) -> str:
    """Returns the Core ML models after a fix, with the least time on the first device."""
    if fix is None:
        return ""
    times = [_time(one.latency) for one in _fastest(fix.estimates)[:1]]
    return ", ".join([plural(fix.models, "model"), *times])


def _partitions(report: ProviderReport) -> str:
    if not report.models:
        return "none: nothing runs in Core ML"
    text = plural(report.models, "Core ML model")
    if len(report.rounds) > 1:
        text += f", in {plural(len(report.rounds), 'round')}: ONNX Runtime expands operators and asks again"
    return text


def log_sections(profile: Profile) -> Iterator[Block]:
    """Yields what ONNX Runtime wrote of its sessions, and how far the rules agree with it."""
    for log in profile.provider_logs:
        session = f", session {log.session}" if log.session > 1 else ""
        yield Heading("ONNX Runtime's Core ML provider", f"from {log.file}{session}")
        yield Facts([("Core ML models", _models(log)), *_placed(log, profile), *_counts(log)])
        if log.models is not None and not log.rounds and CORE_ML_PROVIDER not in log.placed:
            yield Item("No operator ran in Core ML: the session had no Core ML provider, or fell back.")
        elif log.agreement is None:
            yield from _logged_outside(log)
        else:
            yield from _agreement(log, log.agreement)


def _models(log: ProviderLog) -> str:
    by_rules = "" if log.agreement is None else f"; {log.agreement.models} by the rules"
    return "" if log.models is None else f"{log.models}{by_rules}"


def _placed(log: ProviderLog, profile: Profile) -> Iterator[tuple[str, str]]:
    format_ = "" if log.agreement is None else log.agreement.format
    # The provider's own setting is ALL, and no file names another.
    known = next(
        (
            one
            for report in profile.providers
            for one in report.estimates
            if report.format == format_ and one.compute_units == "all"
        ),
        None,
    )
    for provider, count in log.placed.items():
        is_core_ml = provider == CORE_ML_PROVIDER
        text = plural(count, "Core ML model" if is_core_ml else "operator")
        if provider in log.seconds:
            text += f", {format_duration(log.seconds[provider])} a run (measured)"
            if known is not None:
                figure = known.inside + known.boundaries if is_core_ml else known.outside
                text += f"; {_time(figure)} estimated for {known.device}"
        yield provider, text


def _counts(log: ProviderLog) -> Iterator[tuple[str, str]]:
    """Yields the counts of each round, those by the rules after those of the log."""
    ours = () if log.agreement is None else log.agreement.rounds
    for number, (one, other) in enumerate(zip_longest(log.rounds, ours), 1):
        if not log.rounds:
            return
        texts = [
            f"{given.partitions} partitions, {given.supported} of {given.nodes} operators{by}"
            for given, by in ((one, ""), (other, " by the rules"))
            if given is not None
        ]
        same = one is not None and other is not None and _triple(one) == _triple(other)
        yield f"round {number}", f"{texts[0]}, as by the rules" if same else "; ".join(texts)


def _triple(one: Round) -> tuple[int, int, int]:
    return one.partitions, one.nodes, one.supported


def _logged_outside(log: ProviderLog) -> Iterator[Block]:
    counts = Counter((one.op, one.reason) for one in log.nodes if not one.is_taken)
    rows = [(str(count), op, reason) for (op, reason), count in counts.most_common()]
    yield Table(_LOGGED_COLUMNS, rows, most=_LISTED, noun="kind of operator")
    yield Hint("agreement with the rules: --model, the .onnx file of this session")


def _agreement(log: ProviderLog, agreement: ProviderAgreement) -> Iterator[Block]:
    best = f"{_FORMATS[agreement.format]}, ONNX Runtime {agreement.release}"
    yield Text(f"The rules that agree best are those of {best}.")
    rows = [
        (one.op, one.rule, str(one.agreed), str(len(one.differing) or ""), _differing(one.differing))
        for one in agreement.rules
    ]
    yield Table(_AGREEMENT_COLUMNS, rows, most=_LISTED, noun="rule", more=" (--json lists them)")
    for count, text in (
        (agreement.only_logged, "only in the log"),
        (agreement.only_judged, "only in the judged graph"),
    ):
        if count:
            yield Item(f"{plural(count, 'operator')} {text}: the optimisation of the releases differs")


def _differing(nodes: Sequence[LoggedNode]) -> str:
    first = next(iter(nodes), None)
    if first is None:
        return ""
    said = "takes" if first.is_taken else "leaves"
    return f"ONNX Runtime {said} {first.name or first.op}" + (f": {first.reason}" if first.reason else "")


def onnx_document(profile: Profile) -> Iterator[Block]:
    """Yields what ONNX Runtime's Core ML provider makes of an ONNX model."""
    yield Title(model_name(profile.model.path))
    yield from verdict_section(profile)
    for report in profile.providers:
        yield from provider_sections(report)


def onnx_to_json(profile: Profile) -> dict[str, Any]:
    """The form of `plan --json` for ONNX models: `provider` is the first format, `providers` are all."""
    providers = [msgspec.to_builtins(report) for report in profile.providers]
    return {
        "schema": SCHEMA,
        "model": profile.model.path,
        "provider": providers[0],
        "providers": providers,
        "verdicts": [msgspec.to_builtins(one) for one in profile.provider_verdicts],
    }


def provider_values(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Returns what ONNX Runtime makes of ONNX models, under the key that JSON has; nothing without any."""
    found = [onnx_to_json(profile) for profile in profiles if profile.providers]
    return {"onnxruntime": found} if found else {}


def provider_rules_document(rules: Sequence[ProviderRule]) -> Iterator[Block]:
    """Yields the provider's rules as a table."""
    yield Title(plural(len(rules), "rule"), "of ONNX Runtime's Core ML provider")
    yield Table(
        _RULE_COLUMNS,
        [
            (one.op or "every operator", one.id, one.text, ", ".join(one.formats), one.until, one.fix)
            for one in rules
        ],
    )
