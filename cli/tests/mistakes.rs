//! What people get wrong on their first evening: each is told what it was and what to do, nothing is written, and nothing panics.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::*;
use safetensors::Dtype;

/// A checkpoint of so many numbered files, with an index if that is wanted.
fn numbered(dir: &Path, n: usize, indexed: bool) {
    fs::create_dir(dir).unwrap();
    let mut places = Vec::new();
    for i in 1..=n {
        let (file, name) =
            (format!("model-{i:05}-of-{n:05}.safetensors"), format!("layers.{i}.up_proj.weight"));
        let tensors = vec![(name.clone(), Dtype::F32, vec![16, 32], le(&Random(i as u64).floats(512)))];
        write(&dir.join(&file), &tensors, None);
        places.push(format!("\"{name}\": \"{file}\""));
    }
    if indexed {
        let index = format!("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", places.join(", "));
        fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    // Of Windows, what is between names is written otherwise.
    let plain = |text: &str| if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    let text = plain(text);
    for word in words {
        assert!(text.contains(&plain(word)), "no {word:?} in: {text}");
    }
}

#[test]
fn files_of_other_formats_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    let cases: [(&[u8], &[&str]); 10] = [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", &["Git LFS", "git lfs pull"]),
        (b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0", &["GGUF", "safetensors files"]),
        (b"PK\x03\x04\0\0\x08\x08\0\0\0\0", &["torch.save", "save_file"]),
        (b"PK\x03\x04\0\0\0\0\0\0\0\0", &["torch.save", "save_file"]),
        (b"\x80\x02}q\0.", &["pickle", "save_file"]),
        (b"\x93NUMPY\x01\0v\0{", &["lanecast cast"]),
        (b"<!DOCTYPE html><html>", &["HTML", "fetch it again"]),
        (b"{\"weight_map\": {}}", &["JSON", "name the directory"]),
        (b"", &["has 0 bytes", "fetch the file again"]),
        (b"\x10\0\0\0\0\0\0\0{", &["the header takes 16 bytes; the file has 9", "fetch the file again"]),
    ];
    for (bytes, words) in cases {
        fs::write(&path, bytes).unwrap();
        says(&fails(dir.path(), "convert a.safetensors b.safetensors --to bf16", 3), words);
        says(&fails(dir.path(), "inspect a.safetensors", 3), words);
        assert_eq!(names(dir.path()), ["a.safetensors"]);
    }
    says(
        &fails(dir.path(), "convert meta-llama/Llama dst --to bf16", 3),
        &["meta-llama/Llama", "downloaded first"],
    );
    fs::create_dir(dir.path().join("old")).unwrap();
    fs::write(dir.path().join("old/pytorch_model.bin"), b"PK").unwrap();
    says(
        &fails(dir.path(), "convert old dst --to bf16", 3),
        &["no safetensors file", "pytorch_model.bin", "as safetensors"],
    );
}

#[test]
fn parts_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("indexed"), 4, true);
    numbered(&dir.path().join("plain"), 4, false);
    ok(dir.path(), "convert plain whole --to bf16 --quiet");
    for src in ["indexed", "plain"] {
        fs::remove_file(dir.path().join(src).join("model-00003-of-00004.safetensors")).unwrap();
        says(
            &fails(dir.path(), &format!("convert {src} dst --to bf16"), 3),
            &["model-00003-of-00004.safetensors", "not there", "fetch the file"],
        );
    }
    fs::remove_file(dir.path().join("indexed/model-00004-of-00004.safetensors")).unwrap();
    says(
        &fails(dir.path(), "convert indexed dst --to bf16", 3),
        &["and 1 more of 4 files", "fetch the files"],
    );
    // Without the last of them the others say that there is one.
    fs::remove_file(dir.path().join("plain/model-00004-of-00004.safetensors")).unwrap();
    fs::remove_file(dir.path().join("plain/model-00001-of-00004.safetensors")).unwrap();
    says(&fails(dir.path(), "inspect plain", 3), &["model-00001-of-00004.safetensors", "not there"]);
    assert_eq!(names(dir.path()), ["indexed", "plain", "whole"]);
}

#[test]
fn options_are_named_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    says(
        &fails(dir.path(), "convert src dst --to mxfp4 --scale-rule amax", 2),
        &["the rule amax", "another --scale-rule"],
    );
}

