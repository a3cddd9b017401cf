//! The header is fresh and compiles as C99 and C++17. With `--ignored`, which builds the C library for that: it exports what the
//! header has, and programs that link what `capi/install` installs run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
    // Every dtype has its constant.
    let prefix = "#define LANECAST_DTYPE_";
    for dtype in rust::DType::ALL {
        let line = format!("{prefix}{} {}", dtype.name().to_uppercase(), dtype.code());
        assert!(fresh.lines().any(|known| known == line), "{line}");
    }
    assert_eq!(fresh.matches(prefix).count(), rust::DType::ALL.len());
    let checked_in = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        checked_in.replace("\r\n", "\n") == fresh,
        "capi/include/lanecast.h is stale; make it anew with: LANECAST_BLESS=1 cargo test -p lanecast-capi --test c"
    );
}

/// Beside every function that returns a status stands which: "Returns LANECAST_OK, or LANECAST_ERR_NULL (o), _SIZE.".
#[test]
fn the_header_says_which_statuses_a_function_returns() {
    let header = std::fs::read_to_string(root().join("include/lanecast.h")).expect("the header");
    let known: Vec<&str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define LANECAST_ERR_")?.split(' ').next())
        .collect();
    assert!(known.len() > 10, "{known:?}");
    let mut functions = 0;
    for (comment, declaration) in header.split("/*").filter_map(|part| part.split_once("*/")) {
        let Some(function) = declaration.trim_start().strip_prefix("lanecast_status ") else { continue };
        functions += 1;
        let text = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        let list = text
            .split_once("Returns LANECAST_OK, or LANECAST_ERR")
            .and_then(|(_, rest)| rest.split_once('.'));
        let (list, _) = list.unwrap_or_else(|| panic!("no list of statuses: {function}"));
        // (Without the arguments in parentheses.)
        let names = list.split(')').filter_map(|part| part.split('(').next()).collect::<String>();
        let mut said: Vec<&str> =
            names.split(", ").map(|name| name.trim().strip_prefix('_').expect(function)).collect();
        let wrong: Vec<_> = said.iter().filter(|name| !known.contains(name)).collect();
        assert!(wrong.is_empty(), "{wrong:?} are no statuses: {function}");
        let n = said.len();
        said.sort_unstable();
        said.dedup();
        assert_eq!(said.len(), n, "a status is there twice: {function}");
    }
    assert_eq!(functions, header.matches("\nlanecast_status lanecast_").count());
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
             if (lanecast_strerror(LANECAST_OK)[0] == 0 || lanecast_error_message() == 0) return LANECAST_ERR_INTERNAL;\n\
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
             lanecast_report report;\n\
             uint8_t valid[1];\n\
             if (lanecast_cast_checked(t, s, t, d, 1, o, &report, valid) == LANECAST_ERR_LOSSY) return (int)report.first;\n\
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

/// What `capi/install` makes, in a prefix of its own.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch("prefix");
        run(Command::new(root().join("install"))
            .arg("--prefix")
            .arg(&prefix)
            .env("CARGO_TARGET_DIR", scratch("build")));
        prefix
    })
}

