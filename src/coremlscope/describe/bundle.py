"""The description of bundles: what can be read of each model quickly, without extracting weights."""

from __future__ import annotations

from pathlib import PurePosixPath

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.formats.bundles import Bundle, FoundModel
from coremlscope.formats.compiled.interface import find_interface
from coremlscope.formats.compiled.marker import COREMLDATA
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.results.model import BundleSummary, ListedModel

#: The suffix of weight files in packages, which the description does not need.
_WEIGHTS = ".bin"


def describe_bundle(bundle: Bundle) -> BundleSummary:
    """Describes the models in a bundle. A model that cannot be read is listed with the reason."""
    models = tuple(_listed(bundle, model) for model in bundle.models)
    return BundleSummary(str(bundle.path), bundle.kind, models)


def _listed(bundle: Bundle, model: FoundModel) -> ListedModel:
    facts: tuple[str, int, tuple[str, ...]] = "", 0, ()
    problem = ""
    try:
        facts = _facts(bundle, model)
    except CoremlscopeError as error:
        problem = error.message
    except OSError as error:
        problem = f"a file cannot be read: {error.strerror or error}"
    return ListedModel(
        name=bundle.short_name(model),
        source=str(bundle.source(model)),
        inside=model.name,
        container=model.container,
        kind=facts[0],
        spec_version=facts[1],
        functions=facts[2],
        size_bytes=model.size_bytes,
        problem=problem,
    )


def _facts(bundle: Bundle, model: FoundModel) -> tuple[str, int, tuple[str, ...]]:
    """Returns the type, specification version and names of functions of a model."""
    if model.container == "mlmodelc":
        wanted = {model.inside / COREMLDATA, model.inside / METADATA}
        interface = find_interface(bundle.locate(model, wanted.__contains__))
        if interface is None:
            return "", 0, ()
        return interface.kind, interface.spec_version, tuple(interface.description.functions)
    read = container.read_found(bundle, model, wanted=_without_weights)
    return read.kind, read.spec_version, tuple(read.description.functions)


def _without_weights(path: PurePosixPath) -> bool:
    return path.suffix != _WEIGHTS
