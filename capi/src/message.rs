//! What the last call of a thread that failed says of it, beyond its status.

use core::cell::Cell;
use core::ffi::c_char;
use core::fmt::{self, Display, Write};

use super::{
    LANECAST_ERR_MEMORY, LANECAST_ERR_NAME, LANECAST_ERR_NULL, LANECAST_ERR_OVERLAP, LANECAST_OK,
    lanecast_status, lanecast_strerror,
};

/// Bytes of a text, with the NUL at its end. What is longer is cut.
const ROOM: usize = 512;

thread_local! {
    /// The text. Empty, if there is nothing to say but what the status means.
    static TEXT: Cell<[u8; ROOM]> = const { Cell::new([0; ROOM]) };
    /// The status that it is of, and whether the call has returned.
    static OF: Cell<(lanecast_status, bool)> = const { Cell::new((LANECAST_OK, true)) };
}

/// A text as it is written.
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

/// The status of a call that fails, of which there is more to say.
#[cold]
pub(super) fn say(status: lanecast_status, text: &dyn Display) -> lanecast_status {
    // (Where there is no memory, that of a thread could be what there is none for.)
    if status != LANECAST_ERR_MEMORY {
        let mut written = Text { bytes: [0; ROOM], len: 0 };
        // Nothing is lost but the text, should it not let itself be written.
        _ = write!(written, "{text}");
        TEXT.set(written.bytes);
        OF.set((status, false));
    }
    status
}

/// A call returns a status that is not LANECAST_OK. What was said of it stays, and what was said before goes.
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

/// Nothing of a kind has this name; these have one. (The library's own error of that allocates.)
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

/// An argument of this name is NULL.
pub(super) fn null(what: &str) -> lanecast_status {
    say(LANECAST_ERR_NULL, &format_args!("{what} is NULL, and must not be"))
}

/// The memory of two arguments of these names overlaps.
pub(super) fn overlapping(a: &str, b: &str) -> lanecast_status {
    say(LANECAST_ERR_OVERLAP, &format_args!("{a} and {b} overlap"))
}

/// What the last call of this thread that failed says of it: what was given, and what is needed. Where there is no more to
/// say, lanecast_strerror's text; "" if none has failed. Of LANECAST_ERR_MEMORY nothing is kept. Never NULL; it stays until
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