/// The library as it is installed chooses among the instruction sets that this machine has, and not among those that every
/// machine has: that takes a feature of lanecast, which it must have asked for.
#[test]
#[ignore = "builds the library that is installed"]
fn the_installed_library_looks_at_the_machine() {
    let (source, program, prefix) = (scratch("isa.c"), scratch("isa"), installed());
    std::fs::write(
        &source,
        "#include <stdio.h>\n\
         #include \"lanecast.h\"\n\
         int main(void)\n\
         {\n\
             for (uint8_t isa = 2; isa < 5; isa++) putchar('0' + lanecast_isa_available(isa));\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    run(Command::new("cc")
        .args(["-std=c99", "-o"])
        .args([&program, &source])
        .arg(format!("-I{}", prefix.join("include").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .arg("-llanecast"));
    let found = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    #[cfg(target_arch = "x86_64")]
    let (avx2, avx512, neon) = (
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
        std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vbmi2"),
        false,
    );
    #[cfg(not(target_arch = "x86_64"))]
    let (avx2, avx512, neon) = (false, false, cfg!(target_arch = "aarch64"));
    assert_eq!(found, [avx2, avx512, neon].map(|has| if has { "1" } else { "0" }).concat());
}

/// Every example, its compiler, and what it should print.
const EXAMPLES: [(&str, &[&str], &str); 10] = [
    ("cast.c", &["cc", "-std=c99"], "-0.3 -> 0xaa -> -0.3125"),
    ("promote.c", &["cc", "-std=c99"], "torch       int8 + bfloat16 = bfloat16, and safe"),
    ("checked.c", &["cc", "-std=c99"], "1 above, 1 below, 1 NaN, 2 rounded\nthe first is element 2: 300\n"),
    ("checked.cc", &["c++", "-std=c++17"], "element 2, 65536, does not fit in uint16"),
    ("parallel.c", &["cc", "-std=c99"], "4000000 elements, 0 wrong\nstopped: the progress callback"),
    ("parallel.cc", &["c++", "-std=c++17"], "3000000 elements on 3 threads, 0 wrong"),
    ("vectors.cc", &["c++", "-std=c++17"], "94 77\n-0.3 300 1.75 65536 | 2 bytes, 1 scale: 65536\n1 above"),
    ("scaled.c", &["cc", "-std=c99"], "NVFP4: 4 x 4 scales of float8_e4m3fn, a factor of "),
    ("strided.c", &["cc", "-std=c99"], "20 10 0\n21 11 1\n22 12 2\n23 13 3\n"),
    ("in_place.c", &["cc", "-std=c99"], "1000 floats in place, 0 of 257 wrong\n2 bytes for a float: "),
];

/// Compiles and runs every example with these flags.
fn examples_run(how: &str, flags: &[String]) {
    for (example, compiler, expected) in EXAMPLES {
        let program = scratch(&format!("{example}.{how}"));
        run(Command::new(compiler[0])
            .args(&compiler[1..])
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-o"])
            .arg(&program)
            .arg(root().join("examples").join(example))
            .args(flags));
        let text = run(Command::new(&program).env("LD_LIBRARY_PATH", installed().join("lib")));
        assert!(text.contains(expected), "{example}: {text}");
    }
}

#[test]
#[ignore = "builds the library that is installed"]
fn programs_link_the_static_library_and_run() {
    let prefix = installed();
    let include = format!("-I{}", prefix.join("include").display());
    let library = prefix.join("lib/liblanecast.a").display().to_string();
    examples_run("static", &[include, library, "-lpthread".into(), "-ldl".into(), "-lm".into()]);
}

/// What lanecast.hpp promises, where std::span is there and where it is not.
#[test]
#[ignore = "builds the library that is installed"]
fn ranges_of_cpp_are_cast() {
    let (program, prefix) = (scratch("vectors"), installed());
    for standard in ["-std=c++17", "-std=c++20"] {
        run(Command::new("c++")
            .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror"])
            .args(["-Wconversion", "-Wsign-conversion", "-Wshadow", "-o"])
            .arg(&program)
            .arg(root().join("tests/vectors.cc"))
            .arg(format!("-I{}", prefix.join("include").display()))
            .arg(format!("-L{}", prefix.join("lib").display()))
            .arg("-llanecast"));
        let text = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(text, "all is as lanecast.hpp says\n", "{standard}");
    }
}

/// What lanecast.hpp cannot cast does not compile, and the error says why.
#[test]
fn what_cpp_cannot_cast_does_not_compile() {
    let refused = [
        ("cast(std::vector<bool>(3), x)", "not a range that lies in memory"),
        ("cast(x, std::deque<float>(3))", "not a range that lies in memory"),
        ("cast(x, std::vector<std::byte>(3))", "specialise lanecast::dtype_of"),
        ("cast(x, constant)", "the destination must not be const"),
        ("cast(x, lanecast::strided(constant, {3}, {4}))", "the destination must not be const"),
        ("cast_checked_parallel(lanecast::strided(x, {3}, {4}), x)", "this takes no views"),
        ("try_cast(x, lanecast::strided(constant, {3}, {4}))", "the destination must not be const"),
        (
            "quantize(lanecast::strided(x, {3}, {4}), {3}, 6, lanecast::scaling(\"mx\"))",
            "scaled casts take no views",
        ),
        ("dequantize(x, x)", "not what lanecast::scaled or lanecast::quantize returns"),
        ("to<bool>(x)", "std::vector<bool> has no elements in memory"),
    ];
    for (call, reason) in refused {
        let source = scratch("refused.cc");
        let text = format!(
            "#include <deque>\n#include \"lanecast.hpp\"\n\
             void f(std::vector<float> &x, const std::vector<float> &constant) {{ (void)constant, (void)lanecast::{call}; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-fsyntax-only", "-I"]).arg(root().join("include")).arg(&source);
        let said = compiler.output().expect("c++ runs");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && errors.contains(reason), "{call}: {errors}");
    }
}

