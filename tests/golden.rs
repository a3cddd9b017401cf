//! Every pair, in every mode, against hashes of the oracle's results: all codes of the sources of 16 bits or
//! fewer, and every boundary of the wider ones.
//!
//! The codes are those of `conformance.rs`, which reports what is wrong; this suite shows in seconds that nothing
//! is, on any machine and in any flavour of a build. `sweep.rs` has the hashes of all 2^32 codes.
//!
//! `LANECAST_GOLDEN=part` takes some targets of each source, for machines on which all would take hours.

mod bridge;
mod hashes;

use bridge::{Suite, bytes_of, caster, codes, every_mode, share, size, type_of};
use hashes::Hash;
use lanecast::{DType, Isa};
use lanecast_oracle as oracle;

fn main() {
    let mut suite = Suite::new();
    for from in DType::ALL {
        suite.test(&format!("results of {from}"), move |isa| {
            if !hashes::blesses() {
                check(isa, from);
            } else if isa == Isa::Scalar {
                bless(from);
            }
        });
    }
    let conclusion = suite.run();
    if hashes::blesses() {
        hashes::write();
    }
    conclusion.exit();
}

fn check(isa: Isa, from: DType) {
    let part: Vec<_> = share("golden", isa, from, 4).collect();
    for to in DType::ALL.into_iter().filter(|to| !hashes::takes_part() || part.contains(to)) {
        let codes = codes(from, to);
        let src = bytes_of(from, &codes);
        let mut dst = vec![0xA5; size(to, codes.len())];
        let mut hash = Hash::new();
        for mode in every_mode(from, to) {
            caster(isa, from, to, &mode).cast(&src, &mut dst, codes.len()).expect("sizes that fit");
            hash.add(&dst);
        }
        let right = hashes::expected(from.name(), to).expect("a hash of every pair");
        assert_eq!(hash.finish(), right, "{isa}: some result of {from} -> {to} is wrong");
    }
}

fn bless(from: DType) {
    for to in DType::ALL {
        let codes = codes(from, to);
        let (source, target) = (type_of(from), type_of(to));
        let mut hash = Hash::new();
        for mode in every_mode(from, to) {
            let results: Vec<_> =
                codes.iter().map(|&code| oracle::convert(source, target, code, &mode)).collect();
            hash.add(&bytes_of(to, &results));
        }
        hashes::bless(from.name(), to, hash.finish());
    }
}
