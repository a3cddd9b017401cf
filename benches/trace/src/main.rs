//! One cast of so many elements on one instruction set, and nothing else: what `ci/instructions` counts.
//!
//! `lanecast-trace neon float32 bfloat16 1024` casts. `lanecast-trace step 0x401000 0x4fffff avx2 float32 bfloat16 64 128`
//! casts so many elements, and then so many, one instruction at a time, and prints for each cast a line of the addresses
//! in that range that it came to. (x86-64 Linux; other machines are stepped by qemu.)

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

/// A cast that is ready to run.
fn prepare(isa: &str, from: &str, to: &str, n: &str) -> Result<impl FnOnce(), Box<dyn Error>> {
    let (from, to, n): (DType, DType, usize) = (from.parse()?, to.parse()?, n.parse()?);
    let caster = Caster::new(from, to, &CastOptions::new().isa(isa.parse::<Isa>()?))?;
    let size = |dtype: DType| dtype.byte_len(n, Packing::LowFirst).ok_or("too many elements");
    let (src, len) = (vec![0x3C; size(from)?], size(to)?);
    let mut dst = vec![0; len + 64];
    // At a line, so that every block is a whole one.
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

    /// What a process of its own comes to in a range, that runs this and ends.
    #[allow(unsafe_code, reason = "ptrace")]
    pub(crate) fn step(run: impl FnOnce(), range: &RangeInclusive<u64>) -> Result<Vec<u64>, Error> {
        let none = null_mut::<u8>();
        let done = |result: i64| if result == -1 { Err(Error::last_os_error()) } else { Ok(result) };
        let mut found = Vec::new();
        // SAFETY: there is one thread, so the child may do anything. It leaves without what runs at an end. The parent
        // asks for registers of a child that is stopped.
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