/// (An administrator may write everywhere.)
#[cfg(unix)]
#[test]
fn a_directory_that_is_not_ours_has_a_remedy() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    fs::create_dir(dir.path().join("theirs")).unwrap();
    fs::set_permissions(dir.path().join("theirs"), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(dir.path().join("theirs/tried"), b"").is_err() {
        says(
            &fails(dir.path(), "convert src theirs/dst --to bf16", 4),
            &["ermission denied", "check the owner"],
        );
    }
}

#[test]
fn destinations_that_cannot_be_are_refused_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    write(&dir.path().join("a.safetensors"), &vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))], None);
    fs::create_dir(dir.path().join("out")).unwrap();
    let before = names(dir.path());
    for (command, words) in [
        (
            "convert a.safetensors out --to bf16",
            &["is a file", "out is a directory", "out/a.safetensors"][..],
        ),
        ("convert a.safetensors new/ --to bf16", &["is a file", "new/a.safetensors"]),
        ("convert a.safetensors no/where.safetensors --to bf16", &["there is no directory no", "create it"]),
        ("convert src a.safetensors --to bf16", &["is a directory", "a.safetensors is a file"]),
        ("convert src src --to bf16", &["is the source", "write elsewhere"]),
        ("convert src src/dst --to bf16", &["lies in the source", "write elsewhere"]),
        ("convert src . --to bf16", &["contains the source", "write elsewhere"]),
        ("cast a.safetensors b.bin --from f32 --to bf16", &["a .safetensors file", "lanecast convert"]),
        ("cast all.npz b.npy --to bf16", &["all.npz"]),
    ] {
        says(&fails(dir.path(), command, 3), words);
        assert_eq!(names(dir.path()), before, "{command}");
    }
    fs::write(dir.path().join("x.bin"), le(&[1.0])).unwrap();
    says(&fails(dir.path(), "cast x.bin no/y.bin --from f32 --to bf16", 3), &["there is no directory no"]);
    fs::write(dir.path().join("all.npz"), b"PK\x03\x04").unwrap();
    says(&fails(dir.path(), "cast all.npz b.npy --to bf16", 3), &["a .npz file", "as .npy files"]);
    says(&fails(dir.path(), "cast all.npz b.npy --from f32 --to bf16", 3), &["a .npz file", "as .npy files"]);
}

#[test]
fn what_is_read_alone_is_not_offered() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    let error = fails(dir.path(), "convert src dst --to int9-group", 2);
    assert!(error.contains("int4-group") && !error.contains("awq") && !error.contains("gptq"), "{error}");
    says(&fails(dir.path(), "convert src dst --to awq", 2), &["not written", "int4-group"]);
}

/// Such a file would be left out, and loaders read the result as if nothing was quantised.
#[test]
fn a_configuration_is_an_object() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    for text in ["[]", "null", "3"] {
        fs::write(dir.path().join("src/config.json"), text).unwrap();
        says(
            &fails(dir.path(), "convert src dst --to fp8-block", 3),
            &["src/config.json", "not a JSON object"],
        );
        assert!(!dir.path().join("dst").exists());
    }
}

/// Of some layouts a loader takes experts for other numbers, which nobody would see.
#[test]
fn experts_that_loaders_do_not_take_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let tensors =
        |name: &str| vec![(name.to_owned(), Dtype::F32, vec![128, 128], le(&Random(1).floats(128 * 128)))];
    for (name, src) in [
        ("model.layers.0.mlp.experts.3.up_proj.weight", "experts"),
        ("model.layers.0.mlp.up_proj.weight", "dense"),
    ] {
        fs::create_dir(dir.path().join(src)).unwrap();
        write(&dir.path().join(src).join("model.safetensors"), &tensors(name), None);
        fs::write(dir.path().join(src).join("config.json"), "{}").unwrap();
    }
    for (src, to, told) in [
        ("experts", "nvfp4", Some("misreads, without an error,")),
        ("experts", "mxfp8", Some("does not load")),
        ("experts", "int8-channel", Some("does not load")),
        ("experts", "fp8-block", None),
        ("experts", "mxfp4", None),
        ("dense", "nvfp4", None),
    ] {
        let out = line(dir.path(), &format!("convert {src} dst --to {to} --dry-run"));
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{text}");
        assert_eq!(told.is_some(), text.contains("separate tensors"), "{src} {to}: {text}");
        assert!(told.is_none_or(|words| text.contains(words)), "{src} {to}: {text}");
    }
}

