//! Reads `fixtures/promotion.tsv` and `fixtures/dtypes.tsv`.

#![allow(dead_code, reason = "each test binary reads a part")]

use lanecast::DType;

const PROMOTION: &str = include_str!("../fixtures/promotion.tsv");
const DTYPES: &str = include_str!("../fixtures/dtypes.tsv");

/// Dtypes of other systems that this library does not have: rows that name one are counted, not tested.
pub(crate) const NOT_HERE: [&str; 3] = ["float4_e2m1fn_x2", "longdouble", "clongdouble"];

/// Returns the dtype of a name, or `None` for one of `NOT_HERE`.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    match name.parse() {
        Ok(dtype) => Some(dtype),
        Err(_) if NOT_HERE.contains(&name) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the cells of a block of promotion.tsv: row, column, contents.
pub(crate) fn block(title: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut lines = PROMOTION
        .lines()
        .skip_while(|line| line.strip_prefix('@').is_none_or(|line| line.split('\t').next() != Some(title)));
    let columns: Vec<_> =
        lines.next().unwrap_or_else(|| panic!("no block {title}")).split('\t').skip(1).collect();
    let mut cells = Vec::new();
    for line in lines.take_while(|line| !line.starts_with('@')) {
        let mut row = line.split('\t');
        let name = row.next().unwrap();
        let answers: Vec<_> = row.collect();
        assert_eq!(answers.len(), columns.len(), "{title} {name}");
        cells.extend(columns.iter().zip(answers).map(|(column, answer)| (name, *column, answer)));
    }
    cells
}

/// Returns the titles of the blocks of promotion.tsv that begin with a word, without that word.
pub(crate) fn blocks(word: &str) -> Vec<&'static str> {
    let titles = PROMOTION.lines().filter_map(|line| line.strip_prefix('@')?.split('\t').next());
    titles.filter_map(|title| title.strip_prefix(word)?.strip_prefix(' ')).collect()
}

/// Returns the lines of dtypes.tsv that begin with a word, each as its remaining columns.
pub(crate) fn rows(word: &str) -> Vec<Vec<&'static str>> {
    let lines = DTYPES.lines().map(|line| line.split('\t'));
    let found: Vec<Vec<_>> =
        lines.filter_map(|mut row| (row.next() == Some(word)).then(|| row.collect())).collect();
    assert!(!found.is_empty(), "no rows {word}");
    found
}
