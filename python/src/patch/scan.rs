//! Scans blocks for elements for which the original may give other results than our kernels, or raise a floating-point flag.

use lanecast::{CastOptions, Caster, DType, IntFormat, Kind};

pub(super) const INVALID: u32 = 1;
pub(super) const OVERFLOW: u32 = 2;
pub(super) const UNDERFLOW: u32 = 4;

/// Returns the flags that are raised on this thread.
#[inline]
pub(super) fn raised() -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let (mut vectors, stack): (u32, u16) = (0, raised_by_stack());
        // SAFETY: writes the four bytes of `vectors`.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut vectors, options(nostack, preserves_flags));
        }
        let status = vectors | u32::from(stack);
        (status & INVALID) | ((status >> 3 & 1) * OVERFLOW) | ((status >> 4 & 1) * UNDERFLOW)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let status: u64;
        // SAFETY: reads a register.
        unsafe {
            core::arch::asm!("mrs {}, fpsr", out(reg) status, options(nomem, nostack, preserves_flags));
        }
        (status & 1) as u32 | ((status >> 2 & 1) as u32 * OVERFLOW) | ((status >> 3 & 1) as u32 * UNDERFLOW)
    }
    // Unknown on other architectures: the original casts each element that may raise a flag, until that takes too long.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Returns the flags of the x87 unit, in which `feraiseexcept` of the C library raises them.
#[cfg(target_arch = "x86_64")]
#[inline]
fn raised_by_stack() -> u16 {
    let status: u16;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags));
    }
    status
}

/// How elements, or parts of complex ones, are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// A sign bit above a magnitude, in this many bytes.
    Float(usize),
    /// Two's complement, in this many bytes.
    Signed(usize),
    Unsigned(usize),
    /// Codes of one byte, with a table of those that are looked for.
    Byte,
}

/// Magnitudes, both ends included.
pub(super) type Range = (u64, u64);

/// The elements that a block is scanned for before it is cast.
#[derive(Debug)]
pub(super) struct Rules {
    level: Level,
    pub(super) reading: Reading,
    /// The least magnitudes of positive and of negative elements for which the original is undefined: its result depends on where its loop
    /// begins, so the whole call is left to it.
    pub(super) whole: Option<[u64; 2]>,
    /// The one-byte codes for which the original is needed: for the block if `bits` is set, otherwise for the whole call.
    table: Option<Box<[bool; 256]>>,
    /// The magnitudes for which the original gives other bits, so that the block is left to it.
    pub(super) bits: Option<Range>,
    /// The magnitudes for which the original gives the same bits, but raises a flag.
    pub(super) flags: [Option<(Range, u32)>; 2],
    /// The magnitude below which others than 0 may underflow: the original gives the same bits, but raises that flag.
    pub(super) under: Option<u64>,
    /// The bits of a byte that are 0 in all elements, unless these were made by a view. The original does not ignore them, so the block is
    /// left to it if one is set.
    unused: u8,
    /// No magnitude below this one is looked for, except for `under`.
    hot: u64,
}

/// What a scan of a block has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    /// The whole call is left to the original.
    Whole,
    /// The block is left to the original.
    Block,
    /// The original may raise these flags for some elements.
    Flags(u32),
}

/// Magnitudes of a float format of 16 bits or more.
struct Format {
    inf: u64,
    quiet: u64,
    top: u64,
    /// Returns the magnitude of 2^e.
    power: fn(i32) -> u64,
}

fn format_of(part: DType) -> Option<Format> {
    let ieee = |mantissa: u32, inf: u64, power| {
        let quiet = inf | 1 << (mantissa - 1);
        Some(Format { inf, quiet, top: inf | ((1 << mantissa) - 1), power })
    };
    match part {
        DType::F16 => ieee(10, 0x7C00, |e| ((e + 15) as u64) << 10),
        DType::BF16 => ieee(7, 0x7F80, |e| ((e + 127) as u64) << 7),
        DType::F32 => ieee(23, 0x7F80_0000, |e| ((e + 127) as u64) << 23),
        DType::F64 => ieee(52, 0x7FF0_0000_0000_0000, |e| ((e + 1023) as u64) << 52),
        _ => None,
    }
}