/// As a cache has them: a directory of links to where the files are.
#[cfg(unix)]
#[test]
fn a_source_of_links_into_the_destination_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (linked, real) in [("model.safetensors", "blobs/model.safetensors"), ("config.json", "blobs/12ab")] {
        let (src, blobs) = (at("src"), at("blobs"));
        for dir in [&src, &blobs] {
            _ = fs::remove_dir_all(dir);
            fs::create_dir_all(dir).unwrap();
        }
        write(
            &src.join("model.safetensors"),
            &vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))],
            None,
        );
        fs::write(src.join("config.json"), "{}").unwrap();
        fs::rename(src.join(linked), at(real)).unwrap();
        std::os::unix::fs::symlink(at(real), src.join(linked)).unwrap();
        let before = fs::read(at(real)).unwrap();
        for command in ["convert src blobs --to bf16 --force", "convert src blobs --to bf16 --resume --force"]
        {
            let error = fails(dir.path(), command, 3);
            says(&error, &["DST blobs holds the source", linked, "write elsewhere"]);
            assert_eq!(fs::read(at(real)).unwrap(), before);
        }
        line(dir.path(), "convert src dst --to bf16");
        fs::remove_dir_all(at("dst")).unwrap();
    }
}

/// A file is renamed to its place, which would put it in the place of `/dev/null`, too.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_replaced_by_one() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.safetensors"), &vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))], None);
    fs::write(dir.path().join("x.bin"), le(&[1.0])).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/stdout", dir.path().join("link")).unwrap();
    let before = names(dir.path());
    for (command, words) in [
        ("cast x.bin link --from f32 --to bf16 --force", &["link is a link", "- for standard output"][..]),
        (
            "cast x.bin pipe --from f32 --to bf16",
            &["pipe is a device or a pipe", "- for standard output"][..],
        ),
        ("cast x.bin pipe --from f32 --to bf16 --force", &["pipe is a device or a pipe"]),
        ("convert a.safetensors pipe --to bf16 --force", &["pipe is a device or a pipe", "name a file"]),
        ("cast x.bin out --from f32 --to bf16", &["out is a directory", "name a file"]),
        ("cast x.bin out/ --from f32 --to bf16 --force", &["out/ is a directory", "name a file"]),
    ] {
        says(&fails(dir.path(), command, 3), words);
        assert!(!pipe.is_file());
        assert_eq!(names(dir.path()), before, "{command}");
    }
}

/// `-` is a pipe in `cast` alone. A file of that name is hard to get rid of.
#[test]
fn checkpoints_do_not_go_through_pipes() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    for command in ["convert src - --to bf16", "convert - dst --to bf16"] {
        says(&fails(dir.path(), command, 2), &["- is not a pipe here", "./-"]);
    }
    ok(dir.path(), "convert src ./- --to bf16 --quiet");
    assert_eq!(names(dir.path()), ["-", "src"]);
}

/// In upper case, too, and by its longer name, it is the same conversion: a run goes on.
#[test]
fn a_layout_has_one_name() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 2, true);
    for (first, second) in [("bf16", "bfloat16"), ("BF16", "bf16"), ("e4m3", "F8_E4M3")] {
        ok(dir.path(), &format!("convert src {first} --to {first} --quiet"));
        let report = ok(dir.path(), &format!("convert src {first} --to {second} --resume --json"));
        assert_eq!(report["to"], first.to_lowercase());
    }
}

/// Sizes as others write them, and the option that has none.
#[test]
fn sizes_have_units_of_either_case() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    for (i, size) in ["64m", "64mb", "0.25g", "1Gi", "2GiB", "65536k"].iter().enumerate() {
        ok(dir.path(), &format!("convert src dst{i} --to bf16 --memory {size} --quiet"));
    }
    for option in ["--memory", "--shard-size"] {
        for size in ["5x", "many", "0", "nan"] {
            let error = fails(dir.path(), &format!("convert src dst --to bf16 {option} {size}"), 2);
            says(&error, &[option, size, "not a size", "256M"]);
        }
    }
}

