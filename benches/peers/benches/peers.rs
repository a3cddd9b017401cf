//! Times lanecast and other libraries on the same buffers, as `pair/peer/n`. The library of this package says how.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use lanecast_peers::{Contest, PAIRS, sizes};

fn peers(c: &mut Criterion) {
    for &traffic in sizes() {
        for &pair in PAIRS {
            let mut contest = Contest::new(pair, traffic);
            contest.check("in range");
            let names: Vec<String> = contest.names().map(str::to_owned).collect();
            let mut group = c.benchmark_group(pair.to_string());
            group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400));
            group.nresamples(2000).sample_size(10).sampling_mode(SamplingMode::Flat);
            group.throughput(Throughput::Bytes(contest.bytes() as u64));
            for (i, name) in names.iter().enumerate() {
                group.bench_function(BenchmarkId::new(name, contest.n()), |b| b.iter(|| contest.run(i)));
            }
        }
    }
}

criterion_group!(benches, peers);
criterion_main!(benches);
