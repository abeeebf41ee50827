"""Findings on a model: what it does at a cost that another form would not have.

`RULES` is the table of them; `VALUE_RULES` and `CORE_ML_VALUE_RULES` are those of wrong values in Core AI and
in Core ML. `find_remarks` applies them to a function. What each remark costs on a device is planned again by
`forecast.model_findings`.
"""

from coremlscope.planning.advice.fusion import find_clips
from coremlscope.planning.advice.interface import find_needless_outputs, find_pictures
from coremlscope.planning.advice.moves import find_needless_reshapes
from coremlscope.planning.advice.rule import AdviceRule, Change, Found, FunctionView, Remark
from coremlscope.planning.advice.table import RULES, bind_default_function, find_remarks
from coremlscope.planning.advice.wrong_values import CORE_ML_VALUE_RULES, VALUE_RULES

__all__ = [
    "CORE_ML_VALUE_RULES",
    "RULES",
    "VALUE_RULES",
    "AdviceRule",
    "Change",
    "Found",
    "FunctionView",
    "Remark",
    "bind_default_function",
    "find_clips",
    "find_needless_outputs",
    "find_needless_reshapes",
    "find_pictures",
    "find_remarks",
]
