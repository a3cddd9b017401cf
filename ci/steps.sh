# What the scripts of ci/ and .ci/run share: the list of what could not run, the record of the last results, and the
# installation of packages. To be sourced.

# Prints the commit of a recorded result, and whether the tree differs from it.
commit() {
    printf '%s' "$(git rev-parse --short HEAD)"
    git diff --quiet HEAD -- . ':!ci/full.recorded' || printf ' and changes'
}

# Prints the model name of the processor.
cpu() {
    local name
    name=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
    if [ -z "$name" ]; then name=$(uname -m); fi
    if grep -qw avx512_vbmi2 /proc/cpuinfo 2>/dev/null; then name+=' (AVX-512)'; fi
    printf '%s' "$name"
}

not_run() {
    printf 'NOT RUN: %s\n' "$*"
    not_run_list+=("$*")
}
not_run_list=()

# Writes the result of a step to the file that LANECAST_RECORD names, in place of the step's previous result.
record() {
    local name=$1 result=$2 seconds=$3 file=${LANECAST_RECORD-}
    if [ -z "$file" ]; then return; fi
    {
        echo '# The last result of each step of ci/full: result, step, seconds, commit, compiler, processor. Made by that.'
        grep -v '^#' "$file" 2>/dev/null | awk -F '\t' -v name="$name" '$2 != name' || true
        printf '%s\t%s\t%s s\t%s\t%s\t%s\n' "$result" "$name" "$seconds" "$(commit)" "$(rustc --version | cut -d' ' -f1,2)" "$(cpu)"
    } >"$file.new"
    mv "$file.new" "$file"
}

# Installs Debian packages (the arguments after the first) if a command (the first) is missing.
need() {
    local command=$1
    shift
    command -v "$command" >/dev/null && return
    echo "no $command: installing $*"
    if [ -z "${updated-}" ]; then apt-get update -qq && updated=yes; fi
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
