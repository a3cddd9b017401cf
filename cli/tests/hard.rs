//! Kills, full disks, memory.

mod common;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Random, Tensors, bf16s, listing, ok, write};
use safetensors::Dtype;
use serde_json::json;

/// A checkpoint of several files.
fn files(dir: &Path, n: usize) {
    fs::create_dir_all(dir).unwrap();
    let mut random = Random(21);
    let mut map = serde_json::Map::new();
    for i in 1..=n {
        let file = format!("model-{i:05}-of-{n:05}.safetensors");
        let name = format!("layers.{i}.up_proj.weight");
        let tensors: Tensors =
            vec![(name.clone(), Dtype::BF16, vec![512, 512], bf16s(&random.floats(512 * 512)))];
        write(&dir.join(&file), &tensors, None);
        map.insert(name, json!(file));
    }
    let index = json!({ "metadata": {}, "weight_map": map });
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn killed_at_any_moment_and_resumed_the_result_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 6);
    ok(dir.path(), "convert src whole --to fp8-tensor --quiet");
    let whole = listing(&dir.path().join("whole"));
    let (mut killed, mut partly) = (0, 0);
    for round in 0..8u64 {
        let dst = dir.path().join("dst");
        let _ = fs::remove_dir_all(&dst);
        let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
            .args(["convert", "src", "dst", "--to", "fp8-tensor", "--quiet", "--threads", "1"])
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        // Once so many files are there, or at some moment.
        for _ in 0..2000 {
            std::thread::sleep(Duration::from_millis(2));
            let names = fs::read_dir(&dst).map_or(0, |all| all.count()) as u64;
            if names > round {
                break;
            }
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        killed += u32::from(if cfg!(windows) { status.code() == Some(1) } else { status.code().is_none() });
        partly += u32::from(dst.join(".lanecast").is_dir());
        // What has its name is whole.
        for (name, bytes) in listing(&dst) {
            if !name.starts_with('.') {
                assert!(whole.contains(&(name.clone(), bytes)), "{name} is not whole");
            }
        }
        ok(dir.path(), "convert src dst --to fp8-tensor --quiet --resume=hash");
        assert!(listing(&dst) == whole, "round {round}");
    }
    assert!(killed > 0 && partly > 0, "no run was killed in time");
}

/// The system calls that change files.
const CALLS: [&str; 13] = [
    "pwrite64",
    "write",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "ftruncate",
    "fallocate",
    "mkdir",
    "rmdir",
];

/// A conversion of `src` under strace, which does something to calls.
fn traced(dir: &Path, more: &[&str]) -> Output {
    let trace = format!("trace=?{}", CALLS.join(",?"));
    let convert = ["convert", "src", "dst", "--to", "fp8-block", "--quiet", "--threads", "1", "--resume"];
    let strace = ["-f", "-qq", "-o", "log", "-e", &trace];
    Command::new("strace")
        .args(strace)
        .args(more)
        .arg(env!("CARGO_BIN_EXE_lanecast"))
        .args(convert)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// Every call of an undisturbed run that changes files: its name, and the number that it has among those of that name in a thread.
fn changes(dir: &Path) -> Option<Vec<(&'static str, usize)>> {
    if !Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success()) {
        eprintln!(
            "NOT RUN: kills at system calls, and calls that fail: strace is not installed, or cannot trace here"
        );
        return None;
    }
    assert!(traced(dir, &[]).status.success());
    let log = fs::read_to_string(dir.join("log")).unwrap();
    // Each thread counts its own.
    let calls = CALLS.iter().flat_map(|&call| {
        let mut counts = HashMap::new();
        for line in log.lines().filter(|line| line.contains(&format!(" {call}("))) {
            *counts.entry(line.split(' ').next()).or_insert(0) += 1;
        }
        (1..=counts.into_values().max().unwrap_or(0)).map(move |i| (call, i))
    });
    Some(calls.collect())
}

/// What has its name in `dst` is whole.
fn assert_whole(dir: &Path, whole: &[(String, Vec<u8>)], what: &str) {
    if dir.join("dst").exists() {
        for file in listing(&dir.join("dst")).into_iter().filter(|(name, _)| !name.starts_with('.')) {
            assert!(whole.contains(&file), "{what}: {} is not whole", file.0);
        }
    }
}

#[test]
fn killed_at_every_call_that_changes_a_file_the_result_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 2);
    let Some(calls) = changes(dir.path()) else { return };
    let whole = listing(&dir.path().join("dst"));
    let mut killed = 0;
    for (call, i) in calls {
        fs::remove_dir_all(dir.path().join("dst")).unwrap();
        let out = traced(dir.path(), &["-e", &format!("inject={call}:signal=KILL:when={i}")]);
        killed += u32::from(!out.status.success());
        assert_whole(dir.path(), &whole, &format!("{call} {i}"));
        ok(dir.path(), "convert src dst --to fp8-block --quiet --resume");
        assert!(listing(&dir.path().join("dst")) == whole, "{call} {i}");
    }
    assert!(killed > 30, "{killed} kills");
}

