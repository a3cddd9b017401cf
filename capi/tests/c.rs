//! The header is fresh, compiles as C99 and C++17, and a C program that links the library runs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A place for what the tests make.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().expect("a file in a directory"))
        .expect("a writable target directory");
    path
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn the_header_is_fresh() {
    let header = root().join("include/lanecast.h");
    let mut fresh = Vec::new();
    cbindgen::generate(root()).expect("cbindgen reads capi/src/lib.rs").write(&mut fresh);
    let fresh = String::from_utf8(fresh).unwrap();
    if std::env::var_os("LANECAST_BLESS").is_some() {
        std::fs::write(&header, &fresh).unwrap();
    }
    let checked_in = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        checked_in.replace("\r\n", "\n") == fresh,
        "capi/include/lanecast.h is stale; make it anew with: LANECAST_BLESS=1 cargo test -p lanecast-capi"
    );
}

/// One translation unit that uses every name of the header, in a strict dialect.
fn compiles(compiler: &str, standard: &str, extension: &str) {
    let source = scratch(&format!("header.{extension}"));
    std::fs::write(
        &source,
        "#include \"lanecast.h\"\n\
         lanecast_status use_all(lanecast_options *o, const void *s, void *d);\n\
         lanecast_status use_all(lanecast_options *o, const void *s, void *d)\n\
         {\n\
             lanecast_dtype t = LANECAST_DTYPE_COMPLEX128;\n\
             int can = 0;\n\
             if (lanecast_promote(\"numpy\", &t, 1, &t) != LANECAST_OK) return LANECAST_ERR_UNDEFINED;\n\
             if (lanecast_can_cast(t, t, \"no\", &can) != LANECAST_OK || !can) return LANECAST_ERR_DTYPE;\n\
             lanecast_options_init(o);\n\
             lanecast_options_profile(o, \"onnx\");\n\
             lanecast_dtype_from_name(lanecast_dtype_name(t), &t);\n\
             if (lanecast_dtype_bits(t) == 0 || !lanecast_isa_available(o->isa)) return LANECAST_ERR_DTYPE;\n\
             if (lanecast_abi_version() != LANECAST_ABI_VERSION) return LANECAST_ERR_INTERNAL;\n\
             if (lanecast_strerror(LANECAST_OK)[0] == 0) return LANECAST_ERR_INTERNAL;\n\
             {\n\
                 lanecast_parallel how;\n\
                 size_t shape = 1;\n\
                 ptrdiff_t stride = 1;\n\
                 lanecast_parallel_init(&how);\n\
                 if (lanecast_cast_parallel(t, s, t, d, 1, o, 0) != LANECAST_OK) return LANECAST_ERR_CANCELLED;\n\
                 if (lanecast_cast_parallel_with(t, s, t, d, 1, o, &how)) return LANECAST_ERR_PACKED;\n\
                 if (lanecast_cast_in_place(t, t, d, 1, 1, o)) return LANECAST_ERR_SIZE;\n\
                 if (lanecast_cast_strided(t, s, &stride, t, d, &stride, &shape, 1, o)) return LANECAST_ERR_SIZE;\n\
             }\n\
             return lanecast_cast(LANECAST_DTYPE_BOOL, s, t, d, 1, o);\n\
         }\n",
    )
    .unwrap();
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(&source));
}

#[test]
fn the_header_compiles_as_c99() {
    compiles("cc", "-std=c99", "c");
}

#[test]
fn the_header_compiles_as_cpp17() {
    compiles("c++", "-std=c++17", "cc");
}

#[test]
fn c_programs_link_and_run() {
    let target = scratch("build");
    run(Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "lanecast-capi", "--target-dir"])
        .arg(&target)
        .current_dir(root()));
    let examples = [
        ("cast", "-0.3 -> 0xaa -> -0.3125"),
        ("promote", "torch       int8 + bfloat16 = bfloat16, and safe"),
    ];
    for (library, (example, expected)) in ["liblanecast.a", "liblanecast.so"]
        .into_iter()
        .flat_map(|library| examples.map(|example| (library, example)))
    {
        let library = target.join("release").join(library);
        let program = scratch(example).with_extension(library.extension().unwrap());
        run(Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(root().join("include"))
            .arg(root().join("examples").join(example).with_extension("c"))
            .arg(&library)
            .args(["-lpthread", "-ldl", "-lm"]));
        let text = run(Command::new(&program).env("LD_LIBRARY_PATH", target.join("release")));
        assert!(text.contains(expected), "{text}");
    }
}
