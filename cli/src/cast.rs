//! `lanecast cast`: casts a .npy file, or raw numbers.

use std::collections::BTreeSet;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lanecast::checked::CastReport;
use lanecast::scaled::{Quantizer, Scaling};
use lanecast::{ByteOrder, CastOptions, Caster, DType, E8m0Rounding, Packing};
use npyz::{NpyHeader, Order, TypeChar};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::args::{Cast, Rounding, ScaleOf, Switch};
use crate::convert::{check_parent, check_replaced, is_interrupted, listen, sync};
use crate::dtypes;
use crate::error::{Failure, Kind, Result, on};
use crate::layout::Layout;
use crate::live::{named, remove_abandoned, temporary};
use crate::out::{self, bytes, count};
use crate::source::{self, Source, file_name, parent};
use crate::system;

/// How many bytes are read or written at a time, on the side whose elements are wider.
const CHUNK: u64 = 4 << 20;
/// The size of the largest header of a .npy file that is read.
const MOST: u64 = 1 << 20;

/// The source: the numbers that are cast.
struct Numbers {
    /// None for standard input, whose length is not known; the shape is empty then.
    source: Option<Box<dyn Source>>,
    dtype: DType,
    order: ByteOrder,
    packing: Packing,
    shape: Vec<u64>,
    fortran: bool,
    offset: u64,
}

impl Numbers {
    /// Whether elements lie in an order other than C's.
    fn is_turned(&self) -> bool {
        self.fortran && self.shape.iter().filter(|&&length| length > 1).count() > 1
    }

    /// Returns a note on what element numbers count, where that is not C's order.
    fn counted(&self) -> &'static str {
        if self.is_turned() { " in the order of the file (Fortran)" } else { "" }
    }
}

/// How a .npy file begins.
const MAGIC: &[u8] = b"\x93NUMPY";

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"))
}

/// Returns the extension of a file of arrays that is neither .npy nor raw numbers, and what to do with such files.
fn of_others(path: &Path) -> Option<(String, &'static str)> {
    let end = path.extension()?.to_string_lossy().to_lowercase();
    let help = match &end[..] {
        "npz" => "save its arrays as .npy files",
        "safetensors" | "gguf" | "pt" | "pth" => "`lanecast convert` converts safetensors files",
        _ => return None,
    };
    Some((end, help))
}

/// Whether a path stands for standard input or output.
fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens the source.
fn open(args: &Cast) -> Result<Numbers> {
    let from = args.from.as_deref().map(|name| dtypes::parse(name, &[])).transpose()?;
    if is_pipe(&args.src) {
        let Some(dtype) = from else {
            return Err(Failure::usage("standard input is read as raw numbers, which need --from")
                .help("--from f32, for example"));
        };
        let (order, packing) = (ByteOrder::Little, Packing::LowFirst);
        return Ok(Numbers { source: None, dtype, order, packing, shape: vec![], fortran: false, offset: 0 });
    }
    let source = source::open(&args.src).map_err(|error| match error.kind {
        Kind::Refused => error.help("name a .npy file, or a file of raw numbers with --from"),
        _ => error,
    })?;
    let mut magic = vec![0; source.len().min(MAGIC.len() as u64) as usize];
    source.read_at(&mut magic, 0).map_err(on(&args.src))?;
    // The name counts, too, so that a damaged .npy file is not taken for raw numbers.
    if is_npy(&args.src) || magic == MAGIC {
        npy(&args.src, source, from)
    } else {
        raw(&args.src, source, from)
    }
}

/// Opens raw numbers, without a header.
fn raw(path: &Path, source: Box<dyn Source>, from: Option<DType>) -> Result<Numbers> {
    let name = path.display();
    if let Some((end, help)) = of_others(path) {
        return Err(
            Failure::refused(format!("{name}: a .{end} file is neither .npy nor raw numbers")).help(help)
        );
    }
    let Some(dtype) = from else {
        return Err(Failure::usage(format!("{name}: not a .npy file; raw numbers need --from"))
            .help("--from f32, for example"));
    };
    let bits = u64::from(dtype.bits());
    if !(source.len() * 8).is_multiple_of(bits) {
        return Err(Failure::refused(format!(
            "{name}: {} bytes are not a whole number of {dtype} elements",
            source.len()
        )));
    }
    let shape = vec![source.len() * 8 / bits];
    let (order, packing) = (ByteOrder::Little, Packing::LowFirst);
    Ok(Numbers { source: Some(source), dtype, order, packing, shape, fortran: false, offset: 0 })
}

