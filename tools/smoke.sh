#!/usr/bin/env bash
# Installs a wheel or an sdist into an empty environment, outside the checkout, and runs what needs no Mac.
set -euo pipefail
package=$(realpath "${1:?the wheel or the sdist}")
python=${2:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "$package"
cd "$folder"
scope=venv/bin/coremlscope
"$scope" --version
"$scope" doctor > /dev/null
venv/bin/python -c "from coremlscope.formats.sample import write_sample; write_sample('sample.mlpackage')"
venv/bin/python -c "from PIL import Image; Image.new('RGB', (300, 200)).save('photo.png')"
"$scope" inspect sample.mlpackage --quiet --json inspect.json
"$scope" estimate sample.mlpackage --device m1,iphone-13 --quiet -o estimate.html -o estimate.json
"$scope" predict sample.mlpackage --input image=photo.png --json predict.json > /dev/null
"$scope" profile sample.mlpackage --iterations 3 --quiet -o profile.html
"$scope" rules ne-conv-width > /dev/null
for file in inspect.json estimate.html estimate.json predict.json profile.html; do test -s "$file"; done
echo "$(basename "$package") works on $("$python" --version)"
