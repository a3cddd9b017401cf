//! How a cast runs. This is the only directory that names vector intrinsics; `unsafe` elsewhere calls what is here, or the
//! operating system.
//!
//! It is a module tree of the package (`src/lib.rs` mounts it), not a crate. `src/` decides what to run, under which options and on
//! how many bytes, and has checked all of that before it calls anything here.
//!
//! * `scalar.rs` is the reference: one element at a time, integer arithmetic only. It is the specification in code; every test of
//!   it runs on each vector kernel, too.
//! * `drive.rs` runs the reference, tile by tile, and plain copies; `layout.rs` moves codes between memory and those tiles.
//! * `simd.rs` declares the operations on registers, and `avx2.rs`, `avx512.rs`, `neon.rs` and `simd128.rs` implement them. Only
//!   those four name vector intrinsics. A value of one of their types (a *token*) is the proof that the CPU has the features.
//! * `codec/` turns registers into registers, once for all instruction sets, in code that is unsafe only where it loads, stores, calls a
//!   kernel or fills in a table.
//!   `codec/width.rs` loads and stores blocks of registers, and packs and unpacks packed elements.
//! * `vector.rs` has the loop of every codec. `stream.rs` stores results past the caches. `stage.rs` runs several codecs one after
//!   the other, a tile at a time. `environment.rs` sets the floating-point control register, or keeps a rounding mode where there
//!   is no such register. `processor.rs` knows processor models: from which size on each gains by streaming, and how it wants
//!   sources prefetched.
//!   `stochastic.rs` rounds stochastically, between two casts that round nothing. `sizes.rs` counts bytes and parts.
//! * `strided.rs` casts strided views a tile at a time; `panel.rs` makes transposes that are larger than the caches; `moves.rs`
//!   copies elements to tiles and back.
//! * `scaled/` casts elements under scales: how safe code runs these kernels, what they multiply with, and what is computed of
//!   scales and magnitudes.
//! * `check/` scans the codes of a source for what a cast would lose; `limits.rs` has the limits beyond which codes are lost.
//! * `backend.rs` lists the instruction sets. `plan.rs` is the plan of a cast, that is, which kernels an instruction set runs for
//!   it; `plans.rs` makes plans and keeps them, and `codec/ways.rs` chooses the codecs.
//! * `detect.rs` reads what safe code cannot ask the CPU.
//! * `memory.rs` is the border to safe code: destinations that may be uninitialised. `present.rs` is the proof that the CPU has an
//!   instruction set. `run.rs` copies bytes, `once.rs` keeps what is made once per process, and `scratch.rs` allocates what may be
//!   too large for the stack.
//!
//! Rules: every `unsafe` block has a `// SAFETY:` that proves it. Everything between the entry of a kernel and its intrinsics is
//! `#[inline(always)]`, and what a kernel uses of iterators and closures is inlined, too: `ci/hygiene` reports every call. Numbers
//! of a format that a kernel depends on come from the constants of the format.

#[cfg(isa = "avx2")]
pub(crate) mod avx2;
#[cfg(isa = "avx512")]
pub(crate) mod avx512;
pub(crate) mod backend;
pub(crate) mod check;
#[cfg(isa = "vector")]
#[cfg_attr(
    not(isa = "avx2"),
    allow(dead_code, reason = "only x86-64 uses all of it, and its build reports what nothing uses")
)]
mod codec;
#[cfg(all(isa = "avx2", feature = "std"))]
pub(crate) mod detect;
pub(crate) mod drive;
#[cfg(isa = "vector")]
mod environment;
mod layout;
pub(crate) mod limits;
pub(crate) mod memory;
mod moves;
#[cfg(isa = "neon")]
pub(crate) mod neon;
pub(crate) mod once;
mod panel;
pub(crate) mod plan;
pub(crate) mod plans;
pub(crate) mod present;
#[cfg(isa = "vector")]
mod processor;
mod run;
pub(crate) mod scalar;
#[cfg(all(isa = "vector", feature = "scaled"))]
pub(crate) mod scaled;
pub(crate) mod scratch;
#[cfg(isa = "vector")]
#[cfg_attr(not(isa = "avx2"), allow(dead_code, reason = "as for `codec`"))]
mod simd;
#[cfg(isa = "simd128")]
pub(crate) mod simd128;
#[cfg_attr(not(isa = "vector"), allow(dead_code, reason = "the reference needs only its constants"))]
pub(crate) mod sizes;
#[cfg(isa = "vector")]
mod stage;
#[cfg(isa = "vector")]
mod stochastic;
#[cfg(isa = "vector")]
mod stream;
pub(crate) mod strided;
#[cfg(isa = "vector")]
mod vector;
