"""Findings on a model: what it does at a cost that another form would not have.

`RULES` is the table of them; `find_remarks` applies it to a function. What each remark costs on a device is
planned again by `forecast.model_findings`.
"""

from coremlscope.advice.interface import find_needless_outputs
from coremlscope.advice.rule import AdviceRule, Change, Found, Remark, Subject
from coremlscope.advice.table import RULES, bind_subject, find_remarks

__all__ = [
    "RULES",
    "AdviceRule",
    "Change",
    "Found",
    "Remark",
    "Subject",
    "bind_subject",
    "find_needless_outputs",
    "find_remarks",
]
