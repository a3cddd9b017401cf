//! Sets `cfg(isa = "...")` for the target: the only place that says for which instruction sets a build has kernels.
//!
//! The sources test only conditions such as `cfg(isa = "avx2")`; a tier that this file does not switch on is not
//! compiled, and `Isa::available` does not list it.

/// Every tier that has kernels, and the architecture that can run it.
const TIERS: &[(&str, &str)] =
    &[("avx2", "x86_64"), ("avx512", "x86_64"), ("neon", "aarch64"), ("simd128", "wasm32")];

/// Every value that `cfg(isa)` may have, so that the compiler warns of a misspelt one.
/// `vector` is set with any of the others, for code that they share.
const ISAS: &[&str] = &["avx2", "avx512", "neon", "simd128", "vector"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let values: Vec<String> = ISAS.iter().map(|isa| format!("{isa:?}")).collect();
    println!("cargo::rustc-check-cfg=cfg(isa, values({}))", values.join(", "));
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // The kernels are for little-endian targets: they number the bytes of a register as those of memory.
    let endian = std::env::var("CARGO_CFG_TARGET_ENDIAN").expect("cargo sets CARGO_CFG_TARGET_ENDIAN");
    // WebAssembly cannot be asked at run time: a module is compiled with simd128, or has only the scalar reference. The rounding
    // mode of the kernels is kept for each thread by the standard library, so with threads (atomics) they need `std`.
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