#[test]
fn calls_that_fail_are_errors_and_leave_no_half_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 2);
    let Some(calls) = changes(dir.path()) else { return };
    let whole = listing(&dir.path().join("dst"));
    for (call, i) in calls {
        let error = match call {
            "pwrite64" | "fallocate" | "ftruncate" => "ENOSPC",
            "fsync" | "fdatasync" | "rename" | "renameat" | "renameat2" => "EIO",
            _ => continue,
        };
        fs::remove_dir_all(dir.path().join("dst")).unwrap();
        let out = traced(dir.path(), &["-e", &format!("inject={call}:error={error}:when={i}")]);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{call} {i}: {text}");
        assert!(text.contains("dst"), "{call} {i} names no file: {text}");
        assert_whole(dir.path(), &whole, &format!("{call} {i}"));
        let left: Vec<_> = listing(&dir.path().join("dst")).into_iter().map(|(name, _)| name).collect();
        assert!(!left.iter().any(|name| name.ends_with(".tmp")), "{call} {i}: {left:?}");
        ok(dir.path(), "convert src dst --to fp8-block --quiet --resume");
        assert!(listing(&dir.path().join("dst")) == whole, "{call} {i}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 3);
    // A file system of 1 MiB, seen by this command alone.
    let script = "mkdir m && mount -t tmpfs -o size=1m none m || exit 99
        \"$0\" convert src m/dst --to f32 --quiet; code=$?
        [ -e m/dst ] && exit 98
        exit $code";
    let out = Command::new("unshare")
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_lanecast")])
        .current_dir(dir.path())
        .output();
    match out {
        Ok(out) if !matches!(out.status.code(), Some(99 | 1)) => {
            let text = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(4), "{text}");
            assert!(text.contains("are free"), "{text}");
        }
        _ => eprintln!("NOT RUN: a full disk, for nothing can be mounted here"),
    }
}

/// The system would end the program by a signal.
#[test]
#[cfg(unix)]
fn files_that_may_not_be_so_large_are_an_error_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 2);
    fs::write(dir.path().join("in.bin"), vec![0; 1 << 20]).unwrap();
    let before = fs::read_dir(dir.path()).unwrap().count();
    for words in [
        "convert src dst --to f32 --quiet",
        "convert src/model-00001-of-00002.safetensors out.safetensors --to f32 --quiet",
        "cast in.bin out.bin --from f32 --to f64 --quiet",
    ] {
        let out = Command::new("sh")
            .args(["-c", &format!("ulimit -f 100; exec \"$0\" {words}"), env!("CARGO_BIN_EXE_lanecast")])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{words}: {text}");
        assert!(text.contains("file too large") && text.contains("ulimit -f"), "{words}: {text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{words}");
    }
}

/// The most memory of a conversion, in KiB: of the process, as the system counts it.
fn peak(dir: &Path, words: &str) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
        .args(words.split(' '))
        .stdout(Stdio::null())
        .current_dir(dir)
        .spawn()
        .unwrap();
    let mut peak = 0u64;
    let status = loop {
        if let Ok(text) = fs::read_to_string(format!("/proc/{}/status", child.id())) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let found = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
            peak = peak.max(found.unwrap_or(0));
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success());
    eprintln!("{words}: peak of {peak} kB");
    peak
}

/// A file of zeros that no disk holds.
fn zeros(path: &Path, header: &str, bytes: usize) {
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len((8 + header.len() + bytes) as u64).unwrap();
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "not run: the peak is asked of /proc")]
fn memory_is_bounded_whatever_the_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, columns) = (24576usize, 4096usize);
    let bytes = rows * columns * 2;
    let header =
        format!(r#"{{"x.weight":{{"dtype":"BF16","shape":[{rows},{columns}],"data_offsets":[0,{bytes}]}}}}"#);
    zeros(&dir.path().join("a.safetensors"), &header, bytes);
    let peak = peak(dir.path(), "convert a.safetensors b.safetensors --to e4m3 --memory 32M");
    assert!(peak > 0 && peak < (64 + 32) << 10, "{peak} kB");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "not run: the peak is asked of /proc")]
fn memory_is_bounded_for_many_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Vec<String> = (0..100_000usize)
        .map(|i| {
            let (from, to) = (i * 1024, (i + 1) * 1024);
            format!(r#""layers.{i}.weight":{{"dtype":"BF16","shape":[16,32],"data_offsets":[{from},{to}]}}"#)
        })
        .collect();
    zeros(&dir.path().join("a.safetensors"), &format!("{{{}}}", tensors.join(",")), 1024 * tensors.len());
    for to in ["f32", "nvfp4"] {
        let peak =
            peak(dir.path(), &format!("convert a.safetensors {to}.safetensors --to {to} --memory 32M"));
        assert!(peak > 0 && peak < (64 + 32 + 64) << 10, "{to}: {peak} kB");
    }
}