/// Opens a .npy file.
fn npy(path: &Path, source: Box<dyn Source>, from: Option<DType>) -> Result<Numbers> {
    let bad = |what: String| Failure::refused(format!("{}: {what}", path.display()));
    let (header, offset) = read_npy_header(path, source.as_ref())?;
    let npyz::DType::Plain(text) = header.dtype() else {
        return Err(bad("its dtype has fields, and such dtypes are not cast".to_owned()));
    };
    let dtype = npy_dtype(path, &text, from)?;
    let order = if text.endianness() == npyz::Endianness::Big { ByteOrder::Big } else { ByteOrder::Little };
    let shape = header.shape().to_vec();
    let elements = shape.iter().try_fold(1u64, |n, &length| n.checked_mul(length));
    let needed = elements.and_then(|n| n.checked_mul(dtype.itemsize() as u64));
    let there = source.len() - offset;
    if needed != Some(there) {
        let needed = needed.map_or("more".to_owned(), |n| n.to_string());
        return Err(bad(format!("{shape:?} of {dtype} takes {needed} bytes; {there} are there"))
            .help("write or fetch the file again: it was cut off, or is longer than its array"));
    }
    let fortran = header.order() == Order::Fortran;
    let (source, packing) = (Some(source), Packing::OnePerByte);
    Ok(Numbers { source, dtype, order, packing, shape, fortran, offset })
}

/// Reads the header of a .npy file. Also returns the offset of the data.
fn read_npy_header(path: &Path, source: &dyn Source) -> Result<(NpyHeader, u64)> {
    let bad = |what: String| Failure::refused(format!("{}: {what}", path.display()));
    let mut head = vec![0; source.len().min(MOST + 12) as usize];
    source.read_at(&mut head, 0).map_err(on(path))?;
    // The length is checked before that much is allocated.
    let length = match head[..] {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => 10 + u64::from(u16::from_le_bytes([a, b])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            12 + u64::from(u32::from_le_bytes([a, b, c, d]))
        }
        _ => return Err(bad("not a .npy file".to_owned())),
    };
    if length > head.len() as u64 {
        return Err(bad(match source.len() {
            bytes if length > bytes => format!("the header takes {length} bytes, but the file has {bytes}"),
            _ => format!("the header takes {length} bytes; at most {MOST} are read"),
        }));
    }
    // ml_dtypes writes float8_e5m2 as `f1` (and its other dtypes as bytes), which the library that parses headers does not know.
    let head = float8_as_bytes(&head[..length as usize]);
    // That library does not check whether the product of the lengths overflows, either.
    if !lengths_fit(&head) {
        return Err(bad("the shape in the header is invalid or too large".to_owned()));
    }
    let mut cursor = Cursor::new(&head[..]);
    let header = NpyHeader::from_reader(&mut cursor).map_err(|error| bad(error.to_string()))?;
    Ok((header, cursor.position()))
}

/// Returns the header with the dtype `f1` replaced by `V1`.
fn float8_as_bytes(head: &[u8]) -> Vec<u8> {
    let mut head = head.to_vec();
    for order in [b'<', b'>', b'|', b'='] {
        for quote in [b'\'', b'"'] {
            let name = [quote, order, b'f', b'1', quote];
            if let Some(at) = head.windows(name.len()).position(|found| found == name) {
                head[at + 1..][..3].copy_from_slice(b"|V1");
            }
        }
    }
    head
}

/// Returns the dtype of an array: that of its header or, where that has only bytes, that of `--from`.
fn npy_dtype(path: &Path, text: &npyz::TypeStr, from: Option<DType>) -> Result<DType> {
    let (name, size) = (path.display(), text.size_field());
    let own = match (text.type_char(), size) {
        (TypeChar::Bool, 1) => Some(DType::Bool),
        (TypeChar::Int, 1) => Some(DType::I8),
        (TypeChar::Int, 2) => Some(DType::I16),
        (TypeChar::Int, 4) => Some(DType::I32),
        (TypeChar::Int, 8) => Some(DType::I64),
        (TypeChar::Uint, 1) => Some(DType::U8),
        (TypeChar::Uint, 2) => Some(DType::U16),
        (TypeChar::Uint, 4) => Some(DType::U32),
        (TypeChar::Uint, 8) => Some(DType::U64),
        (TypeChar::Float, 2) => Some(DType::F16),
        (TypeChar::Float, 4) => Some(DType::F32),
        (TypeChar::Float, 8) => Some(DType::F64),
        (TypeChar::Complex, 8) => Some(DType::C64),
        (TypeChar::Complex, 16) => Some(DType::C128),
        _ => None,
    };
    match (own, from) {
        (Some(own), None) => Ok(own),
        (Some(own), Some(from)) if own == from => Ok(own),
        (Some(own), Some(from)) => Err(Failure::usage(format!("{name} is {own}, but --from says {from}"))),
        (None, Some(from)) if from.itemsize() as u64 == size => Ok(from),
        (None, Some(from)) => Err(Failure::usage(format!(
            "{name} has elements of {size} bytes, but {from} has {}",
            from.itemsize()
        ))),
        (None, None) if text.type_char() == TypeChar::RawData => Err(Failure::usage(format!(
            "{name}: its dtype is {text} for NumPy, which says only how many bytes an element has"
        ))
        .help(format!(
            "name the dtype with --from: --from {}, for example",
            if size == 1 { "e5m2" } else { "bf16" }
        ))),
        (None, None) => Err(Failure::refused(format!("{name}: its dtype is {text}, which is not cast"))),
    }
}

