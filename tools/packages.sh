#!/bin/sh
# Programs that the tests and benches drive for real. Installed where that is possible; otherwise said loudly, and the
# tests that need one say so again when they skip.
set -eu
PATH="$PATH:/usr/sbin:/sbin"  # where servers and network tools live
missing=""
for pair in "$@"; do
  case $pair in
    /*) [ -e "${pair%%=*}" ] ;;
    *) command -v "${pair%%=*}" >/dev/null 2>&1 ;;
  esac || missing="$missing ${pair#*=}"
done
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing:$missing"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 && exit 0
  echo "could not be installed" >&2
fi
echo "MISSING:$missing. Install them (apt-get install$missing), or what needs them is NOT TESTED." >&2
