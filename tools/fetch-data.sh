#!/usr/bin/env bash
# Puts Fashion-MNIST (MIT licence, Debian's package dataset-fashion-mnist) into the data cache. Installs nothing; does
# nothing when the files are there. Where it can't, it says so and succeeds: the tests that need the data then skip.
set -euo pipefail

target=${BREAKEVEN_DATA:-${XDG_CACHE_HOME:-$HOME/.cache}/breakeven/data}/fashion-mnist
package=dataset-fashion-mnist
names=(train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte)

complete() { # FOLDER
    local name
    for name in "${names[@]}"; do
        [ -s "$1/$name.gz" ] || return 1
    done
}

copy_from() { # FOLDER: whole files only appear under their final names
    mkdir -p "$target"
    local name
    for name in "${names[@]}"; do
        cp "$1/$name.gz" "$target/$name.gz.part"
        mv "$target/$name.gz.part" "$target/$name.gz"
    done
    echo "data: Fashion-MNIST is in $target"
}

skip() {
    echo "data: SKIPPED, no Fashion-MNIST: $1" >&2
    exit 0
}

download() { # into the current folder
    apt-get -qq -o APT::Sandbox::User=root download "$package"
}

if complete "$target"; then
    echo "data: Fashion-MNIST is in $target"
    exit 0
fi
if complete /usr/share/datasets/fashion-mnist; then
    copy_from /usr/share/datasets/fashion-mnist
    exit 0
fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "this system has no apt-get"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if ! download 2>/dev/null; then
    # The package lists may be missing or old; only root may renew them.
    [ "$(id -u)" -ne 0 ] || apt-get -qq update || skip "apt-get update failed (offline?)"
    download || skip "apt-get download $package failed (offline, or not Debian?)"
fi
dpkg -x "$package"_*.deb unpacked
complete unpacked/usr/share/datasets/fashion-mnist || skip "$package no longer holds the four files"
copy_from unpacked/usr/share/datasets/fashion-mnist