/// What an error advises is a pattern that fits the name, brackets and stars in it.
#[test]
fn a_pattern_that_is_advised_fits() {
    let dir = tempfile::tempdir().unwrap();
    let tensor = |name: &str, n: usize| (name.to_owned(), Dtype::F32, vec![32, n], le(&vec![0.5; 32 * n]));
    let tensors = vec![tensor("blocks[0].a.weight", 5), tensor("*b?.weight", 5), tensor("c.weight", 32)];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let mut command = "convert a.safetensors b.safetensors --to mxfp8".to_owned();
    for _ in 0..2 {
        let error = fails(dir.path(), &command, 3);
        let (_, pattern) = error.split_once("--keep ").unwrap();
        command += &format!(" --keep {}", pattern.trim());
    }
    let out = line(dir.path(), &command);
    assert!(out.status.success() && out.stderr.is_empty(), "{command}: {out:?}");
    // Patterns are not separated by commas: the one that fits nothing is told with the error.
    let error = fails(dir.path(), "convert a.safetensors d.safetensors --to mxfp8 --keep blocks*,*b?.*", 3);
    says(&error, &["--keep '", "; --keep 'blocks*,*b?.*' matches no tensor"]);
}

/// The tensor of the limit that was passed is named, or none.
#[test]
fn limits_name_the_tensor_that_is_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("rel.weight".into(), Dtype::F32, vec![2], le(&[1e-6, 1.0])),
        ("abs.weight".into(), Dtype::F32, vec![2], le(&[1000.4, 1.0])),
        ("nan.weight".into(), Dtype::F32, vec![2], le(&[f32::NAN, 1.0])),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let to_f16 = "convert a.safetensors b.safetensors --to f16 --force";
    for (limit, name) in [
        ("--max-rel-error 0.001", "rel.weight: beyond"),
        ("--max-abs-error 0.01", "abs.weight: beyond"),
        ("--max-rel-error 0.001 --max-abs-error 0.01", "error: beyond"),
        ("--fail-on nan", "error: beyond"),
        ("--fail-on nan --max-rel-error 0.001", "error: beyond"),
    ] {
        says(&fails(dir.path(), &format!("{to_f16} {limit}"), 1), &[name]);
    }
    says(&fails(dir.path(), &format!("{to_f16} --fail-on nan"), 1), &["inspect --stats"]);
    // NaN that was NaN is no error.
    ok(dir.path(), &format!("{to_f16} --max-rel-error 0.1 --quiet"));
}

/// An element that became Inf, or was it, is off by more than every limit.
#[test]
fn no_limit_allows_for_infinity() {
    let dir = tempfile::tempdir().unwrap();
    let to = |values: &[f32], to: &str| {
        let tensors = vec![("x".into(), Dtype::F32, vec![values.len()], le(values))];
        write(&dir.path().join("a.safetensors"), &tensors, None);
        format!("convert a.safetensors b.safetensors --to {to} --force")
    };
    for (values, dtype) in [([1.0, 1e30], "f16"), ([1.0, f32::INFINITY], "e4m3")] {
        let command = to(&values, dtype);
        ok(dir.path(), &command);
        for limit in ["--max-abs-error 1e9", "--max-rel-error 0.1"] {
            says(&fails(dir.path(), &format!("{command} {limit}"), 1), &["1 element that became NaN or Inf"]);
        }
    }
    ok(dir.path(), &format!("{} --max-rel-error 0.1", to(&[1.0, f32::INFINITY, f32::NAN], "f16")));
}

