//! Results that are made again, or that cannot be: what was there before, sources that change, directories that vanish.

mod common;

use std::fs::{self, File};
use std::path::Path;
#[cfg(unix)]
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use common::{Random, Tensors, fails, le, line, listing, ok, write};
use safetensors::Dtype;
use serde_json::json;

/// A checkpoint of so many numbered files, each of a matrix of so many rows.
fn numbered(dir: &Path, n: usize, rows: usize) {
    fs::create_dir_all(dir).unwrap();
    let mut map = serde_json::Map::new();
    for i in 1..=n {
        let (file, name) =
            (format!("model-{i:05}-of-{n:05}.safetensors"), format!("layers.{i}.up_proj.weight"));
        let values = le(&Random(i as u64).floats(rows * 256));
        write(&dir.join(&file), &vec![(name.clone(), Dtype::F32, vec![rows, 256], values)], None);
        map.insert(name, json!(file));
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
    fs::write(dir.join("config.json"), json!({ "torch_dtype": "float32" }).to_string()).unwrap();
}

fn set_time(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// A run by a shell, which does something before.
#[cfg(unix)]
fn after(dir: &Path, script: &str, words: &str) -> Output {
    let script = format!("{script} \"$0\" {words}");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_lanecast")])
        .current_dir(dir)
        .output()
        .unwrap()
}

/// Files of two runs are not found with the configuration and the index of the first.
#[test]
fn a_result_that_is_replaced_in_part_is_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 2, 16);
    let config = json!({ "quantization_config": { "quant_method": "fp8", "weight_block_size": [128, 128] } });
    fs::write(at("src/config.json"), config.to_string()).unwrap();
    let with_scale = |scale: f32| {
        let tensors: Tensors = vec![
            ("layers.2.up_proj.weight".into(), Dtype::F8_E4M3, vec![128, 128], Random(1).e4m3(128 * 128)),
            ("layers.2.up_proj.weight_scale_inv".into(), Dtype::F32, vec![1, 1], le(&[scale])),
        ];
        write(&at("src/model-00002-of-00002.safetensors"), &tensors, None);
    };
    let mut index: serde_json::Value =
        serde_json::from_slice(&fs::read(at("src/model.safetensors.index.json")).unwrap()).unwrap();
    index["weight_map"]["layers.2.up_proj.weight_scale_inv"] = json!("model-00002-of-00002.safetensors");
    fs::write(at("src/model.safetensors.index.json"), index.to_string()).unwrap();
    let there = || ["config.json", "model.safetensors.index.json"].map(|name| at("dst").join(name).exists());
    with_scale(2.0);
    ok(dir.path(), "convert src dst --to bf16 --quiet");
    // What is complete stays so.
    ok(dir.path(), "convert src dst --to bf16 --quiet --resume");
    assert_eq!(there(), [true; 2]);
    for how in ["--to bf16 --resume", "--to f16 --force"] {
        with_scale(f32::NAN);
        fails(dir.path(), &format!("convert src dst --quiet {how}"), 3);
        assert_eq!(there(), [false; 2], "{how}");
        with_scale(2.0);
        ok(dir.path(), "convert src dst --to bf16 --quiet --force");
        assert_eq!(there(), [true; 2], "{how}");
    }
    ok(dir.path(), "convert src fresh --to bf16 --quiet");
    assert!(listing(&at("dst")) == listing(&at("fresh")));
    // In a directory of another origin, nothing is removed before.
    fs::create_dir(at("mine")).unwrap();
    fs::write(at("mine/config.json"), "mine").unwrap();
    with_scale(f32::NAN);
    fails(dir.path(), "convert src mine --to bf16 --quiet --force", 3);
    assert_eq!(fs::read_to_string(at("mine/config.json")).unwrap(), "mine");
}

/// A source that is replaced while it is read is newer than the result.
#[test]
fn a_source_that_changes_during_a_run_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 2, 16384);
    ok(dir.path(), "convert src dst --to bf16 --quiet --threads 1");
    // When the last file of the result was there, the run had not ended.
    let during = (1..=2).map(|i| modified(&at(&format!("dst/model-0000{i}-of-00002.safetensors"))));
    let during = during.max().unwrap();
    let source = at("src/model-00002-of-00002.safetensors");
    let mut bytes = fs::read(&source).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&source, bytes).unwrap();
    set_time(&source, during);
    ok(dir.path(), "convert src dst --to bf16 --quiet --resume");
    ok(dir.path(), "convert src fresh --to bf16 --quiet");
    assert!(listing(&at("dst")) == listing(&at("fresh")));
}