impl Rules {
    /// Returns the rules for casts of these dtypes. None if the original never differs. An error, with the reason, if it differs in a way
    /// that no scan finds. The casts that ml_dtypes declares, from 0.7 on, have rules of their own: floats that an integer does not hold are
    /// invalid and become 0, and floats are rounded once.
    pub(super) fn new(from: DType, to: DType, is_declared: bool) -> Result<Option<Self>, &'static str> {
        // NumPy warns in each call, and takes 1.15 or 1.44 ns an element, depending on the addresses of code: the latter with the patch.
        if from != from.part() && to.is_packed() && matches!(to.kind(), Kind::Int(_)) {
            return Err("casts of complex to integers of 2 and 4 bits would gain little");
        }
        let unused = match from {
            // NumPy's own casts take every byte other than zero for True.
            DType::Bool if to != DType::F16 => !1,
            DType::F4E2M1 => !0x0F,
            DType::F6E2M3 | DType::F6E3M2 => !0x3F,
            _ => 0,
        };
        match Self::of_values(from, to, is_declared)? {
            None if unused == 0 => Ok(None),
            None => Ok(Some(Self { unused, ..Self::none(Reading::Byte) })),
            Some(rules) => Ok(Some(Self { unused, ..rules })),
        }
    }

    /// Returns rules that look for no elements.
    fn none(reading: Reading) -> Self {
        Self {
            level: Level::best(),
            reading,
            whole: None,
            table: None,
            bits: None,
            flags: [None, None],
            under: None,
            unused: 0,
            hot: u64::MAX,
        }
    }

    /// Returns the rules for elements without bits above those of their dtype.
    fn of_values(from: DType, to: DType, is_declared: bool) -> Result<Option<Self>, &'static str> {
        let is_narrow = |dtype: DType| dtype.bits() <= 8;
        let part = from.part();
        let size = part.itemsize();
        let mut rules = Self::none(Reading::Float(size));
        match (part.kind(), to.kind()) {
            // Integers only differ in that they may overflow float16.
            (Kind::Int(format), Kind::Float(_) | Kind::Complex(_)) if to.part() == DType::F16 => {
                if format.bits() < 16 || (format.bits() == 16 && format.is_signed()) {
                    return Ok(None);
                }
                rules.reading =
                    if format.is_signed() { Reading::Signed(size) } else { Reading::Unsigned(size) };
                rules.flags[0] = Some(((65520, u64::MAX), OVERFLOW));
            }
            (Kind::Bool | Kind::Int(_), _) => return Ok(None),
            (Kind::Float(_), Kind::Int(_)) if is_narrow(part) => {
                let table = table(part, to, is_declared);
                if !table.contains(&true) {
                    return Ok(None);
                }
                rules.reading = Reading::Byte;
                rules.table = Some(Box::new(table));
                return Ok(Some(rules));
            }
            // The original's result for NaN depends on its sign.
            (Kind::Float(format), _) if is_narrow(part) && format.has_nan() && is_finite(to) => {
                rules.reading = Reading::Byte;
                rules.table = Some(Box::new(nans(part)));
                rules.bits = Some((0, 0));
                return Ok(Some(rules));
            }
            (Kind::Float(_), _) if is_narrow(part) => {
                // The exponents of float8_e8m0fnu and float8_ue5m3 go beyond those of float16.
                let overflows = values(part).map(|value| value >= 65520.0);
                if !(is_declared && to.part() == DType::F16 && overflows.contains(&true)) {
                    return Ok(None);
                }
                rules.reading = Reading::Byte;
                rules.table = Some(Box::new(overflows));
                rules.bits = Some((0, 0));
                return Ok(Some(rules));
            }
            (Kind::Float(_), Kind::Int(format)) => rules.set_to_integer(part, range(format, is_declared))?,
            (Kind::Float(_), _) => rules.set_between_floats(part, to, is_declared)?,
            (Kind::Complex(_), _) => return Err("a part is never complex"),
        }
        let upper = rules.whole.into_iter().flatten();
        let upper = upper.chain(rules.bits.map(|range| range.0));
        let upper = upper.chain(rules.flags.iter().flatten().map(|(range, _)| range.0));
        rules.hot = upper.min().unwrap_or(u64::MAX);
        Ok(Some(rules))
    }

    /// Sets what is looked for among floats of at least 16 bits that become integers: values that are out of range.
    fn set_to_integer(&mut self, part: DType, (end, signed): (u32, bool)) -> Result<(), &'static str> {
        let source = format_of(part).ok_or("its dtype is unknown")?;
        let limit = |exponent: u32| {
            // The largest float16 is below 2^16.
            let beyond = part == DType::F16 && exponent >= 16;
            if beyond { source.inf } else { (source.power)(exponent as i32) }
        };
        let top = limit(end);
        let [above, below] = if signed { [top, top + 1] } else { [top, limit(0)] };
        self.whole = Some([above, below.min(source.inf)]);
        Ok(())
    }

    /// Sets what is looked for among floats of at least 16 bits that become floats, complex numbers or bool: NaN, overflow and underflow.
    fn set_between_floats(&mut self, part: DType, to: DType, is_declared: bool) -> Result<(), &'static str> {
        let source = format_of(part).ok_or("its dtype is unknown")?;
        let signaling = (source.inf + 1, source.quiet - 1);
        let nan = (source.inf + 1, source.top);
        match to.part() {
            DType::F8E8M0 if part != DType::F16 => {
                return Err("float8_e8m0fnu of subnormals, and next to its largest value, differs");
            }
            DType::F4E2M1 | DType::F6E2M3 | DType::F6E3M2 | DType::BF16 => self.bits = Some(nan),
            DType::F16 if part == DType::BF16 => self.bits = Some(nan),
            DType::F16 => self.bits = Some(signaling),
            DType::F32 | DType::F64 if part == DType::F16 || part == DType::BF16 => {
                self.bits = Some(signaling);
            }
            _ => self.flags[0] = Some((signaling, INVALID)),
        }
        // From float64, the original goes by way of float32, or raises the flags of that, except to dtypes of NumPy itself.
        let step = match (part, to.part()) {
            (DType::F64, DType::F16) | (DType::F32, DType::F16) => Some((15, -14)),
            (DType::F64, DType::Bool) => None,
            (DType::F64, _) => Some((127, -126)),
            _ => None,
        };
        if let Some((largest, least)) = step {
            // Overflow begins at 2^(e + 1) less half a unit in the last place, or above this limit.
            let over = (source.power)(largest + 1) - (1 << if part == DType::F64 { 41 } else { 12 });
            self.flags[1] = Some(((over, source.inf - 1), OVERFLOW));
            self.under = Some((source.power)(least));
        }
        if is_declared && (part, to.part()) == (DType::BF16, DType::F16) {
            self.flags[1] = Some((((source.power)(16), source.inf - 1), OVERFLOW));
        }
        Ok(())
    }

    /// Scans a contiguous block. Elements are not looked for whose flag is raised already.
    pub(super) fn look(&self, block: &[u8]) -> Found {
        if self.unused != 0 && all_bits(self.level, block) & self.unused != 0 {
            return Found::Block;
        }
        if let Some(table) = &self.table {
            let found = block.iter().fold(false, |found, &code| found | table[usize::from(code)]);
            return match found {
                true if self.bits.is_some() => Found::Block,
                true => Found::Whole,
                false => Found::Nothing,
            };
        }
        let [above, below, least] = match self.under {
            Some(_) if raised() & UNDERFLOW == 0 => extremes_and_least(self.level, self.reading, block),
            _ => {
                let [above, below] = extremes(self.level, self.reading, block);
                [above, below, u64::MAX]
            }
        };
        let is_hot = above.max(below) >= self.hot;
        if let Some([least_above, least_below]) = self.whole {
            let found = is_hot && (above >= least_above || below >= least_below);
            return if found { Found::Whole } else { Found::Nothing };
        }
        let mut flags = 0;
        if is_hot {
            if self.bits.is_some_and(|range| any_between(self.level, self.reading, block, range)) {
                return Found::Block;
            }
            // Most large magnitudes are NaN and Inf, which raise no flag: both ranges are looked for in one pass.
            let wanted = self.flags.map(|known| known.filter(|(_, flag)| raised() & flag == 0));
            match wanted {
                [Some((first, one)), Some((second, other))] => {
                    let found = any_between_two(self.level, self.reading, block, [first, second]);
                    flags |= if found[0] { one } else { 0 };
                    flags |= if found[1] { other } else { 0 };
                }
                wanted => {
                    for (range, flag) in wanted.iter().flatten() {
                        if any_between(self.level, self.reading, block, *range) {
                            flags |= flag;
                        }
                    }
                }
            }
        }
        if self.under.is_some_and(|under| least < under - 1) {
            flags |= UNDERFLOW;
        }
        if flags == 0 { Found::Nothing } else { Found::Flags(flags) }
    }

    /// Returns the magnitudes for which the original may raise a flag.
    pub(super) fn range_of(&self, flag: u32) -> Option<Range> {
        if flag == UNDERFLOW {
            return self.under.map(|least| (1, least - 1));
        }
        self.flags.iter().flatten().find(|(_, known)| *known == flag).map(|(range, _)| *range)
    }
}