/// Whether the lengths in a header are plain numbers whose product, times 16 bytes, does not overflow.
fn lengths_fit(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.split("shape").skip(1).all(|rest| {
        let Some((_, rest)) = rest.split_once('(') else { return false };
        let Some((lengths, _)) = rest.split_once(')') else { return false };
        let numbers = lengths.split(',').map(str::trim).filter(|number| !number.is_empty());
        let product =
            numbers.map(|number| number.parse::<u64>().ok()).try_fold(16u64, |all, n| all.checked_mul(n?));
        product.is_some()
    })
}

/// Returns the header of a .npy file.
fn npy_header(dtype: DType, shape: &[u64], fortran: bool) -> Vec<u8> {
    let size = dtype.itemsize();
    let descr = match dtype {
        DType::Bool => "|b1".to_owned(),
        DType::I8 => "|i1".to_owned(),
        DType::U8 => "|u1".to_owned(),
        DType::I16 | DType::I32 | DType::I64 => format!("<i{size}"),
        DType::U16 | DType::U32 | DType::U64 => format!("<u{size}"),
        DType::F16 | DType::F32 | DType::F64 => format!("<f{size}"),
        DType::C64 | DType::C128 => format!("<c{size}"),
        _ => format!("|V{size}"),
    };
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let shape = match shape.strip_suffix(", ") {
        Some(one) if !one.contains(',') => format!("{one},"),
        Some(some) => some.to_owned(),
        None => String::new(),
    };
    let fortran = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
    let padding = 64 - (10 + text.len() + 1) % 64;
    text.extend(std::iter::repeat_n(' ', padding % 64));
    text.push('\n');
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend((text.len() as u16).to_le_bytes());
    head.extend(text.as_bytes());
    head
}

fn options(args: &Cast, from: &Numbers, packing: Packing) -> CastOptions {
    let options = CastOptions::new()
        .src_order(from.order)
        .dst_order(ByteOrder::Little)
        .src_packing(from.packing)
        .dst_packing(packing);
    let options = match args.rounding {
        None => options,
        Some(mode) => {
            let (mode, power) = match mode {
                Rounding::NearestEven => (lanecast::Rounding::NearestEven, E8m0Rounding::Nearest),
                Rounding::NearestAway => (lanecast::Rounding::NearestAway, E8m0Rounding::Nearest),
                Rounding::Zero => (lanecast::Rounding::TowardZero, E8m0Rounding::Down),
                Rounding::Up => (lanecast::Rounding::Up, E8m0Rounding::Up),
                Rounding::Down => (lanecast::Rounding::Down, E8m0Rounding::Down),
            };
            options.rounding(mode).int_rounding(mode).e8m0_rounding(power)
        }
    };
    match args.saturate {
        None => options,
        Some(switch) => options.saturate(switch == Switch::On),
    }
}

/// Returns the path of the file of scales: `emb8.npy` -> `emb8.scale.npy`.
fn scale_path(dst: &Path) -> PathBuf {
    let end = dst.extension().map_or("npy".to_owned(), |end| end.to_string_lossy().into_owned());
    dst.with_extension(format!("scale.{end}"))
}

/// Returns the bits of the magnitude of a float64, which compare as magnitudes do, with NaN as the largest.
fn magnitude(x: &[u8; 8]) -> u64 {
    f64::from_le_bytes(*x).abs().to_bits()
}

fn check_interrupted() -> Result<()> {
    if is_interrupted() { Err(Failure::new(Kind::Interrupted, "interrupted")) } else { Ok(()) }
}

