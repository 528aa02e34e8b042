#!/usr/bin/env bash
# environment.sh FOLDER PYTHON REQUIREMENT...: a virtual environment in FOLDER with these, made by
# uv, or by pip where uv does not work. A folder with the file `complete` is left as it is.
set -euo pipefail
FOLDER="$1" PYTHON="$2"
shift 2
CACHE="$(dirname "$FOLDER")"

with_uv() {
    local uv="$CACHE/uv" options
    if [ ! -x "$uv/bin/uv" ]; then
        "$PYTHON" -m venv --clear "$uv" && "$uv/bin/python" -m pip install --quiet uv || return 1
    fi
    # uv does not read pip's settings, and where wheels lie on the machine may be one of them.
    mapfile -t options < <("$PYTHON" -m pip config list |
        sed -n "s/^.*find-links='\(.*\)'$/\1/p" | tr ' ' '\n' | sort -u | sed 's/^/--find-links=/')
    export UV_CACHE_DIR="$CACHE/downloads" UV_HTTP_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}"
    "$uv/bin/uv" venv --quiet --clear --python "$PYTHON" "$FOLDER" &&
        "$uv/bin/uv" pip install --compile-bytecode --python "$FOLDER" "${options[@]}" "$@"
}

with_pip() {
    "$PYTHON" -m venv --clear "$FOLDER" && "$FOLDER/bin/python" -m pip install "$@"
}

# Two runs may need the same one at once.
mkdir -p "$CACHE"
exec {lock}>"$FOLDER.lock"
flock "$lock"
[ ! -e "$FOLDER/complete" ] || exit 0
export PIP_DISABLE_PIP_VERSION_CHECK=1
if ! with_uv "$@"; then
    echo "uv failed; the same with pip"
    with_pip "$@"
fi
touch "$FOLDER/complete"
