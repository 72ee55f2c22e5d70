#!/usr/bin/env bash
# Rewrites constraints.txt: installs the newest releases that pyproject.toml's ranges admit on Python 3.11 (the oldest
# that is supported, so that the pins exist on the later ones too) into a throw-away environment, and prints what came.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    echo "pins are made on Python 3.11: PYTHON=python3.11 make pins" >&2
    exit 1
fi
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
"$python" -m venv "$env"
"$env/bin/pip" install --quiet --upgrade pip
"$env/bin/pip" install --quiet hatchling editables
# A later torch is taken on purpose only: the measurements are compared across its versions.
"$env/bin/pip" install --quiet "torch==${TORCH:-2.13.0}" --editable '.[torch,int8,int8-cuda,onnx,openvino,load,jax,tensorflow,report,docs,dev]'
{
    sed -n '/^#/p' constraints.txt
    # A local version label (+cpu) names one build of a release: the pin admits them all. What torch's CUDA builds
    # bring along is pinned by torch itself.
    "$env/bin/pip" freeze --all --exclude-editable | sed 's/+.*//' |
        awk '/^nvidia-(ml-py|cudnn-frontend)==/ || !/^(nvidia-|cuda-|triton)/'
} >"$env/constraints.txt"
cat "$env/constraints.txt" >constraints.txt
