//! Queries of casts in DataFusion, by arrow-cast as published and by the patched one: the same rows and errors, and the times of
//! both in turns.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_cast::{CASTS, LANECAST};
use datafusion::arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, UInt32Array,
};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::runtime::Runtime;

/// Rows of a batch: DataFusion's own number.
const BATCH: usize = 8192;
const BATCHES: usize = 64;

/// Numbers of all sizes.
fn bits(i: usize) -> u64 {
    let mut x = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ x >> 32
}

/// Columns of six dtypes, each also with nulls (`n..`) and with some values that hardly any other dtype holds (`w..`).
fn batch(first: usize) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    macro_rules! columns {
        ($($name:literal: $array:ident, $value:expr, $wild:expr;)*) => {$(
            let value: fn(usize) -> _ = $value;
            let rows = first..first + BATCH;
            columns.push(($name.into(), Arc::new($array::from_iter_values(rows.clone().map(value)))));
            let nulls = rows.clone().map(|i| (i % 7 != 3).then(|| value(i)));
            columns.push((concat!("n", $name).into(), Arc::new($array::from_iter(nulls))));
            let wild = rows.map(|i| (i % 7 != 3).then(|| if bits(i) % 50 == 0 { $wild } else { value(i) }));
            columns.push((concat!("w", $name).into(), Arc::new($array::from_iter(wild))));
        )*};
    }
    columns! {
        "i64": Int64Array, |i| (bits(i) % 100) as i64, i64::MIN;
        "i32": Int32Array, |i| (bits(i) % 100) as i32, i32::MIN;
        "i8": Int8Array, |i| (bits(i) % 100) as i8, -1;
        "u32": UInt32Array, |i| (bits(i) % 100) as u32, u32::MAX;
        "f64": Float64Array, |i| (bits(i) % 1000) as f64 / 10.0, f64::NAN;
        "f32": Float32Array, |i| (bits(i) % 1000) as f32 / 10.0, f32::INFINITY;
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

struct Queries {
    runtime: Runtime,
    context: SessionContext,
}

impl Queries {
    fn new() -> Self {
        let batches: Vec<_> = (0..BATCHES).map(|i| batch(i * BATCH)).collect();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        // One partition: the threads of a query are not what is looked at.
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        context.register_table("t", Arc::new(table)).unwrap();
        Self { runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(), context }
    }

    /// The rows of a query, or the text of its error, by one of the two.
    fn run(&self, query: &str, lanecast: bool) -> Result<Vec<RecordBatch>, String> {
        LANECAST.store(lanecast, Ordering::Relaxed);
        self.runtime.block_on(async {
            let frame = self.context.sql(query).await.map_err(|error| error.to_string())?;
            frame.collect().await.map_err(|error| error.to_string())
        })
    }

    /// Is it the same by both, and has each of them cast?
    fn compare(&self, query: &str) -> bool {
        let [before, between, after] = [None, Some(false), Some(true)].map(|lanecast| {
            let rows = lanecast.map(|lanecast| self.run(query, lanecast));
            (rows, [0, 1].map(|i| CASTS[i].load(Ordering::Relaxed)))
        });
        assert!(between.1[0] > before.1[0] && after.1[1] > between.1[1], "{query} casts nothing");
        assert!(between.0 == after.0, "{query} differs: {:?}", after.0.map(|rows| rows.map(drop)));
        after.0.is_some_and(|rows| rows.is_ok())
    }

    /// How much longer theirs takes than ours.
    fn ratio(&self, query: &str) -> f64 {
        let time = |lanecast| {
            let start = Instant::now();
            self.run(query, lanecast).unwrap();
            start.elapsed()
        };
        let (start, mut ratios) = (Instant::now(), Vec::new());
        while ratios.len() < 21 || start.elapsed() < Duration::from_millis(300) {
            let (a, b, c, d) = (time(false), time(true), time(true), time(false));
            ratios.push((a + d).as_secs_f64() / (b + c).as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

const COLUMNS: [&str; 6] = ["i64", "i32", "i8", "u32", "f64", "f32"];
const TYPES: [&str; 10] = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED", "BIGINT UNSIGNED", "FLOAT", "DOUBLE",
];

fn main() {
    let queries = Queries::new();
    let (mut rows, mut errors) = (0, 0);
    for column in COLUMNS.iter().flat_map(|name| ["", "n", "w"].map(|kind| format!("{kind}{name}"))) {
        for to in TYPES {
            // A cast to the column's own type is none.
            let own = [("i64", "BIGINT"), ("i32", "INT"), ("i8", "TINYINT"), ("u32", "INT UNSIGNED"), ("f64", "DOUBLE"), ("f32", "FLOAT")];
            if own.iter().any(|(name, own)| column.ends_with(name) && *own == to) {
                continue;
            }
            for cast in ["CAST", "TRY_CAST"] {
                let fine = queries.compare(&format!("SELECT {cast}({column} AS {to}) AS x FROM t"));
                *if fine { &mut rows } else { &mut errors } += 1;
            }
        }
    }
    assert!(errors > 0, "no query is an error");
    queries.compare("SELECT SUM(CAST(f64 AS BIGINT)), AVG(CAST(nf32 AS DOUBLE)) FROM t WHERE CAST(i64 AS INT) % 3 = 1");
    println!("{rows} queries have the same rows as with arrow-cast as published, and {errors} the same error");

    println!("| query, of {BATCHES} batches of {BATCH} rows | time, theirs by ours |\n|---|---|");
    for query in [
        "SELECT CAST(i64 AS INT) FROM t",
        "SELECT CAST(ni64 AS INT) FROM t",
        "SELECT TRY_CAST(wi64 AS INT) FROM t",
        "SELECT CAST(ni64 AS TINYINT) FROM t",
        "SELECT CAST(f64 AS INT) FROM t",
        "SELECT TRY_CAST(wf64 AS BIGINT) FROM t",
        "SELECT CAST(nf32 AS TINYINT) FROM t",
        "SELECT CAST(f64 AS FLOAT) FROM t",
        "SELECT CAST(i32 AS BIGINT) FROM t",
        "SELECT CAST(ni32 AS DOUBLE) FROM t",
        "SELECT CAST(i8 AS FLOAT) FROM t",
        "SELECT SUM(CAST(f64 AS BIGINT)), AVG(CAST(nf32 AS DOUBLE)) FROM t WHERE CAST(i64 AS INT) % 3 = 1",
    ] {
        println!("| `{query}` | {:.2} |", queries.ratio(query));
    }
}