/// Tables fit a terminal of 80 columns: those of reports with their usual names, and none has a column of nothing.
#[test]
fn tables_are_narrow() {
    let dir = tempfile::tempdir().unwrap();
    let values = le(&Random(3).floats(128 * 128));
    let name = "model.layers.10.post_attention_layernorm.weight";
    let tensors = vec![
        ("model.layers.10.mlp.down_proj.weight".into(), Dtype::F32, vec![128, 128], values.clone()),
        (name.into(), Dtype::F32, vec![128 * 128], values),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    for command in [
        "convert a.safetensors b.safetensors --to modelopt-nvfp4",
        "convert a.safetensors c.safetensors --to modelopt-nvfp4 --fail-on nan",
        "convert a.safetensors c.safetensors --to bf16 --dry-run",
        "inspect a.safetensors",
    ] {
        let text = String::from_utf8(line(dir.path(), command).stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
    // What a scale is of, as it is called in its module.
    let out = line(dir.path(), "inspect b.safetensors --from modelopt-nvfp4").stdout;
    let text = String::from_utf8(out).unwrap();
    let mut scales = text.lines().skip(1).filter(|line| line.contains("weight_scale"));
    assert!(scales.clone().count() == 2 && scales.all(|line| line.ends_with("  weight")), "{text}");
}

/// Layouts are of `convert`, and an array that was cut off says how much of it there is.
#[test]
fn casts_say_what_is_not_theirs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.bin"), le(&[1.0])).unwrap();
    let error = fails(dir.path(), "cast x.bin y.bin --from f32 --to fp8-block", 2);
    says(&error, &["no dtype is called 'fp8-block'", "that is a layout", "lanecast convert"]);
    ok(dir.path(), "cast x.bin x.npy --from f32 --to f32 --quiet");
    let whole = fs::read(dir.path().join("x.npy")).unwrap();
    fs::write(dir.path().join("x.npy"), &whole[..whole.len() - 1]).unwrap();
    says(&fails(dir.path(), "cast x.npy y.npy --to f16", 3), &["takes 4 bytes; 3 are there", "cut off"]);
}

#[test]
fn patterns_that_fit_nothing_are_told() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    let out = line(dir.path(), "convert src dst --to fp8-channel --keep up_proj --drop *layers.9* --quiet");
    assert_eq!(out.status.code(), Some(0));
    let error = String::from_utf8(out.stderr).unwrap();
    says(
        &error,
        &[
            "warning: --keep 'up_proj' matches no tensor",
            "'*q_proj*'",
            "warning: --drop '*layers.9*' matches",
        ],
    );
    let out = line(dir.path(), "convert src kept --to e4m3 --keep *up_proj* --quiet");
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn tensors_that_stay_what_they_are_say_why() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    says(
        &fails(dir.path(), "convert src dst --to fp8-channel --only q_porj", 3),
        &["become fp8-channel (--only 'q_porj' matches no tensor", "'*q_proj*')", "end in .weight"],
    );
    says(
        &fails(dir.path(), "convert src dst --to f16 --only q_porj", 3),
        &[
            "no tensor would become f16 (--only 'q_porj' matches no tensor",
            "without --only, the candidates are all floats",
        ],
    );
    // One that fits is enough, also where nothing is left to be done.
    line(dir.path(), "convert src same --to f32 --only q_porj --only *up_proj* --quiet");
    assert!(dir.path().join("same").exists());
    let tensor = |name: &str, shape: &[usize]| {
        (name.to_owned(), Dtype::F32, shape.to_vec(), le(&vec![1.0; shape.iter().product()]))
    };
    let tensors = ["bias", "embedding.table", "model.norm.weight"].map(|name| tensor(name, &[16, 32]));
    let mut tensors = tensors.to_vec();
    tensors.push(tensor("scale.weight", &[16]));
    write(&dir.path().join("odd.safetensors"), &tensors, None);
    let error = fails(dir.path(), "convert odd.safetensors dst.safetensors --to fp8-channel", 3);
    says(&error, &["become fp8-channel (model.norm.weight: ", "bias: ", "embedding.table: ", "and 1 more)"]);
    says(&error, &["help: the candidates are matrices"]);
    // An option that was not given is not named.
    assert!(!error.contains("--only"), "{error}");
}

#[test]
fn limits_are_named() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    says(
        &fails(dir.path(), "convert src dst --to bf16 --max-rel-error 1e-6", 1),
        &["a relative error of", "where 1.000e-6 is allowed"],
    );
}

/// `| head`: a reader that goes is no error, on either stream.
#[test]
fn readers_may_go() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 8, false);
    for command in [
        "completions bash",
        "man",
        "man convert",
        "info",
        "inspect src",
        "inspect src --stats",
        "convert src dst --to bf16 --progress plain --keep nothing",
        "convert src dry --to bf16 --dry-run",
        "convert src dst --to bf16",
        "--help",
        "convert --help",
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
            .args(command.split(' '))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Both are gone before the program writes.
        drop((child.stdout.take(), child.stderr.take()));
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(if command == "convert src dst --to bf16" { 3 } else { 0 }), "{command}");
    }
    assert!(dir.path().join("dst/lanecast.json").exists());
}

