#!/usr/bin/env bash
# Fills ./wheelhouse with breakeven and its core dependencies as wheels for another Linux machine that reaches no
# registry. No framework: that machine has its own, and its numpy stays when it is in range. There:
#   python -m pip install --no-index --find-links wheelhouse breakeven
set -euo pipefail
cd "$(dirname "$0")/.."

version=${PYTHON_VERSION:?say for which Python: make wheelhouse PYTHON_VERSION=3.12}
machine=${MACHINE:-x86_64}
python=${PYTHON:-python3}

platforms=()
for libc in manylinux_2_28 manylinux_2_27 manylinux_2_24 manylinux_2_17 manylinux2014 manylinux_2_12 manylinux2010; do
    platforms+=(--platform "${libc}_${machine}")
done
mapfile -t core < <("$python" -c '
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")')

mkdir -p wheelhouse
"$python" -m pip download --quiet --dest wheelhouse --constraint constraints.txt --only-binary=:all: \
    --implementation cp --python-version "$version" "${platforms[@]}" "${core[@]}"
"$python" -m pip wheel --quiet --no-deps --build-constraint constraints.txt --wheel-dir wheelhouse .
du -sh wheelhouse
