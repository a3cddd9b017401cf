//! Scaled casts against recorded answers of packages, and against exact rational numbers.

#[path = "../bridge/mod.rs"]
mod bridge;
mod exact;
mod kernels;
mod recorded;

fn main() {
    let mut suite = bridge::Suite::new();
    exact::tests(&mut suite);
    kernels::tests(&mut suite);
    recorded::tests(&mut suite);
    suite.run().exit();
}