/// A program that needs no shared library at all, by the flags that pkg-config has for that.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "builds the library that is installed"]
fn a_program_without_shared_libraries_links_and_runs() {
    let empty = scratch("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let can = Command::new("cc")
        .arg("-static")
        .arg(&empty)
        .arg("-o")
        .arg(scratch("empty"))
        .output()
        .expect("cc runs");
    if !can.status.success() {
        return println!("NOT RUN: cc -static, for which the C library is not here");
    }
    let Ok(output) = Command::new("pkg-config")
        .args(["--static", "--cflags", "--libs", "lanecast"])
        .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"))
        .output()
    else {
        return println!("NOT RUN: pkg-config, which is not here");
    };
    let flags = String::from_utf8(output.stdout).expect("flags");
    let program = scratch("parallel.alone");
    run(Command::new("cc")
        .arg("-static")
        .arg(root().join("examples/parallel.c"))
        .args(flags.split_whitespace())
        .arg("-o")
        .arg(&program));
    assert!(run(&mut Command::new(&program)).starts_with("4000000 elements, 0 wrong\n"));
}

/// What no file for pkg-config or CMake could name is refused before anything is built.
#[cfg(target_os = "linux")]
#[test]
fn a_prefix_can_be_named() {
    for prefix in ["/tmp/in stall", "/tmp/a&b", "/tmp/a|b", "relative"] {
        let out = Command::new(root().join("install")).args(["--prefix", prefix]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{prefix}");
        assert!(String::from_utf8_lossy(&out.stderr).starts_with("capi/install: "), "{out:?}");
    }
}

/// A project of CMake finds the installed files, also where they were moved and the libraries are not in `lib`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "builds the library that is installed"]
fn cmake_finds_the_library() {
    if Command::new("cmake").arg("--version").output().is_err() {
        return println!("NOT RUN: cmake, which is not here");
    }
    let (project, moved) = (scratch("cmake"), scratch("moved"));
    for dir in [&project, &moved] {
        _ = std::fs::remove_dir_all(dir);
    }
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(
        project.join("CMakeLists.txt"),
        format!(
            "cmake_minimum_required(VERSION 3.13)\n\
             project(example C)\n\
             find_package(lanecast REQUIRED CONFIG)\n\
             find_package(lanecast 0.1 REQUIRED CONFIG)\n\
             foreach(kind lanecast static)\n\
               add_executable(with_${{kind}} {})\n\
               target_link_libraries(with_${{kind}} PRIVATE lanecast::${{kind}})\n\
             endforeach()\n\
             set(place \"${{lanecast_DIR}}\")\n\
             macro(refused)\n\
               set(lanecast_DIR \"${{place}}\" CACHE PATH \"\" FORCE)\n\
               find_package(lanecast ${{ARGN}} QUIET CONFIG)\n\
               if(lanecast_FOUND)\n    message(FATAL_ERROR \"found: ${{ARGN}}\")\n  endif()\n\
             endmacro()\n\
             if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.19)\n\
               find_package(lanecast 0.0.1...<1 REQUIRED CONFIG)\n\
               refused(0.0.1...0.0.9)\n\
             endif()\n\
             refused(9)\n\
             refused(0.1 COMPONENTS parts)\n",
            root().join("examples/parallel.c").display()
        ),
    )
    .unwrap();
    run(Command::new(root().join("install"))
        .args(["--prefix", "/usr", "--libdir", "lib/anywhere", "--destdir"])
        .arg(&moved)
        .env("CARGO_TARGET_DIR", scratch("build")));
    for (prefix, build) in [(installed().to_path_buf(), "as_said"), (moved.join("usr"), "moved")] {
        let build = project.join(build);
        run(Command::new("cmake")
            .arg("-S")
            .arg(&project)
            .arg("-B")
            .arg(&build)
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
            .arg(format!("-Dlanecast_DIR={}", cmake_files(&prefix).display())));
        run(Command::new("cmake").arg("--build").arg(&build));
        for kind in ["lanecast", "static"] {
            let said = run(&mut Command::new(build.join(format!("with_{kind}"))));
            assert!(said.starts_with("4000000 elements, 0 wrong\n"), "{said}");
        }
    }
}

/// A project of CMake that brings the sources along builds the library when it is configured, as docs/linking.md has it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "builds the library that is installed"]
fn cmake_builds_the_library() {
    let Ok(version) = Command::new("cmake").arg("--version").output() else {
        return println!("NOT RUN: cmake, which is not here");
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut numbers = version.split([' ', '.']).filter_map(|word| word.parse::<u32>().ok());
    if numbers.next().zip(numbers.next()) < Some((3, 19)) {
        return println!("NOT RUN: cmake 3.19, which is not here");
    }
    let project = scratch("cmake_sources");
    _ = std::fs::remove_dir_all(&project);
    std::fs::create_dir_all(&project).unwrap();
    let page = std::fs::read_to_string(root().join("../docs/linking.md")).unwrap().replace("\r\n", "\n");
    let recipe = page.split("```cmake\n").find_map(|part| part.strip_prefix("include(FetchContent)"));
    let (recipe, _) = recipe.and_then(|part| part.split_once("```")).expect("the recipe");
    let sources = format!("SOURCE_DIR {})", root().parent().unwrap().display());
    let recipe = recipe.replace("GIT_REPOSITORY https://example.com/lanecast.git GIT_TAG COMMIT)", &sources);
    assert!(recipe.contains(&sources), "{recipe}");
    let program = root().join("examples/cast.c");
    let text = format!(
        "cmake_minimum_required(VERSION 3.19)\nproject(example C)\ninclude(FetchContent){recipe}\n\
         add_executable(example {})\ntarget_link_libraries(example PRIVATE lanecast::static)\n",
        program.display()
    );
    std::fs::write(project.join("CMakeLists.txt"), text).unwrap();
    let build = project.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&build).env("CARGO_TARGET_DIR", scratch("build"));
    run(&mut configure);
    run(Command::new("cmake").arg("--build").arg(&build));
    assert!(run(&mut Command::new(build.join("example"))).contains("-0.3125"));
}

/// The directory of CMake's files in a prefix. (Only those of the platform's names are found without it.)
#[cfg(target_os = "linux")]
fn cmake_files(prefix: &Path) -> PathBuf {
    let of = |libdir: &str| prefix.join(libdir).join("cmake/lanecast");
    ["lib", "lib/anywhere"].map(of).into_iter().find(|dir| dir.exists()).expect("it is installed")
}

/// A program that closes the library lives on, although the threads of the pool wait in it; it may open it once more.
#[cfg(unix)]
#[test]
#[ignore = "builds the library that is installed"]
fn a_program_may_close_the_library() {
    let (source, program, prefix) = (scratch("close.c"), scratch("close"), installed());
    std::fs::write(
        &source,
        "#include <dlfcn.h>\n\
         #include <stdio.h>\n\
         #include <unistd.h>\n\
         #include \"lanecast.h\"\n\
         typedef lanecast_status (*cast_on)(lanecast_dtype, const void *, lanecast_dtype, void *, size_t,\n\
                                            const lanecast_options *, uint32_t);\n\
         static float x[1 << 20];\n\
         static unsigned char codes[1 << 20];\n\
         int main(int argc, char **argv)\n\
         {\n\
             for (int i = 0; i < 5; i++) {\n\
                 union { void *symbol; cast_on call; } cast;\n\
                 void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;\n\
                 if (library == NULL) return 1;\n\
                 cast.symbol = dlsym(library, \"lanecast_cast_parallel\");\n\
                 if (cast.call(LANECAST_DTYPE_FLOAT32, x, LANECAST_DTYPE_FLOAT8_E4M3FN, codes, 1 << 20, NULL, 0)) return 2;\n\
                 if (dlclose(library) != 0) return 3;\n\
                 usleep(2000);\n\
             }\n\
             puts(\"closed\");\n\
             return 0;\n\
         }\n",
    )
    .unwrap();
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .arg(format!("-I{}", prefix.join("include").display()))
        .arg("-ldl"));
    assert_eq!(run(Command::new(&program).arg(prefix.join("lib/liblanecast.so"))), "closed\n");
}

/// By the flags that pkg-config gives; where it is missing, those that the file of pkg-config has.
#[test]
#[ignore = "builds the library that is installed"]
fn programs_link_the_shared_library_and_run() {
    let directory = installed().join("lib/pkgconfig");
    let flags = match Command::new("pkg-config")
        .args(["--cflags", "--libs", "lanecast"])
        .env("PKG_CONFIG_PATH", &directory)
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("flags")
        }
        Err(_) => {
            println!("NOT RUN: pkg-config, which is not here");
            let file = std::fs::read_to_string(directory.join("lanecast.pc")).expect("it is installed");
            let field = |name: &str| {
                let line = file.lines().find_map(|line| line.strip_prefix(name)).expect(name);
                let prefix = installed().display().to_string();
                let line =
                    line.replace("${includedir}", "${prefix}/include").replace("${libdir}", "${prefix}/lib");
                line.replace("${prefix}", &prefix)
            };
            field("Cflags:") + &field("Libs:")
        }
    };
    let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
    flags.push("-lm".into());
    examples_run("shared", &flags);
}

