//! Does one cast on one instruction set and nothing else, for `ci/instructions` to count its instructions.
//!
//! `lanecast-trace neon float32 bfloat16 1024` casts 1024 elements. On x86-64 Linux, `lanecast-trace step 0x401000 0x4fffff
//! avx2 float32 bfloat16 64 128` casts 64 elements and then 128, one instruction at a time, and prints a line for each cast:
//! the addresses in that range that it executed. Other machines are stepped by qemu.

use std::error::Error;

use lanecast::{CastOptions, Caster, DType, Isa, Packing};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        ["step", first, last, isa, from, to, counts @ ..] => {
            let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16);
            let kernels = address(first)?..=address(last)?;
            for n in counts {
                let cast = prepare(isa, from, to, n)?;
                let addresses = step::step(cast, &kernels)?;
                let texts: Vec<String> = addresses.iter().map(|address| format!("{address:x}")).collect();
                println!("{}", texts.join(" "));
            }
            Ok(())
        }
        [isa, from, to, n] => {
            prepare(isa, from, to, n)?();
            Ok(())
        }
        _ => Err("usage: lanecast-trace <isa> <from> <to> <elements>".into()),
    }
}

/// Prepares buffers and returns a function that casts.
fn prepare(isa: &str, from: &str, to: &str, n: &str) -> Result<impl FnOnce(), Box<dyn Error>> {
    let (from, to, n): (DType, DType, usize) = (from.parse()?, to.parse()?, n.parse()?);
    let caster = Caster::new(from, to, &CastOptions::new().isa(isa.parse::<Isa>()?))?;
    let size = |dtype: DType| dtype.byte_len(n, Packing::LowFirst).ok_or("too many elements");
    let (src, len) = (vec![0x3C; size(from)?], size(to)?);
    let mut dst = vec![0; len + 64];
    // The destination begins at a cache line, so that all blocks are whole.
    let ahead = dst.as_ptr().addr().wrapping_neg() % 64;
    Ok(move || {
        caster.cast(&src, &mut dst[ahead..][..len], n).expect("the sizes agree");
        std::hint::black_box(&dst);
    })
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod step {
    use std::io::Error;
    use std::ops::RangeInclusive;
    use std::ptr::null_mut;

    use libc::{PTRACE_PEEKUSER, PTRACE_SINGLESTEP, PTRACE_TRACEME, SIGSTOP};

    /// Returns the addresses in a range that a child process executes while it calls `run`.
    #[allow(unsafe_code, reason = "ptrace")]
    pub(crate) fn step(run: impl FnOnce(), range: &RangeInclusive<u64>) -> Result<Vec<u64>, Error> {
        let none = null_mut::<u8>();
        let done = |result: i64| if result == -1 { Err(Error::last_os_error()) } else { Ok(result) };
        let mut found = Vec::new();
        // SAFETY: the process has one thread, so after the fork the child may call anything. It leaves by `_exit`, without exit
        // handlers. The parent reads registers only while the child is stopped.
        unsafe {
            let child = libc::fork();
            done(child.into())?;
            if child == 0 {
                libc::ptrace(PTRACE_TRACEME, 0, none, none);
                libc::raise(SIGSTOP);
                run();
                libc::_exit(0);
            }
            loop {
                let mut status = 0;
                done(libc::waitpid(child, &mut status, 0).into())?;
                if !libc::WIFSTOPPED(status) {
                    return Ok(found);
                }
                let offset = null_mut::<u8>().wrapping_add(8 * libc::RIP as usize);
                let address = libc::ptrace(PTRACE_PEEKUSER, child, offset, none) as u64;
                if range.contains(&address) {
                    found.push(address);
                }
                done(libc::ptrace(PTRACE_SINGLESTEP, child, none, none))?;
            }
        }
    }
}
