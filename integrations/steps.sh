# What the scripts of integrations/ share. To be sourced from a directory below this one.

root=$(cd ../.. && pwd)
name=$(basename "$PWD")
work=$root/target/integrations/$name
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$work/target
mkdir -p "$work"

# Puts the source of a crate, as published, into a directory below $work.
published() {
    local crate=$1 version=$2 to=$3
    rm -rf "$work/fetch" "${work:?}/$to"
    mkdir -p "$work/fetch/src"
    touch "$work/fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$crate" "$version" >"$work/fetch/Cargo.toml"
    (cd "$work/fetch" && cargo fetch --quiet)
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-$version" "$work/$to"
    printf '\n[workspace]\n' >>"$work/$to/Cargo.toml"
}

# As `published`, and applies the patch of this directory, or of another, to it; it depends on the lanecast of this repository.
patched() {
    local crate=$1 version=$2 to=$3 patches=${4-.}
    published "$crate" "$version" "$to"
    patch --quiet -p1 -d "$work/$to" <"$patches/$version.patch"
    printf '\n[patch.crates-io]\nlanecast = { path = "%s" }\n' "$root" >>"$work/$to/Cargo.toml"
}

# Prints the names of the tests that pass in a directory below $work; the output of the tests is in a log beside it.
passed() {
    local in=$1
    shift
    (cd "$work/$in" && cargo test --no-fail-fast "$@" >"$work/$in.log" 2>&1) || true
    sed -n 's/^test \(.*\) \.\.\. ok$/\1/p' "$work/$in.log" | sort
}

# Checks that the same tests pass in the patched crate as in the published one, and that lanecast runs at all: with an
# instruction set that does not exist, each of its casts is an error, so that fewer tests pass. The directories are
# published and patched, with $prefix before that.
compare() {
    local theirs ours without published=${prefix-}published patched=${prefix-}patched
    theirs=$(passed "$published" "$@")
    ours=$(passed "$patched" --features lanecast "$@")
    without=$(LANECAST_ISA=none passed "$patched" --features lanecast "$@")
    [ -n "$theirs" ] || { tail -n 30 "$work/$published.log"; echo "$name: the published tests do not run"; return 1; }
    [ -n "$ours" ] || { tail -n 30 "$work/$patched.log"; echo "$name: the patched tests do not run"; return 1; }
    if ! diff <(echo "$theirs") <(echo "$ours"); then
        echo "$name: other tests pass (their lines begin with <)"
        return 1
    fi
    if [ "$theirs" = "$without" ]; then
        echo "$name: its tests pass without lanecast: nothing was shown"
        return 1
    fi
    echo "$name: $(wc -l <<<"$theirs") of $(wc -l <<<"$theirs") tests pass as published and with lanecast; without an instruction set of lanecast $(wc -l <<<"$without")"
}