#[test]
#[cfg_attr(not(unix), ignore = "not run: it is sent by kill")]
fn ctrl_c_is_130_and_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    files(&dir.path().join("src"), 6);
    let mut interrupted = false;
    for _ in 0..5 {
        let dst = dir.path().join("dst");
        let _ = fs::remove_dir_all(&dst);
        let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
            .args(["convert", "src", "dst", "--to", "fp8-tensor", "--threads", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        while !dst.join("model-00001-of-00006.safetensors").exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let out = child.wait_with_output().unwrap();
        if out.status.code() == Some(0) {
            continue;
        }
        assert_eq!(out.status.code(), Some(130));
        assert!(String::from_utf8_lossy(&out.stderr).contains("--resume"));
        assert!(listing(&dst).iter().all(|(name, _)| !name.ends_with(".tmp")));
        interrupted = true;
        break;
    }
    assert!(interrupted, "every run was done before the interrupt");
}

/// A single file is begun anew.
#[test]
#[cfg_attr(not(unix), ignore = "not run: it is sent by kill")]
fn ctrl_c_leaves_nothing_of_a_single_file() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = 1 << 27;
    let header = format!(r#"{{"x":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#, bytes / 2);
    zeros(&dir.path().join("in.safetensors"), &header, bytes);
    for _ in 0..5 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
            .args("convert in.safetensors out.safetensors --to f16 --threads 1 --quiet --force".split(' '))
            .stderr(Stdio::piped())
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        while fs::read_dir(dir.path()).unwrap().count() < 2 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let out = child.wait_with_output().unwrap();
        if out.status.code() == Some(0) {
            fs::remove_file(dir.path().join("out.safetensors")).unwrap();
            continue;
        }
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(130), "{text}");
        let help = "nothing was written: the same command begins out.safetensors anew";
        assert!(text.contains(help) && !text.contains("--resume"), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        return;
    }
    panic!("every run was done before the interrupt");
}

#[test]
#[cfg_attr(not(unix), ignore = "not run: it is sent by kill")]
fn ctrl_c_ends_a_pipe_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
        .args("cast - y.bin --from f32 --to bf16".split(' '))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than a pipe holds: once it is written, the program reads, and has said before what Ctrl-C does.
    stdin.write_all(&[0; 1 << 20]).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    // (Standard input is still open.)
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(130) && text.contains("nothing was written"), "{text}");
    assert!(listing(dir.path()).is_empty());
    drop(stdin);
}

/// What a killed run has left of a single file goes with the next run to that file. What another run writes now, or what belongs to another
/// file, stays.
#[test]
#[cfg(unix)]
fn abandoned_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![("a".to_owned(), Dtype::BF16, vec![4], bf16s(&[1.0; 4]))];
    write(&dir.path().join("in.safetensors"), &tensors, None);
    fs::write(dir.path().join("in.bin"), [0; 8]).unwrap();
    for (command, to) in [
        ("convert in.safetensors out.safetensors --to f16 --force --quiet", "out.safetensors"),
        ("cast in.bin out.bin --from bf16 --to f16 --force", "out.bin"),
    ] {
        let [abandoned, written, other] =
            [format!(".{to}.aB3xyZ.tmp"), format!(".{to}.Zb4xyZ.tmp"), ".another.aB3xyZ.tmp".to_owned()];
        let [_, lock, _] =
            [&abandoned, &written, &other].map(|name| File::create(dir.path().join(name)).unwrap());
        lock.try_lock().unwrap();
        ok(dir.path(), command);
        let there = [abandoned, written, other].map(|name| dir.path().join(name).exists());
        assert_eq!(there, [false, true, true], "{command}");
    }
}

/// A file that appears while a run works is not replaced without --force.
#[test]
fn what_appears_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let start = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanecast"));
        command.args(words.split(' ')).stdin(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(dir.path()).spawn().unwrap()
    };
    let bytes = 1 << 27;
    let header = format!(r#"{{"x":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#, bytes / 2);
    zeros(&dir.path().join("in.safetensors"), &header, bytes);
    let names = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let is_begun = || names().any(|name| name.to_string_lossy().starts_with(".out"));
    for (words, to) in [
        ("convert in.safetensors out.safetensors --to f16 --threads 1 --quiet", "out.safetensors"),
        ("cast - out.bin --from f32 --to bf16", "out.bin"),
    ] {
        let mut child = start(words);
        let stdin = child.stdin.take();
        while !is_begun() {
            assert!(child.try_wait().unwrap().is_none(), "{words}: it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::write(dir.path().join(to), "mine").unwrap();
        drop(stdin);
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{words}: {text}");
        assert!(text.contains(&format!("{to} exists\nhelp: --force replaces it")), "{text}");
        assert_eq!(fs::read_to_string(dir.path().join(to)).unwrap(), "mine", "{words}");
        assert!(!is_begun(), "{words}");
    }
}