/// Ranks may have copies of the source, so they make nothing again, but they say what they found.
#[test]
fn ranks_say_that_the_source_is_newer() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 2, 16);
    ok(dir.path(), "convert src dst --to bf16 --quiet");
    for rank in ["--rank 0 --of 2", "--rank 1 --of 2 --resume"] {
        let words = format!("convert src dst --to bf16 --quiet {rank}");
        assert!(line(dir.path(), &words).stderr.is_empty(), "{rank}");
        let source = at("src/model-00001-of-00002.safetensors");
        set_time(&source, SystemTime::now() + Duration::from_secs(3600));
        let out = line(dir.path(), &words);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{text}");
        assert!(text.starts_with("warning: the result was made before the source files"), "{rank}: {text}");
        set_time(&source, SystemTime::now() - Duration::from_secs(3600));
    }
}

/// What changed between two ranks is newer than their result.
#[test]
fn a_source_that_changes_between_ranks_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 2, 16);
    for i in 1..=2 {
        let file = at(&format!("src/model-0000{i}-of-00002.safetensors"));
        set_time(&file, SystemTime::now() - Duration::from_secs(3600));
    }
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    let source = at("src/model-00001-of-00002.safetensors");
    let mut bytes = fs::read(&source).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::thread::sleep(Duration::from_millis(20));
    fs::write(&source, bytes).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let out = line(dir.path(), "convert src dst --to bf16 --rank 1 --of 2");
    assert!(String::from_utf8_lossy(&out.stderr).contains("1 file made by other ranks from source files"));
    ok(dir.path(), "convert src dst --to bf16 --quiet --resume");
    ok(dir.path(), "convert src fresh --to bf16 --quiet");
    assert!(listing(&at("dst")) == listing(&at("fresh")));
}

/// A directory that a killed run has begun is not a result yet: what lies in it is the user's.
#[test]
fn a_configuration_of_other_origin_is_refused_where_a_run_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 1, 16);
    fs::remove_file(at("src/config.json")).unwrap();
    fs::create_dir_all(at("dst/.lanecast")).unwrap();
    fs::write(at("dst/config.json"), "mine").unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16 --force", 3);
    assert!(error.contains("config.json was not made by a conversion"), "{error}");
    assert_eq!(fs::read_to_string(at("dst/config.json")).unwrap(), "mine");
}

/// Files may be written to some directories that may not be read, and so cannot be synchronised.
#[test]
#[cfg(target_os = "linux")]
fn codes_and_scales_are_written_to_a_directory_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("in.bin"), le(&[1.0; 8])).unwrap();
    fs::create_dir(at("out")).unwrap();
    let allow = |mode| fs::set_permissions(at("out"), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o300);
    let is_root = fs::read_dir(at("out")).is_ok();
    let less = if is_root { "setpriv --inh-caps=-all --bounding-set=-all" } else { "" };
    let words = "cast in.bin out/q.bin --from f32 --to float8_e4m3fn --scale tensor --quiet";
    let out = after(dir.path(), less, words);
    allow(0o700);
    let text = String::from_utf8_lossy(&out.stderr);
    if is_root && text.contains("setpriv") {
        eprintln!("NOT RUN: a directory that may not be read: {text}");
        return;
    }
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert_eq!(listing(&at("out")).len(), 2);
}

/// `lost+found` and the like are told, and the rest is converted.
#[test]
#[cfg(target_os = "linux")]
fn directories_that_may_not_be_read_are_left_out() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 2, 16);
    fs::create_dir_all(at("src/lost+found")).unwrap();
    fs::create_dir_all(at("src/more/private")).unwrap();
    fs::write(at("src/more/private/secret"), "").unwrap();
    let allow = |modes: [u32; 2]| {
        for (name, mode) in ["src/lost+found", "src/more/private"].into_iter().zip(modes) {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    // The names in the second may be read, and nothing else.
    allow([0, 0o444]);
    // Who may read everything gives that up.
    let is_root = fs::read_dir(at("src/lost+found")).is_ok();
    let less = if is_root { "setpriv --inh-caps=-all --bounding-set=-all" } else { "" };
    let out = after(dir.path(), less, "convert src dst --to bf16 --quiet");
    allow([0o700; 2]);
    let text = String::from_utf8_lossy(&out.stderr);
    if is_root && text.contains("setpriv") {
        eprintln!("NOT RUN: directories that may not be read: {text}");
        return;
    }
    assert_eq!(out.status.code(), Some(0), "{text}");
    let why = "Permission denied (os error 13)";
    let both = format!("lost+found/ (lost+found: {why}), more/ (more/private/secret: {why})");
    assert_eq!(text, format!("warning: not read, and not copied: {both}\n"));
    assert!(at("dst/lanecast.json").exists());
    // A file that may not be read is an error before anything is converted.
    fs::write(at("src/notes.txt"), "").unwrap();
    fs::set_permissions(at("src/notes.txt"), fs::Permissions::from_mode(0o0)).unwrap();
    let out = after(dir.path(), less, "convert src new --to bf16 --quiet");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(4) && text.contains("notes.txt: Permission denied"), "{text}");
    assert!(fs::read_dir(at("new")).unwrap().next().is_none());
}

