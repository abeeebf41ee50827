#!/usr/bin/env bash
# Runs each command that meets Core ML once, and writes how each ended to OUT/steps.txt. Left out are those that wait for a
# person or a phone. The models are that of `make profile` and those of tools/mac_models.py.
set -uo pipefail
out=${1:?the folder of the results}
scope=${SCOPE:-.venv/bin/coremlscope}
model=${MODEL:-$out/MobileNetV2.mlpackage}
few=(--iterations 5 --compile-iterations 1 --load-iterations 2 --warmups 2)

# step EXPECTED COMMAND…: the exit status that a command should have.
failed=0
step() {
  local expected=$1 status=0
  shift
  echo "\$ $*"
  "$@" < /dev/null || status=$?
  echo "$status (expected $expected): $*" >> "$out/steps.txt"
  [ "$status" = "$expected" ] || failed=1
}

step 0 "$scope" doctor
step 0 "$scope" profile "$model" "${few[@]}" -o "$out/profile.json" -o "$out/profile.html" -o "$out/profile.md"
step 0 "$scope" profile "$model" "${few[@]}" --compute-units every -o "$out/every.json"
step 0 "$scope" profile "$model" "${few[@]}" --engine onnxruntime -o "$out/onnxruntime.json"
step 0 "$scope" profile "$model" "${few[@]}" --other-predictions -o "$out/others.json"
step 0 "$scope" compare "$model" --compute-units every "${few[@]}" -o "$out/settings.txt"
step 0 "$scope" plan "$model" --against-rules -o "$out/plan.json" --share "$out/evidence.json"
step 0 "$scope" compare "$out/profile.json" "$out/every.json"

# Arrays, states, functions and a compiled model; every verb that runs Core ML.
models=$out/models
step 0 "${PYTHON:-.venv/bin/python}" tools/mac_models.py "$models"
step 0 "$scope" "$models/array.mlpackage" --json "$out/answer.json"
for name in array states functions; do
  step 0 "$scope" profile "$models/$name.mlpackage" "${few[@]}" --compute-units every -o "$out/$name.json"
  step 0 "$scope" verify "$models/$name.mlpackage" --reference "$models/$name.mlpackage" --compute-units every
done
step 0 "$scope" profile "$models/functions.mlpackage" "${few[@]}" --function cosine -o "$out/cosine.json"
step 0 "$scope" profile "$models/array.mlmodelc" "${few[@]}" -o "$out/compiled.json"
step 0 "$scope" profile "$models/array.mlpackage" "${few[@]}" --other-predictions -o "$out/array-others.json"
step 0 "$scope" plan "$models/functions.mlpackage" --json "$out/functions-plan.json"
step 0 "$scope" predict "$models/array.mlpackage" --input "x=$models/x.npy" --engine coreml --json "$out/predict.json"
step 0 "$scope" isolate "$models/array.mlpackage" --range .. -o "$out/part.mlpackage" --overwrite "${few[@]:0:2}"

# A recording of predictions with the template Core ML, and its tables: the first of a real one.
if xcrun --find xctrace > /dev/null 2>&1; then
  rm -rf "$out/predictions.trace"
  step 0 xcrun xctrace record --template 'Core ML' --time-limit 20s --no-prompt --output "$out/predictions.trace" \
    --launch -- "$(command -v "${PYTHON:-.venv/bin/python}")" -c "
import sys, time, numpy as np, coremltools as ct
model = ct.models.CompiledMLModel(sys.argv[1], ct.ComputeUnit[sys.argv[2].upper()])
end = time.monotonic() + 5
while time.monotonic() < end: model.predict({'x': np.zeros((8, 64), np.float32)})
" "$models/array.mlmodelc" "${COREMLSCOPE_CORE_ML_UNITS:-all}"
  xcrun xctrace export --input "$out/predictions.trace" --toc --output "$out/predictions-toc.xml" || true
  for table in $(grep -o 'schema="[^"]*"' "$out/predictions-toc.xml" 2> /dev/null | cut -d'"' -f2 | grep -Ei 'core-?ml|ane|neural' | sort -u); do
    xcrun xctrace export --input "$out/predictions.trace" --xpath "//table[@schema=\"$table\"]" --output "$out/predictions-$table.xml" || true
  done
  rm -rf "$out/predictions.trace"
fi

# Errors of Core ML itself: a version of the format that no system knows, and a package without a model.
"${PYTHON:-.venv/bin/python}" - "$model" "$out/newer.mlpackage" "$out/empty.mlpackage" <<'PYTHON'
import shutil, sys
from pathlib import Path
from coremltools.proto import Model_pb2

model, newer, empty = map(Path, sys.argv[1:])
for copy in (newer, empty):
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(model, copy)
file = next(newer.rglob("*.mlmodel"))
spec = Model_pb2.Model.FromString(file.read_bytes())
spec.specificationVersion = 99
file.write_bytes(spec.SerializeToString())
next(empty.rglob("*.mlmodel")).write_bytes(b"\x08\x09")
PYTHON
step 6 "$scope" profile "$out/newer.mlpackage" "${few[@]}"
step 1 "${PYTHON:-.venv/bin/python}" -c "from coremlscope.measure.coreml.plan_child import send_plan; send_plan('$out/empty.mlpackage', 'cpu_only', '$out')"
step 10 "$scope" profile "$model" --timeout 1
exit "$failed"
