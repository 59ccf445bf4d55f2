#!/usr/bin/env bash
# The tests that ask for programs, as on a machine that has none of them: in a clean clone of what is
# committed, with the programs hidden, as an ordinary user. A browser is fetched; nothing else is.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d /var/tmp/mrtuner-bare-XXXXXX)
trap 'rm -rf "$place"' EXIT
git clone --quiet "file://$PWD" "$place/clone"
mkdir "$place/home"

as_user=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody: "$place"
    as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)
fi
run() { (cd "$place/clone" && exec env HOME="$place/home" TMPDIR=/var/tmp "${as_user[@]}" "$@"); }

# Root's own Python may lie where nobody else can read it.
for python in "${PYTHON:-python3}" /usr/bin/python3; do
    run "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo "error: no Python 3.11 or later with venv that the user nobody can run" >&2
    exit 1
fi

run make --silent PYTHON="$python" install page
run .venv/bin/python tools/fetch_browser.py --anyway || echo "the tests of pages are skipped" >&2
run env MRTUNER_TEST_HIDE=all .venv/bin/python -m pytest \
    -n "${WORKERS:-3}" --dist loadfile -m "asks and not slow"
