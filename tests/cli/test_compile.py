"""The verbs `compile` and `cache`, and the other verbs on compiled models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.runtime.execution.cache import ArtefactCache, default_cache


def _fill(key: str, name: str, used: float) -> None:
    folder = default_cache().add(key, lambda folder: (folder / "f").write_bytes(bytes(1000)), name)  # type: ignore[arg-type]
    os.utime(folder, (used, used))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtefactCache:
    """A cache of two entries."""
    monkeypatch.setenv("COREMLSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COREMLSCOPE_CACHE_LIMIT", "2GB")
    _fill("k1", "first.mlmodelc", 1_700_000_000.0)
    _fill("k2", "second.mlmodelc cosine", 1_800_000_000.0)
    return default_cache()


def _without_place(result: Any) -> Any:
    """Removes the model's path and size, the time, and what is advised for a file, from results."""
    if isinstance(result, dict):
        return {
            name: _without_place(value)
            for name, value in result.items()
            if name not in ("model", "made", "changes", "headline")
        }
    return [_without_place(value) for value in result] if isinstance(result, list) else result


class TestCompile:
    def test_writes_next_to_where_it_is_called(
        self,
        sample: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["compile", str(sample)]) == 0
        assert capsys.readouterr().err.startswith("wrote sample.mlmodelc (")
        assert [path.name for path in tmp_path.iterdir()] == ["sample.mlmodelc"]
        assert container.sniff("sample.mlmodelc") == "mlmodelc"

    def test_overwrites_only_when_asked(
        self, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = tmp_path / "m.mlmodelc"
        assert main(["compile", str(sample), str(target), "--quiet"]) == 0
        assert main(["compile", str(sample), str(target)]) == 8
        printed = capsys.readouterr()
        assert printed.err.startswith(f"error: {target} already exists\n")
        assert "--overwrite" in printed.err
        assert main(["compile", str(sample), str(target), "--overwrite"]) == 0

    def test_a_compiled_model_is_refused(
        self, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["compile", str(sample), str(tmp_path / "m.mlmodelc"), "--quiet"]) == 0
        assert main(["compile", str(tmp_path / "m.mlmodelc"), str(tmp_path / "n.mlmodelc")]) == 2
        assert "is a compiled model already" in capsys.readouterr().err

    def test_verbs_agree_on_the_package_and_its_compiled_form(
        self, sample: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = tmp_path / "sample.mlmodelc"
        assert main(["compile", str(sample), str(target), "--quiet"]) == 0
        for verb in (
            ["predict", "--input", f"image={photo}"],
            ["plan", "--device", "m1"],
            ["estimate", "--device", "m1"],
        ):
            results = []
            for path in (sample, target):
                assert main([verb[0], str(path), *verb[1:], "--json", "-"]) == 0
                results.append(_without_place(json.loads(capsys.readouterr().out)))
            assert results[0] == results[1], verb


class TestCache:
    def test_lists_entries(self, cache: ArtefactCache, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cache"]) == 0
        out = capsys.readouterr().out
        assert str(cache.root) in out.replace("\n", "")
        assert "of at most 2.00 GB" in out
        assert out.index("second.mlmodelc cosine") < out.index("first.mlmodelc")
        assert "2023-11-14 22:13" in out

    @pytest.mark.parametrize("width", ["60", "80", "140"])
    def test_fits_the_terminal(
        self,
        width: str,
        cache: ArtefactCache,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("COLUMNS", width)
        assert main(["cache"]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if str(cache.root)[:8] not in line]
        assert max(map(len, lines)) <= int(width)

    def test_as_json(self, cache: ArtefactCache, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cache", "--json", "-"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["schema"], data["folder"], data["limit_bytes"]) == (
            "coremlscope.cache/1",
            str(cache.root),
            2 * 10**9,
        )
        seal = (cache.root / "k1" / "seal.json").stat().st_size
        assert [(entry["key"], entry["size_bytes"]) for entry in data["entries"]] == [
            ("k2", 1000 + len("second.mlmodelc cosine") + seal),
            ("k1", 1000 + len("first.mlmodelc") + seal),
        ]

    def test_clear(self, cache: ArtefactCache, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cache", "clear"]) == 0
        assert "removed  2" in capsys.readouterr().out
        assert cache.entries() == []

    def test_an_unknown_action(self, cache: ArtefactCache, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cache", "empty"]) == 2
        assert "invalid action 'empty'" in capsys.readouterr().err
        assert len(cache.entries()) == 2