#[test]
fn every_command_has_its_help_and_its_manual() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["convert", "cast", "inspect", "verify", "info", "bench", "completions", "man"] {
        let help = line(dir.path(), &format!("{command} --help"));
        assert_eq!(help.status.code(), Some(0), "{command}");
        assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: lanecast"), "{command}");
        let page = line(dir.path(), &format!("man {command}"));
        assert_eq!(page.status.code(), Some(0), "{command}");
        let page = String::from_utf8(page.stdout).unwrap();
        assert!(page.contains(&format!("lanecast-{command} 1")), "{page}");
    }
    let page = String::from_utf8(line(dir.path(), "man").stdout).unwrap();
    says(&page, &[".SH EXAMPLES", "lanecast cast x.bin y.bin \\-\\-from f32", "2 usage"]);
    says(&fails(dir.path(), "man convrt", 2), &["'convrt'", "did you mean 'convert'?"]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = line(dir.path(), &format!("completions {shell}"));
        assert!(String::from_utf8_lossy(&out.stdout).contains("max-rel-error"), "{shell}");
    }
    let ran = Command::new(env!("CARGO_BIN_EXE_lanecast"))
        .arg("inspect")
        .arg("nowhere")
        .env("NO_COLOR", "1")
        .output();
    assert!(!ran.unwrap().stderr.contains(&0x1B));
}

#[test]
fn a_misspelt_option_is_json_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = line(dir.path(), "convert a.safetensors b.safetensors --json --too bf16");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let error = &report["error"];
    assert_eq!((out.status.code(), &error["kind"]), (Some(2), &serde_json::json!("usage")));
    says(error["message"].as_str().unwrap(), &["unexpected argument '--too' found"]);
    says(error["help"].as_str().unwrap(), &["'--to'"]);
    assert!(line(dir.path(), "convert a b --too bf16").stdout.is_empty());
    // Of help there is no error.
    assert!(line(dir.path(), "convert --json --help").stdout.starts_with(b"Converts"));
    for limit in ["-1", "nan", "x"] {
        let text = fails(dir.path(), &format!("convert a b --to bf16 --max-rel-error={limit}"), 2);
        says(&text, &["--max-rel-error", "not negative"]);
    }
    says(&fails(dir.path(), "verify a b --max-abs-error=-1", 2), &["not negative"]);
}

/// What helps is an option of the command that says it.
#[test]
fn a_remedy_names_options_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let code = |name: &str| (name.to_owned(), Dtype::F8_E4M3, vec![2usize, 4], vec![0x38u8; 8]);
    let scale = |name: &str| (name.to_owned(), Dtype::F32, vec![1usize], le(&[1.0]));
    let cases = [
        (
            vec![code("l.weight"), code("m.weight"), scale("m.weight_scale")],
            "fetch the scale",
            "--copy 'l.weight'",
        ),
        (vec![scale("l.weight_scale")], "fetch the weight", "--drop 'l.weight_scale'"),
        (vec![code("l.weight"), scale("l.weight_scale"), scale("l.weight_zero")], "", "--copy 'l.*'"),
        (vec![code("l.weight"), scale("l.weight_scale"), scale("l.scale_weight")], "", "--copy 'l.*'"),
        (vec![code("l.weight"), scale("l.weight_scale_2")], "fetch the scale", "--copy 'l.*'"),
    ];
    for (tensors, help, option) in cases {
        // And one that stays, whatever is dropped.
        let one = ("one".to_owned(), Dtype::F32, vec![1], le(&[1.0]));
        write(&at("a.safetensors"), &[tensors, vec![one]].concat(), None);
        let text = fails(dir.path(), "convert a.safetensors b.safetensors --to bf16", 3);
        says(&text, &[help, option]);
        let option = option.split(' ').map(|word| word.trim_matches('\'')).collect::<Vec<_>>().join(" ");
        ok(dir.path(), &format!("convert a.safetensors b.safetensors --to bf16 {option} --force --quiet"));
        let text = fails(dir.path(), "verify a.safetensors a.safetensors", 3);
        assert!(text.contains(help) && !text.contains("--copy") && !text.contains("--drop"), "{text}");
        says(
            &String::from_utf8(line(dir.path(), "inspect a.safetensors").stdout).unwrap(),
            &["convert with --"],
        );
    }
}