/// A program that was written for the first header, compiled with that: what it includes, links and calls is there still. The header
/// in `tests/abi` is never made anew.
#[test]
#[ignore = "builds the library that is installed"]
fn a_program_of_an_old_header_links_and_runs() {
    let (abi, lib) = (root().join("tests/abi"), installed().join("lib"));
    let object = scratch("old.o");
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-I"])
        .arg(&abi)
        .arg(abi.join("program.c"))
        .arg("-o")
        .arg(&object));
    for library in ["liblanecast.a", "liblanecast.so"] {
        let program = scratch(&format!("old.{library}"));
        run(Command::new("cc")
            .args([&object, &lib.join(library)])
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program));
        let text = run(Command::new(&program).env("LD_LIBRARY_PATH", &lib));
        assert_eq!(text, "an old program runs\n", "{library}");
    }
}

/// What the first header defines, today's header defines alike: codes, the fields of structures in their order, and functions.
#[test]
fn the_header_has_all_of_the_old_one() {
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).expect(path);
        let mut code = String::new();
        for part in text.split("*/") {
            code.push_str(part.split("/*").next().unwrap_or(""));
        }
        code
    };
    let (old, new) = (read("tests/abi/lanecast.h"), read("include/lanecast.h"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let defines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("#define LANECAST_")).map(words).collect()
    };
    let of_new = defines(&new);
    for define in defines(&old).iter().filter(|define| !define.contains("LANECAST_ABI_VERSION")) {
        assert!(of_new.contains(define), "{define} is gone, or has another value");
    }
    let declarations = |text: &str| -> Vec<String> {
        let code = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        code.split(';').map(words).collect()
    };
    let of_new = declarations(&new);
    let old = declarations(&old);
    assert!(old.len() > 30, "{old:?}");
    for (i, declaration) in old.iter().enumerate() {
        // The first field follows the name of its structure, and the last is before the brace: the fields stand as they did.
        let found = of_new.iter().position(|now| now == declaration);
        assert!(
            found.is_some() || declaration.starts_with('}'),
            "not in the header of today: {declaration} ({i})"
        );
    }
}