/// Whether a dtype is a float without NaN.
fn is_finite(dtype: DType) -> bool {
    dtype.float_format().is_some_and(|format| !format.has_nan())
}

/// Returns the value of each code of a dtype of one byte.
fn values(dtype: DType) -> [f64; 256] {
    let options = CastOptions::new().src_packing(lanecast::Packing::OnePerByte);
    let codes: Vec<u8> = (0..=255).collect();
    let mut values = [0u8; 256 * 8];
    let cast =
        Caster::new(dtype, DType::F64, &options).and_then(|caster| caster.cast(&codes, &mut values, 256));
    // If there were an error, every code would be looked for.
    if cast.is_err() {
        return [f64::NAN; 256];
    }
    let mut all = [0.0; 256];
    for (value, bytes) in all.iter_mut().zip(values.as_chunks::<8>().0) {
        *value = f64::from_ne_bytes(*bytes);
    }
    all
}

/// Returns which codes of a float of one byte are NaN.
fn nans(from: DType) -> [bool; 256] {
    values(from).map(f64::is_nan)
}

/// Returns the range of values that the original casts to an integer without undefined behaviour: below 2^n, and also negative if the
/// second result is true. Integers of fewer than 8 bits are cast by way of a byte, except by casts that ml_dtypes declares. Negative values to
/// unsigned integers differ between processors.
fn range(format: IntFormat, is_declared: bool) -> (u32, bool) {
    match (format.bits(), format.is_signed()) {
        (0..8, signed) if !is_declared => (7, signed),
        (bits, signed) => (bits - u32::from(signed), signed),
    }
}

