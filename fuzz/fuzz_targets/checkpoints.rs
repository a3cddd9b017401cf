//! Any text as a checkpoint: a configuration, an index and headers of safetensors files. `lanecast convert` refuses it or converts it,
//! without a panic, and writes each tensor as a whole and nothing else.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    extern "C" fn remove() {
        _ = std::fs::remove_dir_all(&*PLACE);
    }
    // SAFETY: `remove` has no arguments and the C ABI. It is called when the process exits, as it does when its time is over.
    unsafe { libc::atexit(remove) };
    let memory = PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    place.join(format!("lanecast-fuzz-{}", std::process::id()))
});

fuzz_target!(|text: &[u8]| {
    lanecast_cli::hostile::hostile(text, &PLACE);
});
