//! The message of the last call of a thread that failed, which says more than its status.

use core::cell::Cell;
use core::ffi::c_char;
use core::fmt::{self, Display, Write};

use super::{
    LANECAST_ERR_MEMORY, LANECAST_ERR_NAME, LANECAST_ERR_NULL, LANECAST_ERR_OVERLAP, LANECAST_OK,
    lanecast_status, lanecast_strerror,
};

/// The most bytes of a text, with the NUL at its end. Longer texts are cut.
const ROOM: usize = 512;

thread_local! {
    /// The text. It is empty if there is no more to say than what the status means.
    static TEXT: Cell<[u8; ROOM]> = const { Cell::new([0; ROOM]) };
    /// The status that the text belongs to, and whether its call has returned.
    static OF: Cell<(lanecast_status, bool)> = const { Cell::new((LANECAST_OK, true)) };
}

/// A text while it is being written.
struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(ROOM - 1 - self.len);
        self.bytes[self.len..][..end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        Ok(())
    }
}

/// Keeps the text of a call that is about to fail, and returns its status. The text of `LANECAST_ERR_MEMORY` is not kept.
#[cold]
pub(super) fn say(status: lanecast_status, text: &dyn Display) -> lanecast_status {
    // Where memory is missing, there may be none for the thread's text, either.
    if status != LANECAST_ERR_MEMORY {
        let mut written = Text { bytes: [0; ROOM], len: 0 };
        // If the text cannot be written, only the text is lost.
        _ = write!(written, "{text}");
        TEXT.set(written.bytes);
        OF.set((status, false));
    }
    status
}

/// Settles the message of a call that returns a status other than `LANECAST_OK`, and returns that. A text that was said of this
/// call stays; one of an earlier call is dropped.
#[cold]
pub(super) fn settle(status: lanecast_status) -> lanecast_status {
    if status != LANECAST_ERR_MEMORY {
        if OF.get() != (status, false) {
            TEXT.with(|text| text.as_array_of_cells()[0].set(0));
        }
        OF.set((status, true));
    }
    status
}

/// Says that nothing of a kind has this name, and which names there are. (The error that the Rust crate has for this allocates.)
pub(super) fn unknown(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> lanecast_status {
    let names = fmt::from_fn(|f| {
        for (i, name) in known.clone().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    });
    say(LANECAST_ERR_NAME, &format_args!("no {what} is named {name:?}; the names are {names}"))
}

/// Says that the argument of this name is NULL.
pub(super) fn null(what: &str) -> lanecast_status {
    say(LANECAST_ERR_NULL, &format_args!("{what} must not be NULL"))
}

/// Says that the memory of the two arguments of these names overlaps.
pub(super) fn overlapping(a: &str, b: &str) -> lanecast_status {
    say(LANECAST_ERR_OVERLAP, &format_args!("{a} and {b} overlap"))
}

/// Returns the message of the last call of this thread that failed: what was given, and what is needed.
///
/// If there is no more to say than what the status means, it is the text of lanecast_strerror; if no call has failed, "". Calls
/// that fail with LANECAST_ERR_MEMORY leave the message of an earlier call in place. The result is never NULL, and is valid until
/// the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn lanecast_error_message() -> *const c_char {
    match OF.get() {
        (LANECAST_OK, _) => c"".as_ptr(),
        (status, _) if TEXT.with(|text| text.as_array_of_cells()[0].get()) == 0 => lanecast_strerror(status),
        _ => TEXT.with(Cell::as_ptr).cast_const().cast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LANECAST_ERR_SIZE;
    use crate::tests::message;

    #[test]
    fn texts_are_cut_between_characters_and_gone_when_another_call_fails() {
        assert_eq!(message(), "");
        let long = format!("a{}", "é".repeat(400));
        assert_eq!(settle(say(LANECAST_ERR_SIZE, &long)), LANECAST_ERR_SIZE);
        assert_eq!(message(), long[..511]);
        // Another call, of the same status, that says nothing.
        settle(LANECAST_ERR_SIZE);
        assert!(message().contains("overflows the address space"));
        // What was said in a call that failed otherwise in the end.
        say(LANECAST_ERR_SIZE, &"no");
        settle(LANECAST_ERR_NAME);
        assert!(message().contains("has this name"));
        settle(LANECAST_ERR_MEMORY);
        assert!(message().contains("has this name"), "nothing is kept");
        std::thread::spawn(|| assert_eq!(message(), "")).join().unwrap();
    }
}
