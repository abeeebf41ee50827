"""A model planned once on one device, and estimated again with changes that no rule describes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec.structs

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnits, Device
from coremlscope.devices.unit import SETTINGS, ComputeUnit
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.functions import functions_of
from coremlscope.planning.forecast.kernels import Kernels, Prediction
from coremlscope.planning.forecast.planner import plan_functions
from coremlscope.planning.forecast.what_if import estimate_saving
from coremlscope.planning.placement.backend import BACKENDS_OF
from coremlscope.planning.placement.hypotheses import Planning, plan_with_costs
from coremlscope.planning.placement.replan import Costs

__all__ = ["Again"]


class Again:
    """The default function of a model on a device under a setting.

    Args:
        model: The model.
        device: The chip and system.
        setting: The setting of compute units.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs.
    """

    def __init__(
        self,
        model: Model,
        device: Device,
        setting: ComputeUnits,
        function: str | None,
        shapes: Mapping[str, Sequence[int]],
    ) -> None:
        self.model, self.device, self.setting = model, device, setting
        self.function, self.shapes = function, shapes

    @cached_property
    def _planned(self) -> dict[str, Planning]:
        return plan_functions(self.model, self.device, self.setting, shapes=self.shapes)[0]

    @cached_property
    def _prediction(self) -> Prediction | None:
        """The prediction; None where the function has no operations."""
        main = functions_of(self.model, self.function, every=False, shapes=self.shapes)
        if not main:
            return None
        placed = [self._planned[one.key].placed for one in main]
        return Kernels(main).on(self.device, [self.setting], placed)[self.setting]

    def with_bits(self, bits: int) -> Figure | None:
        """Estimates what a prediction takes less with weights of at most so many bits each."""
        prediction = self._prediction
        if prediction is None:
            return None
        kernels = [
            msgspec.structs.replace(one, weight_bytes=min(one.weight_bytes, one.weights * bits / 8))
            for one in prediction.kernels.fused
        ]
        before, after = prediction.estimate(), prediction.estimate(fused=kernels)
        return estimate_saving(before, after, range(len(kernels)))

    def by_fix(self, function: str, unit: ComputeUnit, rule: str) -> Iterator[tuple[str, int, Figure]]:
        """Yields each fix of a rule, the number of its operations, and what a prediction takes less with it.

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
        before = prediction.estimate()
        again = plan_with_costs(planning, self.setting, list(groups.values()))
        for (fix, costs), one in zip(groups.items(), again, strict=True):
            yield fix, len(costs), estimate_saving(before, prediction.estimate(one.moved))
