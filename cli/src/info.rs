//! `lanecast info`: the machine, and what the program knows.

use std::hint::black_box;
use std::time::Instant;

use lanecast::{DType, Isa};
use serde_json::json;

use crate::args::Info;
use crate::bench::Buffer;
use crate::error::{Failure, Result};
use crate::layout::Layout;
use crate::out;

/// Returns how many GB (10^9 bytes) a copy of 64 MiB reads and writes per second: the best of a few.
fn memcpy() -> f64 {
    let (src, mut dst) = (Buffer::of(&[1], 64 << 20), Buffer::of(&[0], 64 << 20));
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        dst.copy_from_slice(black_box(&src[..]));
        black_box(&mut dst);
        best = best.min(began.elapsed().as_secs_f64());
    }
    2.0 * src.len() as f64 / best / 1e9
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

pub(crate) fn run(args: &Info) -> Result<()> {
    let used = Isa::best().map_err(|error| Failure::usage(error.to_string()))?;
    let isas: Vec<String> = Isa::available().iter().map(|isa| isa.to_string()).collect();
    let dtypes = DType::ALL.map(DType::name).to_vec();
    let layouts = Layout::ALL.map(Layout::name);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let speed = (memcpy() * 10.0).round() / 10.0;
    if args.json {
        return out::json(&json!({
            "version": env!("CARGO_PKG_VERSION"), "cpu": cpu(), "threads": threads, "isas": isas, "isa": used.to_string(), "memcpy_gbps": speed,
            "dtypes": dtypes, "layouts": layouts,
        }));
    }
    out::line(format_args!("lanecast {}", env!("CARGO_PKG_VERSION")))?;
    out::line(format_args!("cpu      {}, {threads} threads", cpu().unwrap_or_else(|| "unknown".to_owned())))?;
    out::line(format_args!("isas     {}; casts run on {used}", isas.join(" ")))?;
    out::line(format_args!("memcpy   {speed} GB/s, read and written, one thread"))?;
    out::line(format_args!("dtypes   {}", dtypes.join(" ")))?;
    out::line(format_args!("layouts  {}", layouts.join(" ")))
}