/// Returns which codes of a float of one byte are out of the range of an integer.
fn table(from: DType, to: DType, is_declared: bool) -> [bool; 256] {
    let Kind::Int(format) = to.kind() else { return [false; 256] };
    let (end, signed) = range(format, is_declared);
    let end = 2f64.powi(end as i32);
    let start = if signed { -end } else { -1.0 };
    values(from).map(|value| !(value > start || (signed && value == start)) || value >= end)
}

/// The loops for an instruction set, which the compiler vectorises.
macro_rules! scans {
    ($module:ident, $($feature:literal)?) => {
        mod $module {
            $(#[target_feature(enable = $feature)])?
            pub(super) fn float_extremes<const N: usize>(block: &[u8]) -> [u64; 2] {
                macro_rules! run {
                    ($u:ty, $i:ty) => {{
                        let (mut above, mut below) = (0 as $i, 0 as $u);
                        for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                            above = above.max(<$i>::from_ne_bytes(*code));
                            below = below.max(<$u>::from_ne_bytes(*code));
                        }
                        let sign = (1 as $u) << (<$u>::BITS - 1);
                        let below = if below & sign != 0 { below & !sign } else { 0 };
                        [above as u64, u64::from(below)]
                    }};
                }
                match N {
                    2 => run!(u16, i16),
                    4 => run!(u32, i32),
                    _ => run!(u64, i64),
                }
            }

            /// As `float_extremes`, with one less than the least magnitude other than 0 as a third result.
            $(#[target_feature(enable = $feature)])?
            pub(super) fn float_extremes_and_least<const N: usize>(block: &[u8]) -> [u64; 3] {
                macro_rules! run {
                    ($u:ty, $i:ty) => {{
                        let (mut above, mut below, mut least) = (0 as $i, 0 as $u, <$u>::MAX);
                        for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                            let code = <$u>::from_ne_bytes(*code);
                            above = above.max(code.cast_signed());
                            below = below.max(code);
                            least = least.min((code & <$u>::MAX >> 1).wrapping_sub(1));
                        }
                        let sign = (1 as $u) << (<$u>::BITS - 1);
                        let below = if below & sign != 0 { below & !sign } else { 0 };
                        [above as u64, u64::from(below), u64::from(least)]
                    }};
                }
                match N {
                    2 => run!(u16, i16),
                    4 => run!(u32, i32),
                    _ => run!(u64, i64),
                }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) fn int_extremes<const N: usize>(block: &[u8], signed: bool) -> [u64; 2] {
                macro_rules! run {
                    ($u:ty, $i:ty) => {{
                        let (mut most, mut least, mut above) = (0 as $i, 0 as $i, 0 as $u);
                        if signed {
                            for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                                most = most.max(<$i>::from_ne_bytes(*code));
                                least = least.min(<$i>::from_ne_bytes(*code));
                            }
                            [u64::from(most.unsigned_abs()), u64::from(least.unsigned_abs())]
                        } else {
                            for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                                above = above.max(<$u>::from_ne_bytes(*code));
                            }
                            [u64::from(above), 0]
                        }
                    }};
                }
                match N {
                    2 => run!(u16, i16),
                    4 => run!(u32, i32),
                    _ => run!(u64, i64),
                }
            }

            /// Returns the bits that are set in any byte.
            $(#[target_feature(enable = $feature)])?
            pub(super) fn all_bits<const N: usize>(block: &[u8]) -> u8 {
                block.iter().fold(0, |all, byte| all | byte)
            }

            /// Returns, for each of two ranges, whether there is a magnitude in it.
            $(#[target_feature(enable = $feature)])?
            pub(super) fn float_between_two<const N: usize>(block: &[u8], ranges: [(u64, u64); 2]) -> [bool; 2] {
                macro_rules! run {
                    ($u:ty) => {{
                        // The least distance from the start of each range: magnitudes below the start wrap around to large distances.
                        let [a, b] = ranges.map(|(from, _)| from as $u);
                        let (mut from_a, mut from_b) = (<$u>::MAX, <$u>::MAX);
                        for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                            let magnitude = <$u>::from_ne_bytes(*code) & <$u>::MAX >> 1;
                            from_a = from_a.min(magnitude.wrapping_sub(a));
                            from_b = from_b.min(magnitude.wrapping_sub(b));
                        }
                        let [a_width, b_width] = ranges.map(|(from, to)| (to - from) as $u);
                        [from_a <= a_width, from_b <= b_width]
                    }};
                }
                match N {
                    2 => run!(u16),
                    4 => run!(u32),
                    _ => run!(u64),
                }
            }

            /// Whether there is a magnitude in a range.
            $(#[target_feature(enable = $feature)])?
            pub(super) fn float_between<const N: usize>(block: &[u8], from: u64, to: u64) -> bool {
                macro_rules! run {
                    ($u:ty) => {{
                        let (from, width) = (from as $u, (to - from) as $u);
                        let mut found = 0 as $u;
                        for code in block.as_chunks::<{ size_of::<$u>() }>().0 {
                            let magnitude = <$u>::from_ne_bytes(*code) & <$u>::MAX >> 1;
                            found |= <$u>::from(magnitude.wrapping_sub(from) <= width);
                        }
                        found != 0
                    }};
                }
                match N {
                    2 => run!(u16),
                    4 => run!(u32),
                    _ => run!(u64),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
scans!(avx512, "avx512f,avx512bw,avx512dq,avx512vl");
#[cfg(target_arch = "x86_64")]
scans!(avx2, "avx2");
scans!(plain,);

/// The instruction sets that have loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let has_512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512vl")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq");
            if has_512 {
                return Self::Avx512;
            }
            if std::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }
}

/// Calls the loop of an instruction set.
macro_rules! run {
    ($level:expr, $function:ident::<$n:literal>($($argument:expr),*)) => {
        match $level {
            // SAFETY: a level is only chosen if the CPU has its features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::$function::<$n>($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::$function::<$n>($($argument),*) },
            Level::Plain => plain::$function::<$n>($($argument),*),
        }
    };
}

/// Returns the bits that are set in any byte.
fn all_bits(level: Level, block: &[u8]) -> u8 {
    run!(level, all_bits::<1>(block))
}

/// Returns the largest magnitudes of positive and of negative parts.
fn extremes(level: Level, reading: Reading, block: &[u8]) -> [u64; 2] {
    match reading {
        Reading::Float(2) => run!(level, float_extremes::<2>(block)),
        Reading::Float(4) => run!(level, float_extremes::<4>(block)),
        Reading::Float(_) => run!(level, float_extremes::<8>(block)),
        Reading::Signed(2) => run!(level, int_extremes::<2>(block, true)),
        Reading::Signed(4) => run!(level, int_extremes::<4>(block, true)),
        Reading::Signed(_) => run!(level, int_extremes::<8>(block, true)),
        Reading::Unsigned(2) => run!(level, int_extremes::<2>(block, false)),
        Reading::Unsigned(4) => run!(level, int_extremes::<4>(block, false)),
        Reading::Unsigned(_) => run!(level, int_extremes::<8>(block, false)),
        Reading::Byte => [0, 0],
    }
}

/// As [`extremes`], with one less than the least magnitude of floats other than 0 as a third result.
fn extremes_and_least(level: Level, reading: Reading, block: &[u8]) -> [u64; 3] {
    match reading {
        Reading::Float(2) => run!(level, float_extremes_and_least::<2>(block)),
        Reading::Float(4) => run!(level, float_extremes_and_least::<4>(block)),
        _ => run!(level, float_extremes_and_least::<8>(block)),
    }
}

/// Whether there is a magnitude in a range.
fn any_between(level: Level, reading: Reading, block: &[u8], (from, to): Range) -> bool {
    match reading {
        Reading::Float(2) => run!(level, float_between::<2>(block, from, to)),
        Reading::Float(4) => run!(level, float_between::<4>(block, from, to)),
        Reading::Float(_) => run!(level, float_between::<8>(block, from, to)),
        // Ranges of integers go up to the largest one.
        _ => extremes(level, reading, block).iter().any(|magnitude| (from..=to).contains(magnitude)),
    }
}

/// Returns, for each of two ranges, whether there is a magnitude in it.
fn any_between_two(level: Level, reading: Reading, block: &[u8], ranges: [Range; 2]) -> [bool; 2] {
    match reading {
        Reading::Float(2) => run!(level, float_between_two::<2>(block, ranges)),
        Reading::Float(4) => run!(level, float_between_two::<4>(block, ranges)),
        Reading::Float(_) => run!(level, float_between_two::<8>(block, ranges)),
        _ => ranges.map(|range| any_between(level, reading, block, range)),
    }
}

/// Returns the magnitude of a part.
pub(super) fn magnitude(reading: Reading, part: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    let size = part.len().min(8);
    let little = cfg!(target_endian = "little");
    if little {
        bytes[..size].copy_from_slice(&part[..size])
    } else {
        bytes[8 - size..].copy_from_slice(&part[..size])
    }
    let code = u64::from_ne_bytes(bytes);
    let unused = 64 - 8 * size as u32;
    match reading {
        Reading::Float(_) => code << (unused + 1) >> (unused + 1),
        Reading::Signed(_) => ((code << unused).cast_signed() >> unused).unsigned_abs(),
        Reading::Unsigned(_) | Reading::Byte => code,
    }
}