#[test]
fn no_threads_are_as_many_as_without_the_option() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 2, true);
    ok(dir.path(), "convert src dst --to bf16 --threads 0 --quiet");
    ok(dir.path(), "verify src dst --threads 0 --max-rel-error 0.004");
    for command in ["convert", "verify"] {
        says(&String::from_utf8(line(dir.path(), &format!("{command} --help")).stdout).unwrap(), &["and 0:"]);
    }
}

/// Words that are a part of a name, or of other programs, and numbers without their unit.
#[test]
fn other_words_are_answered_with_the_layouts() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    for (to, help) in [
        ("fp8", "fp8-block, fp8-channel, fp8-tensor"),
        ("nvfp", "nvfp4, modelopt-nvfp4, comfy-nvfp4"),
        ("int8", "int8-channel, int8-tensor"),
        ("int4", "a layout: int4-group"),
        ("q4_k_m", "a layout: fp8-block"),
        ("q4", "a layout: fp8-block"),
        ("fp8-blok", "no dtype and no layout"),
    ] {
        says(&fails(dir.path(), &format!("convert src dst --to {to}"), 2), &[to, help]);
    }
    says(&fails(dir.path(), "convert src dst --to bf16 --memory 8", 2), &["8 bytes", "1M or more"]);
    let out = line(dir.path(), "convert src/model-00001-of-00001.safetensors out --to bf16 --quiet");
    assert_eq!(out.status.code(), Some(0));
    says(&String::from_utf8(out.stderr).unwrap(), &["warning: out does not end in .safetensors"]);
    let out = line(dir.path(), "convert src dir.safetensors --to bf16 --quiet");
    says(&String::from_utf8(out.stderr).unwrap(), &["warning: dir.safetensors becomes a directory"]);
    // The examples are as wide as a terminal, but for two commands.
    let help = String::from_utf8(line(dir.path(), "--help").stdout).unwrap();
    let jobs = help.split("Usage:").next().unwrap().lines().take_while(|line| !line.starts_with("Converts"));
    assert!(jobs.filter(|line| line.len() > 80).count() <= 2, "{help}");
}

/// What is not in the result is counted by what it was.
#[test]
fn what_is_dropped_is_told_by_kind() {
    let dir = tempfile::tempdir().unwrap();
    let scalar = |name: &str| (name.to_owned(), Dtype::F32, vec![], le(&[1.0]));
    let mut tensors = vec![scalar("unwanted")];
    for i in 0..2 {
        tensors.push((format!("{i}.weight"), Dtype::F8_E4M3, vec![2, 4], vec![0x38; 8]));
        tensors.push(scalar(&format!("{i}.weight_scale")));
    }
    tensors.push(scalar("0.input_scale"));
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let line = line(dir.path(), "convert a.safetensors b.safetensors --to bf16 --drop unwanted");
    says(
        &String::from_utf8(line.stdout).unwrap(),
        &["dropped: 1 by --drop, 1 scale of activations, 2 scales (folded in)"],
    );
    let report = ok(dir.path(), "convert a.safetensors c.safetensors --to bf16 --json");
    assert_eq!(report["dropped_kinds"], serde_json::json!({ "activation_scale": 1, "scale": 2 }));
    assert_eq!(report["tensors"]["dropped"], 3);
}

/// What was compared, and what to do where every bit counted.
#[test]
fn verify_says_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 2, true);
    ok(dir.path(), "convert src dst --to bf16 --quiet");
    let said = |command: &str| String::from_utf8(line(dir.path(), command).stdout).unwrap();
    says(&said("verify src src"), &["2 tensors compared as float32: they are equal"]);
    says(&said("verify src dst --max-rel-error 0.004"), &["all are within the limits"]);
    says(
        &fails(dir.path(), "verify src dst", 1),
        &["2 tensors with differences, 0 on one side only", "--max-rel-error 0.004"],
    );
    let text = fails(dir.path(), "verify src dst --max-rel-error 0.0001", 1);
    assert!(!text.contains("help:"), "{text}");
}

#[test]
fn an_index_of_other_files_is_told() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 2, true);
    let first = "model-00001-of-00002.safetensors";
    let other = vec![("other".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))];
    write(&dir.path().join("src").join(first), &other, None);
    says(
        &fails(dir.path(), "convert src dst --to bf16", 3),
        &["layers.1.up_proj.weight", "no file has it", &format!("fetch {first} again")],
    );
}

