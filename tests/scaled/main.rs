//! Scaled casts against recorded answers of packages, and against exact rational numbers.

#[path = "../bridge/mod.rs"]
mod bridge;
mod exact;
#[cfg(unix)]
#[path = "../bridge/guarded.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod guarded;
mod kernels;
mod properties;
mod recorded;

fn main() {
    let mut suite = bridge::Suite::new();
    exact::tests(&mut suite);
    kernels::tests(&mut suite);
    properties::tests(&mut suite);
    recorded::tests(&mut suite);
    suite.run().exit();
}
