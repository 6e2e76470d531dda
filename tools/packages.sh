#!/bin/sh
# Installs the packages of programs that tests and benches drive: packages.sh PROGRAM=PACKAGE ... or /FILE=PACKAGE ...
# What cannot be installed is named, and the tests that need it say so again when they skip. With REQUIRE_PACKAGES=1, as
# in continuous integration, sudo is used where it needs no password, and what is still missing is an error.
set -eu
PATH="$PATH:/usr/sbin:/sbin"  # where servers and network tools live
list_missing() {
  for pair in "$@"; do
    case $pair in
      /*) [ -e "${pair%%=*}" ] ;;
      *) command -v "${pair%%=*}" >/dev/null 2>&1 ;;
    esac || printf ' %s' "${pair#*=}"
  done
}
install() {
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>"$errors"
}
missing=$(list_missing "$@")
[ -n "$missing" ] || exit 0
sudo=""
[ "$(id -u)" = 0 ] || [ -z "${REQUIRE_PACKAGES:-}" ] || sudo="sudo -n"
if command -v apt-get >/dev/null 2>&1 && [ "$($sudo id -u 2>/dev/null)" = 0 ]; then
  echo "installing:$missing"
  errors=$(mktemp)
  trap 'rm -f "$errors"' EXIT
  $sudo apt-get update -qq >/dev/null 2>"$errors" || cat "$errors" >&2
  # Releases divide programs into packages differently (docker.io alone, or with docker-cli).
  known=""
  for package in $missing; do ! apt-cache show "$package" >/dev/null 2>&1 || known="$known $package"; done
  # One that cannot be installed must not keep the others away.
  # shellcheck disable=SC2086
  install $known || for package in $known; do install "$package" || tail -n 2 "$errors" >&2; done
  missing=$(list_missing "$@")
  [ -n "$missing" ] || exit 0
fi
echo "MISSING:$missing. Install them (apt-get install$missing), or what needs them is NOT TESTED." >&2
[ -z "${REQUIRE_PACKAGES:-}" ]
