"""A model planned once on one device, and estimated again with changes that no rule describes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, partial

import msgspec.structs

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnits, Device
from coremlscope.devices.unit import SETTINGS, ComputeUnit
from coremlscope.formats.packaging import spec_of
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.functions import ModelFunction, kernels_of, planned_functions
from coremlscope.planning.forecast.kernels import Kernels, Prediction
from coremlscope.planning.forecast.placed import place_function, place_units
from coremlscope.planning.forecast.what_if import estimate_saving
from coremlscope.planning.placement.backend import BACKENDS_OF
from coremlscope.planning.placement.hypotheses import Planning, plan_with_costs
from coremlscope.planning.placement.search import Costs
from coremlscope.planning.rewrites.clips import read_network, with_clips
from coremlscope.planning.rewrites.table import REWRITES
from coremlscope.planning.rewrites.transforms import parse_transform, why_not
from coremlscope.results.estimate import Estimate
from coremlscope.runtime.execution.wiring import bind_functions


class ChangedModels:
    """A model and those that transforms make of it, each divided into kernels once for all devices.

    Args:
        model: The model.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs.
        own: A user's own measurements, which refine estimates.
    """

    def __init__(
        self,
        model: Model,
        function: str | None,
        shapes: Mapping[str, Sequence[int]],
        own: Own = NOTHING_OWN,
    ) -> None:
        self.model, self._function, self._shapes, self._own = model, function, shapes, own
        #: Returns the model that a transform makes; None where only coremltools makes it.
        self.after = cache(self._make)
        #: Returns whether `what-if` makes the changed model, with coremltools or without.
        self.can_make = cache(self._can_make)

    def _can_make(self, transform: str) -> bool:
        return bool(transform) and not why_not(parse_transform(transform), self.model)

    def divide(self, model: Model) -> tuple[Sequence[ModelFunction], Kernels]:
        """Returns the functions and kernels of one of the models."""
        bound = bind_functions(model, self._function, self._shapes)
        functions = planned_functions(bound)
        return functions, kernels_of(model, bound, functions, self._own)

    def _make(self, transform: str) -> Model | None:
        model = self.model
        for step in parse_transform(transform).steps:
            if step.kind == "relu6":
                model = read_network(with_clips(spec_of(model))[0])
            elif step.kind in REWRITES:
                model, _ = REWRITES[step.kind](model)
            else:
                return None
        return model


class Again:
    """A function of a model on a device under a setting.

    Args:
        model: The model.
        device: The chip and system.
        setting: The setting.
        settings: The settings that the forecast of the answer planned, in its order.
        advised: Those for which it looked for advice; none for a changed model.
        models: The model and those that are made of it.
    """

    def __init__(
        self,
        model: Model,
        device: Device,
        setting: ComputeUnits,
        settings: Sequence[ComputeUnits],
        advised: Sequence[ComputeUnits],
        models: ChangedModels,
    ) -> None:
        self.model, self.device, self.setting = model, device, setting
        self.settings, self.advised, self.models = tuple(settings), tuple(advised), models

    @cached_property
    def _planned(self) -> dict[str, Planning]:
        """The plans of functions, which the forecast of the answer made: bindings are shared."""
        place = partial(place_function, device=self.device, settings=self.settings, advised=self.advised)
        functions, _ = self.models.divide(self.model)
        return {one.key: place(one) for one in functions}

    @cached_property
    def _prediction(self) -> Prediction | None:
        """The prediction; None where the function has no operations."""
        functions, kernels = self.models.divide(self.model)
        if not functions:
            return None
        placed = [one.placed for one in self._planned.values()]
        return kernels.on(self.device, [self.setting], placed)[self.setting]

    @cached_property
    def _estimate(self) -> Estimate:
        assert self._prediction is not None
        return self._prediction.planned

    def changed(self, model: Model) -> Figure | None:
        """Estimates what a changed model takes less; None where that is not known.

        The kernels of operations whose names stay are the same ones.
        """
        before = self._prediction
        functions, kernels = self.models.divide(model)
        if before is None or not functions:
            return None
        is_advised = bool(self.advised)
        placed = [place_units(one, self.device, self.setting, with_advice=is_advised) for one in functions]
        units = {id_: unit for one in placed for id_, unit in one.items()}
        after = kernels.under(self.device, self.setting, units)
        places = {kernel.name: place for place, kernel in enumerate(before.kernels.fused)}
        kept = [places.get(kernel.name, -1) for kernel in kernels.fused]
        return estimate_saving(self._estimate, after.planned, kept)

    def with_bits(self, bits: int) -> Figure | None:
        """Estimates what a prediction takes less with weights of at most so many bits each."""
        prediction = self._prediction
        if prediction is None:
            return None
        kernels = [
            msgspec.structs.replace(one, weight_bytes=min(one.weight_bytes, one.weights * bits / 8))
            for one in prediction.kernels.fused
        ]
        before, after = self._estimate, prediction.estimate(fused=kernels)
        return estimate_saving(before, after, range(len(kernels)))

    def by_fix(self, function: str, unit: ComputeUnit, rule: str) -> Iterator[tuple[str, int, Figure]]:
        """Yields each fix of a rule, how many operations move to the unit, and what a prediction takes less.

        Args:
            function: The function's name in plans.
            unit: The unit that the rule keeps operations from.
            rule: The rule's id.
        """
        planning, prediction = self._planned.get(function), self._prediction
        if planning is None or prediction is None:
            return
        groups: dict[str, dict[str, Costs]] = defaultdict(dict)
        for id_, verdicts in planning.verdicts.items():
            reasons = {reason.rule: reason for reason in verdicts[unit].reasons}
            if rule in reasons and reasons[rule].fix:
                units = [one for one in SETTINGS[self.setting] if verdicts[one].supported == "yes"]
                units += [unit] if len(reasons) == 1 else []
                prices = planning.prices[id_]
                groups[reasons[rule].fix][id_] = {b: prices[b].ms for u in units for b in BACKENDS_OF[u]}
        before = self._estimate
        again = plan_with_costs(planning, self.setting, list(groups.values()))
        for fix, one in zip(groups, again, strict=True):
            count = sum(to == unit for to in one.moved.values())
            yield fix, count, estimate_saving(before, prediction.estimate(one.moved))
