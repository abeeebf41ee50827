#!/usr/bin/env bash
# Runs each command of docs/guides/mac.md once, and writes how each ended to OUT/steps.txt. Left out are those that wait for
# a person, a phone or Xcode's Instruments. The model is that of `make profile`.
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
step 1 "${PYTHON:-.venv/bin/python}" -m coremlscope.measure.coreml.plan_child "$out/empty.mlpackage" cpu_only "$out"
step 10 "$scope" profile "$model" --timeout 1
exit "$failed"