/// The functions of the header are what the shared library exports, and all it does.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "builds the library that is installed"]
fn the_exported_symbols_are_those_of_the_header() {
    let library = installed().join("lib/liblanecast.so");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(root().join("include/lanecast.h")).expect("the header");
    let code = header.split("*/").filter_map(|part| part.split("/*").next()).collect::<String>();
    let mut declared: Vec<&str> = code
        .split('(')
        .filter_map(|before| before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next())
        .filter(|name| name.starts_with("lanecast_"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 10, "{declared:?}");
    assert_eq!(exported, declared);

    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    let soname = format!("[liblanecast.so.{}]", env!("CARGO_PKG_VERSION_MAJOR"));
    assert!(dynamic.lines().any(|line| line.contains("SONAME") && line.contains(&soname)), "{dynamic}");
}

/// The k-th allocation fails, for every k, in every function. (The C library's own allocator by its names: of glibc alone.)
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
#[ignore = "builds the library that is installed"]
fn every_allocation_may_fail() {
    let (program, prefix) = (scratch("memory"), installed());
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(root().join("tests/memory.c"))
        .arg(format!("-I{}", prefix.join("include").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-llanecast", "-lpthread"]));
    let text = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    print!("{text}");
    assert!(text.ends_with("every call ends\n"), "{text}");
    for call in ["plain", "table", "names"] {
        assert!(text.contains(&format!("{call}: 0 allocations\n")), "{text}");
    }
}
