#!/bin/sh
# setup.sh VENV LOCK: builds VENV with exactly what LOCK pins, and installs this project into it.
set -eu
venv=$1
lock=$2

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: sempre needs Python 3.11 or later; found $(python3 --version 2>&1 || echo none)." >&2
    echo "setup: install it, or name one with: make setup PYTHON=/path/to/python3.11" >&2
    return 1
}

# Also where PYTHONDONTWRITEBYTECODE is set: compiling on every start would take longer than a small program.
compile_sources() {
    "$venv/bin/python" -m compileall -q src
}

python=$(find_python)
if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --clear --python "$python" "$venv"
    uv pip install --quiet --python "$venv/bin/python" --require-hashes -r "$lock"
    uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
    compile_sources
    exit 0
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    echo "setup: $python cannot build virtual environments: its 'ensurepip' is missing." >&2
    echo "setup: on Debian or Ubuntu: sudo apt install $package" >&2
    exit 1
fi
echo "setup: building $venv with $("$python" --version); the first time this downloads the packages"
"$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r "$lock"
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
compile_sources
