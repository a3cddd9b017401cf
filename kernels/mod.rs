//! How a cast runs. The only directory that names an instruction set's intrinsics; `unsafe` elsewhere calls what is here, or the
//! system.
//!
//! It is a module tree of the package (`src/lib.rs` mounts it), not a crate. What to run, under which
//! options and on how many bytes, `src/` has decided and checked before anything here is called.
//!
//! * `scalar.rs` is the reference: one element at a time, integer arithmetic only. It is the
//!   specification in code; every vector kernel is tested against what it is tested against.
//! * `drive.rs` runs it, tile by tile, and plain copies; `layout.rs` moves its codes between memory and tiles.
//! * `simd.rs` is what an instruction set can do to registers, which `avx2.rs`, `avx512.rs`, `neon.rs` and `simd128.rs` do. Only those
//!   four name a vector intrinsic. A value of their types is the proof that the CPU has the features.
//! * `codec/` turns registers into registers, once for all instruction sets, in safe code. `codec/width.rs` loads and stores
//!   blocks of them; packed elements are packed and unpacked there.
//! * `vector.rs` is the loop of every kernel; `stream.rs` brings results past the caches; `stage.rs` does what takes more than a
//!   codec: casts of several steps, and to other parts of complex elements; `environment.rs` is the floating-point control
//!   register, or a rounding that is kept where there is none; `stochastic.rs` rounds by chance, between two casts that round nothing; `sizes.rs` says how many bytes and parts elements are.
//! * `strided.rs` casts strided views a tile at a time, by the kernels; `panel.rs` those that it transposes and that are
//!   larger than the caches; `moves.rs` brings elements to tiles and back.
//! * `scaled.rs` casts elements under scales, which `scale.rs` hands to kernels; `magnitudes.rs` finds the largest magnitudes of groups, `scales.rs` computes with scales.
//! * `check/` looks at the codes of a source for what a cast loses of them.
//! * `backend.rs` is the list of the instruction sets, and how the layers above ask what one has; `plans.rs` makes and keeps
//!   the plan of a cast (`plan.rs`): what one of them runs for it. `codec/ways.rs` says which codecs.
//! * `detect.rs` reads what safe code cannot read of the machine.
//! * `memory.rs` is the border to the safe code; `present.rs` is the proof that the CPU has an instruction set, `run.rs` bytes that are
//!   copied; `once.rs` keeps what is made once in a process, `scratch.rs` allocates
//!   what a stack may be too small for.
//!
//! Rules: every `unsafe` block carries a `// SAFETY:` that is a proof; everything between a kernel's
//! entry and its intrinsics is `#[inline(always)]`; no iterator adapters or closures in vector
//! kernels; a number that a kernel depends on comes from the format constants, not from a literal.

#[cfg(isa = "avx2")]
pub(crate) mod avx2;
#[cfg(isa = "avx512")]
pub(crate) mod avx512;
pub(crate) mod backend;
pub(crate) mod check;
#[cfg(isa = "vector")]
#[cfg_attr(
    not(isa = "avx2"),
    allow(dead_code, reason = "only x86-64 takes every way; its build says what nobody does")
)]
mod codec;
#[cfg(all(isa = "avx2", feature = "std"))]
pub(crate) mod detect;
pub(crate) mod drive;
#[cfg(isa = "vector")]
mod environment;
mod layout;
pub(crate) mod limits;
#[cfg(all(isa = "vector", feature = "scaled"))]
pub(crate) mod magnitudes;
pub(crate) mod memory;
mod moves;
#[cfg(isa = "neon")]
pub(crate) mod neon;
pub(crate) mod once;
mod panel;
pub(crate) mod plan;
pub(crate) mod plans;
pub(crate) mod present;
mod run;
pub(crate) mod scalar;
#[cfg(all(isa = "vector", feature = "scaled"))]
mod scale;
#[cfg(all(isa = "vector", feature = "scaled"))]
pub(crate) mod scaled;
#[cfg(all(isa = "vector", feature = "scaled"))]
pub(crate) mod scales;
pub(crate) mod scratch;
#[cfg(isa = "vector")]
#[cfg_attr(not(isa = "avx2"), allow(dead_code, reason = "as for `codec`"))]
mod simd;
#[cfg(isa = "simd128")]
pub(crate) mod simd128;
#[cfg(isa = "vector")]
mod sizes;
#[cfg(isa = "vector")]
mod stage;
#[cfg(isa = "vector")]
mod stochastic;
#[cfg(isa = "vector")]
mod stream;
pub(crate) mod strided;
#[cfg(isa = "vector")]
mod vector;
