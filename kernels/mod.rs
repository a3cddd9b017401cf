//! How a cast runs. The only directory with unsafe code, and the only one that will ever name an
//! instruction set's intrinsics.
//!
//! It is a module tree of the package (`src/lib.rs` mounts it), not a crate. What to run, under which
//! options and on how many bytes, `src/` has decided and checked before anything here is called.
//!
//! * `scalar.rs` is the reference: one element at a time, integer arithmetic only. It is the
//!   specification in code; every vector kernel is tested against it.
//! * `layout.rs` moves codes between memory and tiles.
//! * `memory.rs` is the border to the safe code.
//! * `drive.rs` is the loop.
//! * `table.rs` says which kernel an instruction set runs for a route.
//!
//! Rules: every `unsafe` block carries a `// SAFETY:` that is a proof; everything between a kernel's
//! entry and its intrinsics is `#[inline(always)]`; no iterator adapters or closures in vector
//! kernels; a number that a kernel depends on comes from the format constants, not from a literal.

pub(crate) mod drive;
pub(crate) mod layout;
pub(crate) mod memory;
pub(crate) mod scalar;
pub(crate) mod table;
