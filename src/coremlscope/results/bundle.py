"""The models in an app, an archive, a folder or an ExecuTorch program."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BundleSummary", "ListedModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model in a bundle.

    Attributes:
        name: Its name in the bundle: the end of its path, as far as no other model has it.
        source: What names it for commands and functions: `App.ipa#Detector.mlmodelc`, or the path on disk.
        inside: Its path in the bundle.
        container: `mlmodelc`, `mlpackage`, `mlmodel` or `aimodel`.
        kind: Apple's name of the model type; empty if it cannot be told.
        spec_version: Core ML's specification version; 0 if it cannot be told.
        functions: The names of its functions.
        size_bytes: The total size of its files.
        problem: Why it cannot be read; empty if it can.
    """

    name: str
    source: str
    inside: str
    container: str
    kind: str = ""
    spec_version: int = 0
    functions: tuple[str, ...] = ()
    size_bytes: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """A bundle.

    Attributes:
        path: Its path.
        container: `folder`, `zip` or `pte`.
        models: The models in it, by path.
    """

    path: str
    container: str
    models: tuple[ListedModel, ...]