/// Calls `with` for every `size` bytes of standard input. Another thread reads, because a read may block forever, even after Ctrl-C.
fn piped(size: usize, mut with: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (send, receive) = mpsc::sync_channel(1);
    thread::spawn(move || {
        loop {
            let mut buffer = Vec::with_capacity(size);
            let read = io::stdin().lock().take(size as u64).read_to_end(&mut buffer);
            let is_last = buffer.len() < size;
            if send.send(read.map(|_| buffer)).is_err() || is_last {
                break;
            }
        }
    });
    loop {
        let read = receive.recv_timeout(Duration::from_millis(100));
        check_interrupted()?;
        match read {
            Ok(Ok(bytes)) if bytes.is_empty() => {}
            Ok(Ok(bytes)) => with(&bytes)?,
            Ok(Err(error)) => return Err(Failure::system(format!("standard input: {error}"))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Calls `with` for up to `each` elements at a time and the number of the first. Pieces are whole lines, or parts of one line.
fn pieces(
    from: &Numbers,
    path: &Path,
    line: u64,
    each: u64,
    mut with: impl FnMut(&[u8], u64, usize) -> Result<()>,
) -> Result<()> {
    let each = if each < line { each } else { each / line * line };
    let elements: u64 = from.shape.iter().product();
    let bits = if from.packing == Packing::OnePerByte {
        from.dtype.itemsize() as u64 * 8
    } else {
        u64::from(from.dtype.bits())
    };
    let mut buffer = Vec::new();
    let mut first = 0;
    let Some(source) = &from.source else {
        return piped((each * bits / 8) as usize, |bytes| {
            if first == 0 && bytes.starts_with(MAGIC) {
                return Err(Failure::refused("standard input is a .npy file, not raw numbers")
                    .help("name the file instead of -"));
            }
            let count = bytes.len() as u64 * 8 / bits;
            if count * bits != bytes.len() as u64 * 8 {
                let all = first * bits / 8 + bytes.len() as u64;
                return Err(Failure::refused(format!(
                    "{all} bytes are not a whole number of {} elements",
                    from.dtype
                )));
            }
            with(bytes, first, count as usize)?;
            first += count;
            Ok(())
        });
    };
    while first < elements {
        check_interrupted()?;
        let count = each.min(elements - first).min(each.max(line) - first % line);
        buffer.resize((count * bits).div_ceil(8) as usize, 0);
        source.read_at(&mut buffer, from.offset + first * bits / 8).map_err(on(path))?;
        with(&buffer, first, count as usize)?;
        first += count;
    }
    Ok(())
}

/// Checks that DST, and the file of scales if there is one, may be written.
fn check_targets(args: &Cast, from: &Numbers, scale_to: &Path) -> Result<()> {
    if from.is_turned() && !is_npy(&args.dst) {
        return Err(Failure::refused(format!(
            "{} is in Fortran order, which raw numbers cannot record",
            args.src.display()
        ))
        .help("write a .npy file, which records the order, or make the array C-contiguous with numpy.ascontiguousarray"));
    }
    let [src, dst] = [&args.src, &args.dst].map(|path| is_pipe(path));
    if (src || dst) && args.scale != ScaleOf::None {
        return Err(Failure::usage(
            "--scale needs files: it may read SRC twice, and writes the scales to a file beside DST",
        )
        .help("name files instead of -"));
    }
    if src && is_npy(&args.dst) {
        return Err(Failure::usage("a .npy file begins with its shape, which standard input does not give")
            .help("for raw numbers, use a name that does not end in .npy"));
    }
    if dst {
        return match args.json {
            true => Err(Failure::usage("--json and the numbers would both go to standard output")),
            false => Ok(()),
        };
    }
    if let Some((end, _)) = of_others(&args.dst) {
        return Err(Failure::usage(format!(
            "{}: `lanecast cast` does not write .{end} files",
            args.dst.display()
        ))
        .help("name a .npy file, or another for raw numbers: x.npy, x.bin"));
    }
    let scales = (args.scale != ScaleOf::None).then_some(scale_to);
    for path in [Some(args.dst.as_path()), scales].into_iter().flatten() {
        check_file(path, &[&args.src], args.force, "name a file, or - for standard output")?;
    }
    check_parent(&args.dst)
}

/// Checks that a file may be written, or replaced if `force`: it is none of the sources, no directory, no link and no device.
pub(crate) fn check_file(path: &Path, sources: &[&Path], force: bool, instead: &str) -> Result<()> {
    if sources.iter().any(|source| source::resolved(path) == source::resolved(source)) {
        return Err(Failure::refused(format!("{} is the source", path.display()))
            .help("write elsewhere: the source is never changed"));
    }
    check_replaced(path, instead)?;
    if path.symlink_metadata().is_ok() && !force {
        return Err(Failure::refused(format!("{} exists", path.display())).help("--force replaces it"));
    }
    Ok(())
}

/// Converts an error of the library about a scaling.
fn wrong(error: lanecast::scaled::Error) -> Failure {
    Failure::usage(error.to_string())
}

/// Where a result goes.
enum Target {
    /// A file, which gets its name when it is complete.
    File(NamedTempFile),
    Stdout,
}

/// Returns what to say of lost elements, if there are any.
fn losses(found: &CastReport, from: &Numbers, to: DType) -> Option<String> {
    let first = found.first?;
    let classes = [
        (found.above, "above the range"),
        (found.below, "below the range"),
        (found.nan, "NaN"),
        (found.inf, "Inf"),
        (found.imaginary, "with an imaginary part"),
    ];
    let some = classes.into_iter().filter(|(n, _)| *n > 0);
    let some: Vec<_> = some.map(|(n, name)| format!("{} {name}", out::number(n as u64))).collect();
    let are = if found.lost() == 1 { "is" } else { "are" };
    Some(format!(
        "{} {are} lost in {to}: {}; the first is element {first}{}",
        count(found.lost() as u64, "element"),
        some.join(", "),
        from.counted()
    ))
}

fn losses_json(found: &CastReport) -> serde_json::Value {
    let CastReport { above, below, nan, inf, imaginary, first, .. } = *found;
    json!({ "above": above, "below": below, "nan": nan, "inf": inf, "imaginary": imaginary, "first": first })
}

/// Returns the error of a cast of a piece. `first` is the index of the piece's first element.
fn refused_at(error: lanecast::Error, first: u64, from: &Numbers) -> Failure {
    match error {
        lanecast::Error::Lossy(mut lossy) => {
            lossy.index += first as usize;
            let counted = from.counted();
            let numbered = if counted.is_empty() { "" } else { "; elements are counted" };
            Failure::new(Kind::Limit, format!("{lossy}{numbered}{counted}"))
        }
        error => Failure::refused(error.to_string()),
    }
}

/// Whether a scale was found for NaN or Inf.
fn is_of_none(scale: f32) -> bool {
    !scale.is_finite() || scale == f32::MAX
}

/// Returns how many scales were found for NaN or Inf.
fn scales_of_none(scales: &[u8]) -> u64 {
    scales.as_chunks().0.iter().filter(|scale| is_of_none(f32::from_le_bytes(**scale))).count() as u64
}

/// What was written, and what it has lost.
struct Made {
    scales: Option<Vec<u8>>,
    /// The losses in words, if there are any.
    lost: Option<String>,
    /// The error, if `--strict` refuses that.
    refused: Option<Failure>,
    json: serde_json::Value,
}

/// A result that is being written, from its beginning to its end.
struct Writing<'a> {
    args: &'a Cast,
    from: &'a Numbers,
    to: DType,
    packing: Packing,
    options: CastOptions,
    /// How many elements are read at a time: a multiple of 8, so that packed ones begin at a byte.
    each: u64,
    target: Target,
    elements: u64,
    read: u64,
    written: u64,
    report: CastReport,
    /// Counts negative elements if scales are found for a dtype without a sign.
    negatives: Option<Negatives>,
}

/// Counts the elements that are below the range of a dtype without a sign: found scales are positive, so negative elements stay negative.
struct Negatives {
    wide: Caster,
    narrow: Caster,
    values: Vec<u8>,
    codes: Vec<u8>,
}

impl Negatives {
    /// Returns None if the target has a sign.
    fn new(from: &Numbers, to: DType, options: &CastOptions) -> Result<Option<Self>> {
        // Floats without a sign are no targets of scaled casts.
        if !matches!(to, DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32) {
            return Ok(None);
        }
        let wrong = |error: lanecast::Error| Failure::usage(error.to_string());
        let wide =
            CastOptions::new().src_order(from.order).src_packing(from.packing).dst_order(ByteOrder::Little);
        let narrow = options.src_order(ByteOrder::Little).int_rounding(options.rounding);
        Ok(Some(Self {
            wide: Caster::new(from.dtype, DType::F64, &wide).map_err(wrong)?,
            narrow: Caster::new(DType::F64, to, &narrow).map_err(wrong)?,
            values: Vec::new(),
            codes: Vec::new(),
        }))
    }

    /// Counts what `n` elements lose. `scale` returns the scale of an element.
    fn count(&mut self, src: &[u8], n: usize, scale: impl Fn(usize) -> [u8; 4]) -> Result<CastReport> {
        let wrong = |error: lanecast::Error| Failure::refused(error.to_string());
        self.values.resize(n * 8, 0);
        self.wide.cast(src, &mut self.values, n).map_err(wrong)?;
        for (i, value) in self.values.as_chunks_mut().0.iter_mut().enumerate() {
            let scale = f32::from_le_bytes(scale(i));
            let quotient = (f64::from_le_bytes(*value) / f64::from(scale)).min(0.0);
            *value = if is_of_none(scale) { 0.0 } else { quotient }.to_le_bytes();
        }
        self.codes.resize(self.narrow.destination_bytes(n).unwrap_or(0), 0);
        self.narrow.cast_checked(&self.values, &mut self.codes, n).map_err(wrong)
    }
}

impl Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        match &mut self.target {
            Target::File(file) => system::check_size(self.written)
                .and_then(|()| file.write_all(bytes))
                .map_err(on(&self.args.dst)),
            Target::Stdout => io::stdout()
                .lock()
                .write_all(bytes)
                .map_err(|error| Failure::system(format!("standard output: {error}"))),
        }
    }

    /// Writes the result, except for the file of scales.
    fn run(&mut self) -> Result<Made> {
        if self.args.scale == ScaleOf::None {
            let refused = self.plain()?;
            let (lost, json) = (losses(&self.report, self.from, self.to), losses_json(&self.report));
            return Ok(Made { scales: None, lost, refused, json });
        }
        let scales = self.scaled()?;
        let wrong = scales_of_none(&scales);
        let of_none = (wrong > 0).then(|| {
            format!(
                "{} computed from NaN or Inf: the elements that they scale are lost",
                count(wrong, "scale")
            )
        });
        let lost: Vec<_> = losses(&self.report, self.from, self.to).into_iter().chain(of_none).collect();
        let lost = (!lost.is_empty()).then(|| lost.join("; "));
        let refused = lost.as_ref().filter(|_| self.args.strict).map(|lost| Failure::new(Kind::Limit, lost));
        let CastReport { below, first, .. } = self.report;
        let json = json!({ "scales": wrong, "below": below, "first": first });
        Ok(Made { scales: Some(scales), lost, refused, json })
    }

    /// Casts elements without scales. What `--strict` refuses ends the cast or, with `--json`, only the writing: all losses are counted.
    fn plain(&mut self) -> Result<Option<Failure>> {
        let (from, to, packing) = (self.from, self.to, self.packing);
        let caster =
            Caster::new(from.dtype, to, &self.options).map_err(|error| Failure::usage(error.to_string()))?;
        let (mut dst, mut refused) = (Vec::new(), None);
        pieces(from, &self.args.src, 1, self.each, |src, first, n| {
            let size = to.byte_len(n, packing).ok_or_else(|| Failure::refused("too many elements"))?;
            dst.resize(size, 0);
            let is_tried = self.args.strict && refused.is_none();
            if is_tried {
                match caster.try_cast(src, &mut dst, n).map_err(|error| refused_at(error, first, from)) {
                    Err(error) if self.args.json && error.kind == Kind::Limit => refused = Some(error),
                    done => done?,
                }
            }
            if is_tried && refused.is_none() {
                self.report.elements += n;
            } else {
                let found = caster.cast_checked(src, &mut dst, n);
                self.report.append(found.map_err(|error| Failure::refused(error.to_string()))?);
            }
            (self.elements, self.read) = (first + n as u64, self.read + src.len() as u64);
            if refused.is_none() { self.write(&dst) } else { Ok(()) }
        })?;
        Ok(refused)
    }

    /// Quantises to codes, which are written, and returns their scales.
    fn scaled(&mut self) -> Result<Vec<u8>> {
        let from = self.from;
        let of_rows = self.args.scale == ScaleOf::Row;
        // Made for its error alone, which names the dtype of the source if that takes no scales.
        Quantizer::new(from.dtype, self.to, &Scaling::per_tensor(DType::F32), &self.options)
            .map_err(wrong)?;
        let Some((&last, outer)) = from.shape.split_last().or((!of_rows).then_some((&1, &[][..]))) else {
            return Err(Failure::usage("--scale row: a single number has no rows"));
        };
        if last == 0 {
            return Err(Failure::refused(format!("{:?}: rows without elements have no scale", from.shape)));
        }
        let rows: u64 = outer.iter().product();
        // Contiguous elements: a row, or in Fortran order a column.
        let line = if from.fortran { rows } else { last }.max(1);
        if self.packing != Packing::OnePerByte && (line * u64::from(self.to.bits())) % 8 != 0 {
            return Err(Failure::not_there(format!(
                "--scale with rows of {line} {} in raw numbers",
                self.to
            ))
            .help("such rows do not fill whole bytes; a .npy file has a byte for each element"));
        }
        self.negatives = Negatives::new(from, self.to, &self.options)?;
        if of_rows && !from.fortran {
            return self.row_by_row(line);
        }
        // The elements of a scale are not contiguous: the largest magnitudes are found by a first pass over the file.
        let largest = self.largest(line, if of_rows { rows as usize } else { 1 })?;
        let scales = self.scales_of(&largest)?;
        self.by_scales(line, &scales)?;
        Ok(scales)
    }

    /// Quantises contiguous rows, each with a scale of its own.
    fn row_by_row(&mut self, line: u64) -> Result<Vec<u8>> {
        let scaling = Scaling::blocks(&[1, 0], DType::F32).int_rounding(self.options.rounding);
        let q = Quantizer::new(self.from.dtype, self.to, &scaling, &self.options).map_err(wrong)?;
        let (mut dst, mut some, mut found) = (Vec::new(), Vec::new(), Vec::new());
        pieces(self.from, &self.args.src, line, self.each.max(line), |src, _, n| {
            let shape = [n / line as usize, line as usize];
            dst.resize(q.code_bytes(&shape).map_err(wrong)?, 0);
            some.resize(shape[0] * 4, 0);
            q.quantize(src, &shape, &mut dst, &mut some).map_err(wrong)?;
            if let Some(negatives) = &mut self.negatives {
                let scales = some.as_chunks().0;
                self.report.append(negatives.count(src, n, |i| scales[i / line as usize])?);
            }
            found.extend(&some);
            self.write(&dst)
        })?;
        Ok(found)
    }

    /// Returns the largest magnitudes, as bits of float64: of `count` rows of a file in Fortran order, or of all elements (`count` 1).
    fn largest(&self, line: u64, count: usize) -> Result<Vec<u64>> {
        let from = self.from;
        let mut largest = vec![0u64; count];
        let wide =
            CastOptions::new().src_order(from.order).src_packing(from.packing).dst_order(ByteOrder::Little);
        let caster = Caster::new(from.dtype, DType::F64, &wide).map_err(|e| Failure::usage(e.to_string()))?;
        let mut values = Vec::new();
        pieces(from, &self.args.src, line, self.each, |src, first, n| {
            values.resize(n * 8, 0);
            caster.cast(src, &mut values, n).map_err(|error| Failure::refused(error.to_string()))?;
            let values = values.as_chunks().0;
            if self.args.scale == ScaleOf::Row {
                let largest = &mut largest[(first % line) as usize..];
                for values in values.chunks(line as usize) {
                    largest
                        .iter_mut()
                        .zip(values.iter().map(magnitude))
                        .for_each(|(most, x)| *most = x.max(*most));
                }
            } else {
                largest[0] = values.iter().map(magnitude).max().unwrap_or(0).max(largest[0]);
            }
            Ok(())
        })?;
        Ok(largest)
    }

    /// Returns the scales for largest magnitudes.
    fn scales_of(&self, largest: &[u64]) -> Result<Vec<u8>> {
        let little = self.options.src_order(ByteOrder::Little);
        let scaling = Scaling::blocks(&[1, 0], DType::F32);
        let q = Quantizer::new(DType::F64, self.to, &scaling, &little).map_err(wrong)?;
        let magnitudes: Vec<u8> = largest.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut scales = vec![0; largest.len() * 4];
        let shape = [largest.len(), 1];
        let mut codes = vec![0; q.code_bytes(&shape).map_err(wrong)?];
        q.quantize(&magnitudes, &shape, &mut codes, &mut scales).map_err(wrong)?;
        Ok(scales)
    }

    /// Writes codes under known scales: one scale for each element of a line, or one for all.
    fn by_scales(&mut self, line: u64, scales: &[u8]) -> Result<()> {
        let of_rows = self.args.scale == ScaleOf::Row;
        let of_column = Scaling::blocks(&[0, 1], DType::F32);
        let scaling = if of_rows { of_column } else { Scaling::per_tensor(DType::F32) };
        let scaling = scaling.int_rounding(self.options.rounding);
        let q = Quantizer::new(self.from.dtype, self.to, &scaling, &self.options).map_err(wrong)?;
        let mut dst = Vec::new();
        pieces(self.from, &self.args.src, line, self.each, |src, first, n| {
            let columns = n.min(line as usize);
            let shape = [n / columns, columns];
            let at = if of_rows { (first % line) as usize..(first % line) as usize + columns } else { 0..1 };
            dst.resize(q.code_bytes(&shape).map_err(wrong)?, 0);
            let scales = &scales[at.start * 4..at.end * 4];
            q.quantize_given(src, &shape, scales, None, &mut dst).map_err(wrong)?;
            if let Some(negatives) = &mut self.negatives {
                let scales = scales.as_chunks().0;
                self.report.append(negatives.count(src, n, |i| scales[i % scales.len()])?);
            }
            self.write(&dst)
        })
    }

    /// Gives both files their names once both are written. The file of scales is last: its error says that the codes are there.
    fn publish(self, scales: Option<&[u8]>, scale_to: &Path) -> Result<()> {
        let mut scale_file = None;
        if let Some(scales) = scales {
            let mut file = temporary(parent(&self.args.dst), &file_name(scale_to))?;
            if is_npy(scale_to) {
                let shape = &self.from.shape[..];
                let rows = if self.args.scale == ScaleOf::Row { &shape[..shape.len() - 1] } else { &[] };
                let head = npy_header(DType::F32, rows, self.from.fortran);
                file.write_all(&head).map_err(on(scale_to))?;
            }
            file.write_all(scales).and_then(|()| file.as_file().sync_all()).map_err(on(scale_to))?;
            scale_file = Some(file);
        }
        let dst = &self.args.dst;
        let mut places = BTreeSet::new();
        match self.target {
            Target::File(file) => {
                file.as_file().sync_all().map_err(on(dst))?;
                named(file, dst, self.args.force)?;
                places.insert(parent(dst));
            }
            Target::Stdout => {
                io::stdout().flush().map_err(|error| Failure::system(format!("standard output: {error}")))?;
            }
        }
        if let Some(file) = scale_file {
            named(file, scale_to, self.args.force).map_err(|error| {
                error.help(format!(
                    "{} already has the new codes; an older file of scales does not belong to them",
                    dst.display()
                ))
            })?;
            places.insert(parent(scale_to));
        }
        places.into_iter().try_for_each(sync)
    }
}

pub(crate) fn run(args: &Cast) -> Result<()> {
    let to = dtypes::parse(&args.to, &[]).map_err(|error| match Layout::named(&args.to) {
        Some(_) => error.help("that is a layout: `lanecast convert` writes it, from safetensors files"),
        None => error,
    })?;
    let scale_to = scale_path(&args.dst);
    let from = open(args)?;
    check_targets(args, &from, &scale_to)?;
    listen();
    for path in [&args.dst, &scale_to].into_iter().filter(|path| !is_pipe(path)) {
        remove_abandoned(parent(path), &file_name(path), &args.src);
    }
    let packing = if is_npy(&args.dst) { Packing::OnePerByte } else { Packing::LowFirst };
    let mut writing = Writing {
        args,
        from: &from,
        to,
        packing,
        options: options(args, &from, packing),
        each: CHUNK / from.dtype.itemsize().max(to.itemsize()) as u64,
        target: match is_pipe(&args.dst) {
            true => Target::Stdout,
            false => Target::File(temporary(parent(&args.dst), &file_name(&args.dst))?),
        },
        // How much a pipe holds is not known.
        elements: if from.source.is_some() { from.shape.iter().product() } else { 0 },
        read: 0,
        written: 0,
        report: CastReport::default(),
        negatives: None,
    };
    if is_npy(&args.dst) {
        writing.write(&npy_header(to, &from.shape, from.fortran))?;
    }
    let untouched = |error: Failure| match error.kind {
        Kind::Limit | Kind::Interrupted if !is_pipe(&args.dst) => error.help("nothing was written"),
        _ => error,
    };
    let Made { scales, lost, refused, json } = writing.run().map_err(untouched)?;
    let read = from.source.as_ref().map_or(writing.read, |source| source.len());
    let shape = if from.source.is_some() { from.shape.clone() } else { vec![writing.elements] };
    let elements = writing.elements;
    let written = if refused.is_some() { 0 } else { writing.written };
    if refused.is_none() {
        writing.publish(scales.as_deref(), &scale_to)?;
    }
    if args.json {
        out::json(&json!({
            "from": from.dtype.name(), "to": to.name(), "shape": shape, "bytes_in": read, "bytes_out": written, "lost": json,
        }))?;
    }
    if let Some(refused) = refused {
        return Err(untouched(refused));
    }
    if args.json {
        return Ok(());
    }
    if let Some(lost) = lost {
        out::note(format_args!("warning: {lost} (--strict refuses that)"));
    }
    if !args.quiet {
        let (a, b) = (bytes(read), bytes(written));
        let line = format!("{} -> {}   {}, {a} -> {b}", from.dtype, to, count(elements, "element"));
        if is_pipe(&args.dst) {
            out::note(format_args!("{line}"));
        } else {
            out::line(format_args!("{line}"))?;
        }
    }
    Ok(())
}