#[test]
fn what_does_nothing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    let told = |command: &str| String::from_utf8(line(dir.path(), command).stderr).unwrap();
    says(&told("convert src dst --to f32"), &["warning: no tensor is converted"]);
    ok(dir.path(), "convert src block --to fp8-channel --quiet");
    says(&told("convert block again --to fp8-channel"), &["warning: no tensor is converted"]);
    // Files of another size are what was asked for.
    assert_eq!(told("convert src shards --to f32 --shard-size 1M --quiet"), "");
}

#[test]
fn nothing_to_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    write(&dir.path().join("none.safetensors"), &vec![], None);
    let before = names(dir.path());
    for command in ["convert none.safetensors a.safetensors --to bf16", "convert src dst --to bf16 --drop *"]
    {
        says(&fails(dir.path(), command, 3), &["no tensor would be written", "lanecast inspect"]);
        assert_eq!(names(dir.path()), before, "{command}");
    }
    ok(dir.path(), "inspect none.safetensors --json");
}

#[test]
fn a_layout_that_plain_tensors_do_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    for (command, words) in [
        ("convert src dst --to bf16 --from nvfp4", ["--from nvfp4: the tensors are f32", "leave --from out"]),
        ("verify src src --from-b nvfp4", ["--from-b nvfp4: the tensors are f32", "leave --from-b out"]),
    ] {
        says(&fails(dir.path(), command, 3), &words);
    }
    ok(dir.path(), "convert src dst --to bf16 --from auto --quiet");
}

#[test]
fn arrays_that_are_none_are_told() {
    let dir = tempfile::tempdir().unwrap();
    says(&fails(dir.path(), "cast no.npy a.npy --to bf16", 3), &["(os error 2)", "name a .npy file"]);
    for (descr, code, words) in [("<U1", 3, "which is not cast"), ("|V4", 2, "--from bf16, for example")] {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}\n");
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        npy.extend((text.len() as u16).to_le_bytes());
        npy.extend(text.as_bytes());
        npy.extend([0; 8]);
        fs::write(dir.path().join("x.npy"), npy).unwrap();
        says(&fails(dir.path(), "cast x.npy a.npy --to bf16", code), &[words]);
    }
}

/// A pipe is not waited for, and is named where it lies beside files.
#[test]
#[cfg(unix)]
fn pipes_are_no_files() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 1, false);
    numbered(&dir.path().join("other"), 1, false);
    for pipe in ["f.safetensors", "f.npy", "src/f.safetensors", "other/pipe"] {
        let made = Command::new("mkfifo").arg(dir.path().join(pipe)).status();
        assert!(made.unwrap().success(), "{pipe}");
    }
    for (command, code, text) in [
        ("inspect f.safetensors", 3, "f.safetensors: not a regular file"),
        ("convert f.safetensors g.safetensors --to bf16", 3, "f.safetensors: not a regular file"),
        ("cast f.npy g.npy --to bf16", 3, "f.npy: not a regular file"),
        ("inspect src", 3, "src/f.safetensors: not a regular file\nhelp: move it away"),
        ("convert other dst --to f16 --quiet", 0, "not read, and not copied: pipe (not a regular file)"),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"));
        child.args(command.split(' ')).current_dir(dir.path());
        let mut child = child.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..3000 {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = child.kill();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{command}");
        says(&String::from_utf8_lossy(&out.stderr), &[text]);
    }
}

/// Loaders, as this program, find files of a directory by `.safetensors` alone.
#[test]
fn tensors_that_are_called_otherwise_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 1, false);
    let file = names(&at("src")).into_iter().find(|name| name.ends_with(".safetensors")).unwrap();
    fs::copy(at("src").join(&file), at("src/B.SAFETENSORS")).unwrap();
    let out = line(dir.path(), "convert src dst --to bf16 --quiet");
    says(&String::from_utf8_lossy(&out.stderr), &["warning: not read, and not copied: B.SAFETENSORS"]);
    assert!(out.status.success() && !at("dst/B.SAFETENSORS").exists());
    let out = line(dir.path(), "verify src src");
    says(&String::from_utf8_lossy(&out.stderr), &["name does not end in .safetensors: src/B.SAFETENSORS"]);
    fs::remove_file(at("src").join(&file)).unwrap();
    says(
        &fails(dir.path(), "convert src other --to bf16", 3),
        &["no safetensors file in it", "B.SAFETENSORS is read if its name ends in .safetensors"],
    );
}
