//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The threads of the pool wait in code of the library, so it stays loaded when a program closes it.
    if std::env::var_os("CARGO_CFG_UNIX").is_some()
        && std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() != Ok("apple")
    {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    // The name that linked programs look for. It changes with the major version, that is, with the ABI.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets CARGO_PKG_VERSION_MAJOR");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblanecast.so.{major}");
    }
}
