#!/bin/sh
# Makes the development environment: a virtual environment with Holdfast in it, its tools pinned in pyproject.toml.
set -eu
venv=$1
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed: make PYTHON=python3.11 ..." >&2; exit 1; }
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv" || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv==0.13.7'
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --group dev --editable .
