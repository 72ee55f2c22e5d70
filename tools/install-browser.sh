#!/usr/bin/env bash
# Installs Debian's Chromium for the tests that open a report. Where it can't, it says so and succeeds: they then skip.
set -euo pipefail

skip() {
    echo "browser: SKIPPED, no Chromium: $1" >&2
    exit 0
}

for name in "${BREAKEVEN_CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && found=$(command -v "$name"); then
        echo "browser: $found"
        exit 0
    fi
done
command -v apt-get >/dev/null || skip "this system has no apt-get; install one, or set BREAKEVEN_CHROMIUM to its path"
[ "$(id -u)" -eq 0 ] || skip "not root; run: sudo apt-get install chromium"

install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium >/dev/null
}
if ! install 2>/dev/null; then
    apt-get -qq update || skip "apt-get update failed (offline?)"
    install || skip "apt-get install chromium failed"
fi
echo "browser: $(command -v chromium)"
