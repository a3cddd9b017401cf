//! Malicious checkpoints, for tests and for fuzzing.

use std::fs;
use std::path::Path;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::checkpoint::Checkpoint;
use crate::header::byte_len;
use crate::layout::recognise;
use crate::plan::{Input, Output, Plan};
use crate::tile::{self, Scratch};
use crate::{config, inspect};

/// The separator between the parts of an input.
const BETWEEN: &str = "\n%%\n";
/// How many bytes of data a file gets at most, whatever its header says.
const MOST: u64 = 1 << 16;
/// The bytes of a tile: so few that nearly every tensor has several.
const TILE: u64 = 512;

/// How many bytes of data a header claims.
fn claimed(header: &str) -> u64 {
    let Ok(serde_json::Value::Object(map)) = serde_json::from_str(header) else { return 8 };
    let ends = map.values().filter_map(|info| info.get("data_offsets")?.get(1)?.as_u64());
    ends.max().unwrap_or(0).min(MOST)
}

/// Makes a directory from a text and does with it all that the program does before it writes. The parts of the text are the target,
/// `config.json`, the index, `hf_quant_config.json`, data that are repeated as often as needed, and the header of each file. Nothing may
/// panic, and nothing may be written outside of its place. Returns true if all of it is converted.
pub fn hostile(text: &[u8], dir: &Path) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split(BETWEEN);
    let mut part = || parts.next().unwrap_or("");
    let (to, texts, data) = (part(), [part(), part(), part()], part());
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).expect("a directory");
    for (name, text) in
        ["config.json", "model.safetensors.index.json", "hf_quant_config.json"].iter().zip(texts)
    {
        if !text.is_empty() {
            fs::write(dir.join(name), text).expect("a file");
        }
    }
    for (i, header) in parts.take(3).enumerate() {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(data.bytes().cycle().take(claimed(header) as usize));
        fs::write(dir.join(format!("model-{}.safetensors", i + 1)), file).expect("a file");
    }
    let words = ["lanecast", "convert"].map(Into::into).into_iter();
    let words = words.chain([dir.into(), dir.join("dst").into_os_string()]);
    // The first part is the target, and may have options after that.
    let words = words.chain(["--to".into()]).chain(to.split(' ').map(Into::into));
    let Ok(Cli { command: Command::Convert(args) }) = Cli::try_parse_from(words) else { return false };
    let Ok(it) = Checkpoint::open(dir) else { return false };
    let found = recognise(&it, inspect::from_option(&args.from).unwrap_or(None));
    for tensor in it.tensors.values() {
        let _ = inspect::measure(&it, &found, tensor);
    }
    let _ = inspect::as_json(&it, &found, &Default::default()).to_string();
    let Ok(plan) = Plan::new(&it, &found, &args) else { return false };
    let _ = (config::config(&it, &plan), config::index(&it, &plan), config::quant_config(&it, &plan));
    let (mut scratch, mut all) = (Scratch::default(), true);
    for shard in &plan.shards {
        for &index in &shard.jobs {
            let job = &plan.jobs[index];
            let group = matches!(&job.output, Output::Quantise(target) if target.group.is_some());
            let (Input::Plain(main) | Input::Scaled(_, main, _)) = &job.input;
            assert!(main.len <= MOST, "{} lies in its file", job.name);
            let tiles = tile::tiles(index, job, TILE);
            let largest = group.then(|| {
                let found = tiles.iter().filter_map(|tile| tile::amax(&it, job, tile, &mut scratch).ok());
                f64::from_bits(found.max().unwrap_or(0))
            });
            let mut written = 0;
            let mut whole = true;
            for part in &tiles {
                let mut write = |offset: u64, bytes: &[u8]| {
                    assert!(
                        offset + bytes.len() as u64 <= shard.bytes,
                        "{} is written into its file",
                        job.name
                    );
                    written += bytes.len() as u64;
                    Ok(())
                };
                whole &= tile::convert(&it, job, part, largest, &mut scratch, &mut write).is_ok();
            }
            let outs = job.outs.iter().filter(|out| out.bytes.is_none());
            let expected: u64 = outs.map(|out| byte_len(out.dtype, &out.shape)).sum();
            all &= whole;
            assert!(!whole || written == expected, "{}: {written} bytes of {expected} are written", job.name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BETWEEN, hostile};

    fn saved() -> Vec<Vec<u8>> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/checkpoints");
        let mut files: Vec<_> =
            std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// The inputs from which fuzzing begins, and what it has found.
    #[test]
    fn hostile_checkpoints_are_errors_or_converted_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (mut whole, mut refused) = (0, 0);
        for text in saved() {
            println!("{}", String::from_utf8_lossy(&text));
            let is_whole = hostile(&text, &dir.path().join("src"));
            whole += u32::from(is_whole);
            refused += u32::from(!is_whole);
        }
        assert!(whole >= 20 && refused >= 1, "{whole} {refused}");
    }

    /// Inputs with other numbers, with words left out or doubled, and with parts of other checkpoints.
    #[test]
    fn damaged_checkpoints_are_errors_or_converted_whole() {
        const NUMBERS: [&str; 12] =
            ["0", "1", "2", "3", "15", "16", "17", "128", "-1", "1.5", "4294967296", "18446744073709551615"];
        let dir = tempfile::tempdir().unwrap();
        let (saved, between) = (saved(), BETWEEN);
        let mut state = 1u64;
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n.max(1)
        };
        let (mut whole, mut refused) = (0, 0);
        for _ in 0..4000 {
            let mut text = String::from_utf8(saved[random(saved.len())].clone()).unwrap();
            for _ in 0..=random(2) {
                let digits: Vec<usize> =
                    text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
                let words: Vec<usize> =
                    text.char_indices().filter(|(_, c)| *c == '"').map(|(at, _)| at).collect();
                match random(4) {
                    0 | 1 if !digits.is_empty() => {
                        let at = digits[random(digits.len())];
                        let end =
                            text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| at + n);
                        text.replace_range(at..end, NUMBERS[random(NUMBERS.len())]);
                    }
                    2 if words.len() > 4 => {
                        let at = random(words.len() - 4);
                        let (from, to) = (words[at], words[at + 1 + random(3)]);
                        let word = text[from..to].to_owned();
                        if random(2) == 0 {
                            text.replace_range(from..to, "")
                        } else {
                            text.insert_str(from, &word)
                        }
                    }
                    _ => {
                        let other = String::from_utf8(saved[random(saved.len())].clone()).unwrap();
                        let theirs: Vec<&str> = other.split(between).collect();
                        let mut parts: Vec<&str> = text.split(between).collect();
                        let at = random(parts.len().min(theirs.len()));
                        parts[at] = theirs[at];
                        text = parts.join(between);
                    }
                }
            }
            // The last text that is shown before a failure is the input.
            println!("{text}");
            let is_whole = hostile(text.as_bytes(), &dir.path().join("src"));
            whole += u32::from(is_whole);
            refused += u32::from(!is_whole);
        }
        assert!(whole > 200 && refused > 200, "{whole} {refused}");
    }
}
