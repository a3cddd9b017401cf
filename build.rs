//! Target → `cfg(isa = "...")`: the one place that says which instruction sets a build has kernels for.
//!
//! The sources test `cfg(isa = "avx2")` and nothing else; a tier that this file does not switch on is not compiled,
//! and `Isa::available` does not list it.

/// Every tier that has kernels, with the architecture that can run it.
/// A tier enters this list together with its kernels, never before.
const TIERS: &[(&str, &str)] =
    &[("avx2", "x86_64"), ("avx512", "x86_64"), ("neon", "aarch64"), ("simd128", "wasm32")];

/// Every value that `cfg(isa)` may ever have, so that a misspelt one is a compiler warning.
/// `vector` is any of the others: what they share is compiled only where there is one.
const ISAS: &[&str] = &["avx2", "avx512", "neon", "simd128", "vector"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let values: Vec<String> = ISAS.iter().map(|isa| format!("{isa:?}")).collect();
    println!("cargo::rustc-check-cfg=cfg(isa, values({}))", values.join(", "));
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // The kernels number the bytes of a register as those of memory.
    let endian = std::env::var("CARGO_CFG_TARGET_ENDIAN").expect("cargo sets CARGO_CFG_TARGET_ENDIAN");
    // WebAssembly has no run time to ask: a module has the instructions, or it has not. Without them, nothing but the reference.
    // Its rounding is kept for each thread by the standard library: where there are threads, not without that.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let has = |feature| features.split(',').any(|enabled| enabled == feature);
    let has_std = std::env::var_os("CARGO_FEATURE_STD").is_some();
    let is_left_out = |isa| isa == "simd128" && (!has("simd128") || has("atomics") && !has_std);
    for (isa, _) in
        TIERS.iter().filter(|(isa, arch)| *arch == target && endian == "little" && !is_left_out(*isa))
    {
        println!("cargo::rustc-cfg=isa={isa:?}");
        println!("cargo::rustc-cfg=isa=\"vector\"");
    }
}
