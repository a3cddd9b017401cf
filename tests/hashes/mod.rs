//! Hashes of results, as the oracle gives them: `golden.tsv`.
//!
//! A hash is checked without running the oracle, so all results are compared in seconds, on an emulated machine
//! and in every flavour of a build too. Each row is a source, each column a target.
//!
//! `LANECAST_GOLDEN=bless cargo test --release --test golden` makes the rows of `tests/golden.rs` anew. The same
//! command with `--test sweep` and `LANECAST_SWEEP=default` makes the rows of all 2^32 codes. Both use the oracle's
//! results, never those of a cast.

#![allow(dead_code, reason = "each suite uses its part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use lanecast::DType;

const HASHES: &str = include_str!("golden.tsv");

/// A hash of bytes that come in pieces. The size of every piece but the last is a multiple of 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add_word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.add_word(u64::from_le_bytes(word));
        }
    }

    #[inline(always)]
    fn add_word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    pub(crate) fn finish(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ mixed >> 32
    }
}

/// Whether the file is to be made anew.
pub(crate) fn blesses() -> bool {
    std::env::var_os("LANECAST_GOLDEN").is_some_and(|value| value == "bless")
}

/// Whether only some of the targets of each source are compared.
pub(crate) fn takes_part() -> bool {
    std::env::var_os("LANECAST_GOLDEN").is_some_and(|value| value == "part")
}

/// Returns the recorded hash of a row and a target.
pub(crate) fn expected(row: &str, to: DType) -> Option<u64> {
    table(HASHES).get(row)?[to as usize]
}

type Table = BTreeMap<String, [Option<u64>; DType::ALL.len()]>;

fn table(hashes: &str) -> Table {
    let rows = hashes.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        let row = cells.next().expect("a name").to_owned();
        let mut hashes = [None; DType::ALL.len()];
        for (hash, cell) in hashes.iter_mut().zip(cells) {
            *hash = u64::from_str_radix(cell, 16).ok();
        }
        (row, hashes)
    });
    rows.collect()
}

static BLESSED: Mutex<Vec<(String, DType, u64)>> = Mutex::new(Vec::new());

/// Keeps a hash for [`write`].
pub(crate) fn bless(row: &str, to: DType, hash: u64) {
    BLESSED.lock().expect("no test panics here").push((row.to_owned(), to, hash));
}

/// Writes the file with the hashes kept by [`bless`].
pub(crate) fn write() {
    // Read anew, not as compiled in: another suite may have written it in between.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hashes/golden.tsv");
    let mut table = table(&std::fs::read_to_string(path).expect("the source is readable"));
    for (row, to, hash) in BLESSED.lock().expect("no test panics here").drain(..) {
        table.entry(row).or_insert([None; DType::ALL.len()])[to as usize] = Some(hash);
    }
    let mut text = "# Made by the oracle: see mod.rs. The columns are the targets:".to_owned();
    for to in DType::ALL {
        write!(text, " {to}").expect("a text grows");
    }
    text.push('\n');
    for (row, hashes) in table {
        text.push_str(&row);
        for hash in hashes {
            let cell = hash.map_or("-".to_owned(), |hash| format!("{hash:016x}"));
            write!(text, "\t{cell}").expect("a text grows");
        }
        text.push('\n');
    }
    std::fs::write(path, text).expect("the source is writable");
}
