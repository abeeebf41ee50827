from __future__ import annotations

import msgspec.structs

from coremlscope.measure.embedded.findings import MeasurementEvidence, remark_on
from tests.support.profiles import small_profile


def test_operations_are_named_as_their_author_named_them() -> None:
    profile = small_profile()
    row = next(row for row, name in enumerate(profile.ops.name) if name != profile.ops.id[row])
    found = MeasurementEvidence(
        measurement=profile.measurement, ops=profile.ops, problems=((profile.ops.id[row], "one is odd"),)
    )
    (finding,) = (one for one in remark_on(found) if one.id == "contradictory-operations")
    shown = f"{profile.ops.type[row]} {profile.ops.name[row]!r}"
    assert finding.text == f"The arguments of {shown} contradict each other: one is odd."
    assert finding.ops == (profile.ops.id[row],)
    other = msgspec.structs.replace(found, problems=(("main/999", "one is odd"),))
    assert "main/999" not in "".join(one.text for one in remark_on(other))