/// All files of a checkpoint are open together.
#[test]
#[cfg(unix)]
fn more_files_are_opened_than_the_soft_limit_allows() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 80, 1);
    let out = after(dir.path(), "ulimit -S -n 40; exec", "convert src dst --to bf16 --quiet");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Where names of any case are one name, what is found under a name may be the state of another file.
#[test]
fn a_state_is_that_of_its_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("src")).unwrap();
    for (name, tensor) in [("a.safetensors", "x"), ("B.safetensors", "y")] {
        write(&at("src").join(name), &vec![(tensor.into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))], None);
    }
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    let state = fs::read_dir(at("dst/.lanecast")).unwrap().next().unwrap().unwrap().path();
    let other = if state.ends_with("a.safetensors.json") { "B.safetensors" } else { "a.safetensors" };
    fs::copy(&state, at("dst/.lanecast").join(format!("{other}.json"))).unwrap();
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2 --resume");
    assert!(!at("dst/lanecast.json").exists());
    ok(dir.path(), "convert src dst --to bf16 --quiet --resume");
    ok(dir.path(), "convert src fresh --to bf16 --quiet");
    assert!(listing(&at("dst")) == listing(&at("fresh")));
}

#[test]
#[cfg(target_os = "linux")]
fn names_that_differ_in_case_alone_are_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("src")).unwrap();
    for (name, tensor) in [("a.safetensors", "x"), ("A.safetensors", "y")] {
        write(&at("src").join(name), &vec![(tensor.into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))], None);
    }
    ok(dir.path(), "convert src dst --to bf16 --quiet");
    let names: Vec<_> = listing(&at("dst")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["A.safetensors", "a.safetensors", "lanecast.json", "model.safetensors.index.json"]);
}

/// The names of what was cast are on the disk, too.
#[test]
#[cfg(target_os = "linux")]
fn the_directory_of_a_cast_is_synchronised() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.bin"), le(&[1.0; 8])).unwrap();
    let strace = "strace -f -qq -o log -e trace=?rename,?renameat,?renameat2,?link,?linkat,fsync";
    let out = after(dir.path(), strace, "cast in.bin out.bin --from f32 --to bf16 --quiet");
    let Ok(log) = fs::read_to_string(dir.path().join("log")) else {
        eprintln!("NOT RUN: the calls of a cast: strace is not installed, or cannot trace here");
        return;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let last = log.lines().rfind(|line| line.contains('(')).unwrap_or_default();
    assert!(log.contains("out.bin") && last.contains("fsync("), "{log}");
}

#[test]
fn any_number_of_threads_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    numbered(&dir.path().join("src"), 2, 16);
    ok(dir.path(), "convert src dst --to bf16 --threads 10000000 --quiet");
    ok(dir.path(), "verify src dst --threads 10000000 --max-rel-error 0.004");
}

/// A place that is not there any more is an error of the system, not of the input.
#[test]
#[cfg(unix)]
fn a_directory_that_vanishes_is_an_error_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    numbered(&at("src"), 1, 1 << 17);
    fs::rename(at("src/model-00001-of-00001.safetensors"), at("in.safetensors")).unwrap();
    for words in [
        "cast - to/out.bin --from f32 --to bf16",
        "convert in.safetensors to/out.safetensors --to bf16 --threads 1 --quiet",
    ] {
        fs::create_dir(at("to")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanecast"));
        command.args(words.split(' ')).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.current_dir(dir.path()).spawn().unwrap();
        let stdin = child.stdin.take();
        while fs::read_dir(at("to")).unwrap().next().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "{words}: it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::remove_dir_all(at("to")).unwrap();
        drop(stdin);
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{words}: {text}");
        assert!(text.contains("No such file"), "{words}: {text}");
    }
}
