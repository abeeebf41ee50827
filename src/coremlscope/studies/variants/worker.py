"""The child process that makes and evaluates variants, one after the other.

Each line of its standard input names the file of a `VariantJob`; it ends with its standard input.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
)
from coremlscope.base.processes.channel import jobs, send, send_error
from coremlscope.base.scratch import scratch_folder
from coremlscope.formats import container
from coremlscope.model.ir import TensorType, ValueType
from coremlscope.planning.rewrites.pictures import Pictures
from coremlscope.planning.rewrites.transforms import Transform
from coremlscope.results.encoding import plain
from coremlscope.results.variants import Variant
from coremlscope.studies.variants.coremltools_steps import (
    SharedSteps,
    open_for_coremltools,
    require_coremltools,
    transform_file,
)
from coremlscope.studies.variants.evaluation import Question, evaluate, read_samples, write_samples

#: How far the share of zeros may be from what was asked for, in percent, without a remark.
_SPARSITY_PERCENT = 1.0
#: The remark on activations whose ranges come from synthetic inputs.
_ON_SYNTHETIC = "these inputs are synthetic: calibrate on real ones (--input) before you use the model"
#: The longest part of a message of coremltools that is shown.
_LONGEST = 300


class VariantJob(msgspec.Struct, frozen=True, kw_only=True):
    """One variant to make.

    Attributes:
        model: The file of the original, as coremltools reads it.
        is_network: True for a neural network.
        transform: The transform; None for the original itself.
        needs_coremltools: Whether coremltools applies it, which takes seconds to import.
        question: What is asked about it.
        target: Where the variant is left; None to remove it.
    """

    model: Path
    is_network: bool
    transform: Transform | None
    needs_coremltools: bool = False
    question: Question
    target: Path | None = None


def main() -> int:
    """Takes jobs until the parent has no more."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    shared = SharedSteps()
    job: VariantJob
    for job in jobs():
        try:
            with scratch_folder() as folder:
                send(variant=plain(make_variant(job, Path(folder), shared)))
        except Exception as error:  # one variant must not stop the others
            send_error(error, job.model.name)
    return 0


def make_variant(job: VariantJob, folder: Path, shared: SharedSteps | None = None) -> Variant:
    """Makes and evaluates one variant.

    Args:
        job: The job.
        folder: A private folder.
        shared: Results of first steps of earlier variants.
    """
    if job.transform is None:
        known = Variant(name="original", title="as it is")
        return evaluate(job.model, job.question, known, is_original=True, fp16=False)
    started = time.monotonic()
    target = job.target or folder / ("variant.mlmodel" if job.is_network else "variant.mlpackage")
    notes, pictures = _transform(job, folder, target, shared)
    if job.transform.has("w8a8") and job.question.synthetic:
        notes = (*notes, _ON_SYNTHETIC)
    known = Variant(
        name=job.transform.name,
        title=job.transform.title,
        notes=tuple(notes),
        seconds=time.monotonic() - started,
    )
    if not target.exists():
        return without_change(known)
    question = job.question
    if pictures is not None:
        question = _on_pictures(job, pictures, folder)
    made = evaluate(target, question, known, is_original=False, fp16=job.transform.has("fp16"))
    pruned = [step for step in job.transform.steps if step.kind == "prune"]
    if pruned:
        made = msgspec.structs.replace(made, notes=(*made.notes, *_on_sparsity(target, pruned[0].percent)))
    return made


def without_change(variant: Variant) -> Variant:
    """Returns a variant whose weights are those of the original as one that was not made."""
    return Variant(
        name=variant.name,
        title=variant.title,
        notes=variant.notes,
        failure="no weight was compressed",
        hint="small weights, and those of other operations, stay as they are",
        seconds=variant.seconds,
    )


def _on_pictures(job: VariantJob, pictures: Pictures, folder: Path) -> Question:
    """Returns the question with images of the same pictures that the original was given as arrays."""
    pairs = [pictures.samples(one, place) for place, one in enumerate(read_samples(job.question.samples))]
    question = msgspec.structs.replace(
        job.question,
        samples=folder / "pictures",
        outputs=folder / "outputs",
        sample_count=len(pairs),
        synthetic=len(pairs),
        devices=(),
    )
    write_samples(question.samples, [original for original, _ in pairs])
    known = Variant(name="original", title="as it is")
    evaluate(job.model, question, known, is_original=True, fp16=False)
    write_samples(question.samples, [images for _, images in pairs])
    return msgspec.structs.replace(question, devices=job.question.devices)


def _transform(
    job: VariantJob, folder: Path, target: Path, shared: SharedSteps | None
) -> tuple[Sequence[str], Pictures | None]:
    assert job.transform is not None
    samples = read_samples(job.question.samples) if job.transform.has("w8a8") else []
    try:
        with ExitStack() as stack:

            def opened(path: Path) -> Any:
                from coremlscope.studies.variants.quick_coremltools import quick_coremltools

                stack.enter_context(quick_coremltools())
                return open_for_coremltools(path)

            return transform_file(
                job.model,
                job.transform,
                target,
                shapes=job.question.shapes,
                samples=samples,
                folder=folder,
                shared=shared,
                opening=opened,
            )
    except (CoremlscopeError, MemoryError, OSError):
        raise
    except Exception as error:  # coremltools and its libraries raise any exception for what they lack
        require_coremltools()
        raise EngineError(
            f"coremltools cannot make it: {first_line(error)}",
            "convert the network again with this setting, or leave the transform out",
        ) from error


def _on_sparsity(path: Path, percent: float) -> Sequence[str]:
    """Returns a remark where coremltools pruned another share than it was asked for."""
    program = container.read(path).content
    stored = whole = 0
    for function in program.functions.values():
        for op in function.graph.walk():
            if op.type == "constexpr_sparse_to_dense":
                given = op.inputs.get("nonzero_data", ()) or [op.attributes["nonzero_data"]]
                stored += _elements(given[0].type)
                whole += _elements(op.outputs[0].type)
    if not whole or abs((1 - stored / whole) * 100 - percent) < _SPARSITY_PERCENT:
        return ()
    return (
        f"coremltools made {1 - stored / whole:.0%} of the weights zero, not {percent:g} %: it leaves large"
        " fp16 weights as they are where NumPy's percentile overflows in fp16",
    )


def _elements(type_: ValueType) -> int:
    return (type_.elements or 0) if isinstance(type_, TensorType) else 0


def first_line(error: Exception) -> str:
    """Returns the first line of an exception's text; full stops, addresses and arrays are left out."""
    text = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", str(error))
    text = re.sub(r"\[[-+.,\d\se]{20,}\]", "[…]", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_LONGEST].rstrip(".")


if __name__ == "__main__":
    os._exit(main())
