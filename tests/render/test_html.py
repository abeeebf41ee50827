"""The page as a file: what is in it, and that nothing in it can become markup or reach the network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from typing import Any

import msgspec.structs

from coremlscope.base.findings import Finding
from coremlscope.reports.json import plain
from coremlscope.reports.page import render_html
from coremlscope.results.encoding import decode
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan_encoding import encode_ops
from coremlscope.results.profile import Profile, profiles_from_json
from tests.support import golden
from tests.support.large_profiles import large_profile
from tests.support.planned_rows import with_columns
from tests.support.profiles import small_profile, small_summary

HOSTILE = "</script><!-- <script>\u2028 & \" ' \ud83d\ude00".encode("utf-16", "surrogatepass").decode(
    "utf-16"
)


def payload(page: str) -> Any:
    found = re.findall(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_page_holds_the_json() -> None:
    for profile in (small_profile(), large_profile(4)):
        held = payload(render_html(profile))["result"]
        assert held == plain(profile.to_json())
        assert Profile.from_json(held) == profile
    summary = small_summary(list_ops=True)
    held = payload(render_html(summary))["result"]
    assert held["schema"] == "coremlscope.model/2"
    assert decode(held, ModelSummary) == summary


def test_the_page_of_several_profiles() -> None:
    profiles = (small_profile(), large_profile(4))
    page = render_html(profiles)
    held = payload(page)["result"]
    assert held["schema"] == "coremlscope.profiles/2"
    assert profiles_from_json(held) == profiles
    assert "<title>2 models – coremlscope</title>" in page


def test_planned_costs_have_six_digits() -> None:
    profile = large_profile(4)
    cost = 1 / 3
    columns = encode_ops(profile.plans[0].ops)
    chosen = msgspec.structs.replace(columns.choices["all"], detour_ms={"cpu": (cost, None, 0.0, 1e-9 / 3)})
    plan = with_columns(
        profile.plans[0],
        profile.ops,
        cost_ms={**columns.cost_ms, "bnns": (cost, None, 2.0, 0.0)},
        choices={**columns.choices, "all": chosen},
    )
    one = msgspec.structs.replace(profile, plans=(plan,))
    for held in (payload(render_html(one)), payload(render_html((one, one)))):
        (shown,) = held["result"].get("profiles", [held["result"]])[0]["plans"]
        assert shown["ops"]["cost_ms"]["bnns"] == [0.333333, None, 2.0, 0.0]
        assert shown["ops"]["choices"]["all"]["detour_ms"] == {"cpu": [0.333333, None, 0.0, 3.33333e-10]}
    assert plan.ops[0].choices["all"].detour_ms["cpu"] == cost


def test_payload_with_plans() -> None:
    held = payload(render_html(large_profile(4)))["result"]
    golden.check("page-payload.json", json.dumps(held, ensure_ascii=False, indent=1) + "\n")


def test_hostile_names_end_nothing() -> None:
    profile = large_profile(4, name=HOSTILE + "{index}")
    model = msgspec.structs.replace(profile.model, path=f"a/{HOSTILE}", description=HOSTILE, author=HOSTILE)
    findings = (Finding(id=HOSTILE, severity="info", text=HOSTILE, hint=HOSTILE),)
    page = render_html(msgspec.structs.replace(profile, model=model, findings=findings))
    assert page.count("</script") == page.count("<script") == 2
    assert "<!--" not in page
    assert "\u2028" not in page
    assert re.findall(r"<title>(.*?)</title>", page, re.DOTALL)[0].startswith(
        "script&gt;&lt;!-- &lt;script&gt;"
    )
    shown = HOSTILE.replace("\u2028", "\\u2028")
    assert payload(page)["result"]["ops"]["name"][0] == f"{shown}0"


def test_the_policy_allows_this_script_and_this_style_alone() -> None:
    page = render_html(small_profile())
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_the_bundle_is_small_and_whole() -> None:
    folder = resources.files("coremlscope.reports") / "bundle"
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("report.js", "report.css")]
    assert sum(len(text.encode()) for text in texts) < 1_000_000
    assert not re.search(r"</(script|style)|<!--", "".join(texts), re.IGNORECASE)
    assert not re.search(r"@import|url\((?!data:)", texts[1])
