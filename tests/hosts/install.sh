#!/usr/bin/env bash
# Installs the hosts of the live tests, in the versions they were observed in, into a folder outside
# the repository: 1.4 GB from npm. Runs twice as well as once, and says why where it cannot.
#
#   tests/hosts/install.sh DIR && MCP_COMPACTION_HOSTS=DIR pytest -n 0 tests/hosts/test_live_hosts.py
#   tests/hosts/install.sh DIR newest    the versions that npm gives today
set -euo pipefail
folder=${1:?name the folder that is to keep the hosts}
which=${2:-observed}

cannot() {
  echo "the hosts of the live tests are not installed: $*" >&2
  exit 1
}

install() { # HOST PACKAGE@VERSION...
  local host=$1
  shift
  [ "$(cat "$folder/$host/installed" 2>/dev/null)" != "$*" ] || return 0
  mkdir -p "$folder/$host"
  [ -f "$folder/$host/package.json" ] || echo '{"private": true}' >"$folder/$host/package.json"
  # The binaries come as optional packages; no script of theirs is needed.
  npm install --prefix "$folder/$host" --silent --no-audit --no-fund --ignore-scripts \
    --fetch-retries 1 --fetch-timeout 60000 "$@" || cannot "npm cannot have $*"
  echo "$*" >"$folder/$host/installed"
}

at() { # PACKAGE OBSERVED: the package in the version that is wanted
  local version=$2
  [ "$which" = observed ] || version=$(npm view --silent "$1" version) || cannot "npm has no $1"
  echo "$1@$version"
}

command -v npm >/dev/null || cannot "npm is needed"
install claude "$(at @anthropic-ai/claude-code 2.1.325)"
install codex "$(at @openai/codex 0.166.0)"
install opencode "$(at opencode-ai 1.18.33)" "$(at @opencode-ai/plugin 1.18.33)"
install gemini "$(at @google/gemini-cli 0.61.0)"
echo "the hosts of the live tests are installed: $folder"
