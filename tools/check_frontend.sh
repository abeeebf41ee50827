#!/usr/bin/env bash
# Checks the report page: types, lint and format, unit tests, and that the bundle in the package is the build of
# frontend/. Passes with a message if Node is absent or its packages cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null
then
  echo "the page was not checked: this requires Node 20.19 or newer"
  exit 0
fi
if ! make --no-print-directory frontend/node_modules/.package-lock.json
then
  echo "the page was not checked: the packages that build it could not be installed"
  exit 0
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
(
  cd frontend
  npm run --silent types
  npm run --silent lint
  npm run --silent test
  npx --no-install vite build --logLevel warn --outDir "$built" --emptyOutDir
)
if ! diff -rq "$built" src/coremlscope/reports/bundle; then
  echo "src/coremlscope/reports/bundle differs from the build of frontend/: run make frontend" >&2
  exit 1
fi
