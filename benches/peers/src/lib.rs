//! Times lanecast beside other libraries, on the same buffers and in the same run.
//!
//! `cargo bench -p lanecast-peers` times every pair and peer with criterion, and
//! `cargo run --release -p lanecast-peers --bin ratio` prints one table of ratios. Both race the pairs of
//! [`PAIRS`]. With `LANECAST_BENCH_LARGE=1` they use buffers that no cache holds.
//! `cargo run --release -p lanecast-peers --bin report -- NAME` writes docs/performance/NAME.md: that table, all pairs
//! beside memcpy ([`grid`]), and what casting in registers gains ([`routes`]; also alone:
//! `cargo bench -p lanecast-peers --bench route`). `--bin checked` prints what checked casts cost ([`checked`]).
//!
//! A plain `as` loop is as fast as the instructions that the compiler may use, so it races twice: with the default ones,
//! and with those of this CPU, as with `-Ctarget-cpu=native` ([`Loop`]). The libraries choose theirs at run time, except
//! arrow-cast, which is at its best with `RUSTFLAGS=-Ctarget-cpu=native`.
//!
//! All contenders read the same buffer and write the same buffer, except two: arrow-cast always allocates
//! its result, and memcpy copies half of (bytes read + bytes written) between buffers of its own.

use std::fmt;
use std::hint::black_box;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytemuck::{cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use lanecast::{CastOptions, Caster, DType, Isa, Kind, Overflow, Rounding, Saturation, cast_bytes_with};
use null::Null;

pub mod checked;
#[path = "../../data/mod.rs"]
mod data;
pub mod grid;
#[path = "../../data/null.rs"]
mod null;
mod race;
pub mod routes;

pub use race::{Length, race};

/// A cast of one buffer to another, whose element types are built in.
type Cast = fn(&[u8], &mut [u8]);

/// A pair, and who can cast it besides lanecast.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The dtype of the source.
    pub from: DType,
    /// The dtype of the destination.
    pub to: DType,
    numkong: Option<Cast>,
    half: Option<Cast>,
    plain: Option<Loop>,
}

/// The plain `as` loop.
#[derive(Clone, Copy, Debug)]
struct Loop {
    /// Compiled for the instructions that rustc assumes by default.
    default: Cast,
    /// Returns the loop compiled for the instructions of this CPU, if it has more.
    native: fn() -> Option<Cast>,
}

/// A cast of a source that it holds, to the buffer, or to an array that it returns.
type Turn = dyn FnMut(&mut [u8]) -> Option<ArrayRef>;

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.from, self.to)
    }
}

/// Casts with NumKong, whose types for narrow floats have the same bits as lanecast's.
fn numkong<S: numkong::CastDtype, D: numkong::CastDtype>(src: &[u8], dst: &mut [u8]) {
    // SAFETY: the trait is sealed, and its types are primitive numbers and transparent wrappers of one, for which all bits
    // are valid.
    let ([], src, []) = (unsafe { src.align_to::<S>() }) else { panic!("the source is not aligned") };
    // SAFETY: as above, for `D`.
    let ([], dst, []) = (unsafe { dst.align_to_mut::<D>() }) else {
        panic!("the destination is not aligned")
    };
    numkong::cast(src, dst).expect("the lengths agree");
}

/// Makes a [`Loop`] for two element types.
macro_rules! plain {
    ($from:ty, $to:ty) => {{
        #[inline(always)]
        fn default(src: &[u8], dst: &mut [u8]) {
            for (d, s) in cast_slice_mut::<u8, $to>(dst).iter_mut().zip(cast_slice::<u8, $from>(src)) {
                *d = *s as $to;
            }
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn native() -> Option<Cast> {
            None
        }

        #[cfg(target_arch = "x86_64")]
        fn native() -> Option<Cast> {
            #[target_feature(enable = "avx2,bmi1,bmi2,fma,f16c")]
            fn avx2(src: &[u8], dst: &mut [u8]) {
                default(src, dst);
            }

            #[target_feature(enable = "avx2,bmi1,bmi2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512(src: &[u8], dst: &mut [u8]) {
                default(src, dst);
            }

            match Isa::available().last() {
                // SAFETY: this instruction set of lanecast is available, which takes these features and more.
                Some(Isa::Avx512) => Some(|src, dst| unsafe { avx512(src, dst) }),
                // SAFETY: as above.
                Some(Isa::Avx2) => Some(|src, dst| unsafe { avx2(src, dst) }),
                _ => None,
            }
        }

        Some(Loop { default, native })
    }};
}

/// Makes a cast of a method that half has for slices: for the destination, or for the source.
macro_rules! half {
    (dst: $to:ty, $method:ident) => {
        Some(|src, dst| cast_slice_mut::<u8, $to>(dst).$method(cast_slice(src)))
    };
    (src: $from:ty, $method:ident) => {
        Some(|src, dst| cast_slice::<u8, $from>(src).$method(cast_slice_mut(dst)))
    };
}

macro_rules! pairs {
    ($($from:ident -> $to:ident: $numkong:expr, $half:expr, $plain:expr;)*) => {
        &[$(Pair {
            from: DType::$from, to: DType::$to, numkong: $numkong, half: $half, plain: $plain,
        }),*]
    };
}

/// Every pair that is raced, with NumKong's cast, half's, and a plain loop. arrow-cast is called by dtype.
#[rustfmt::skip]
pub const PAIRS: &[Pair] = {
    use numkong::{bf16 as nk_bf16, e4m3, e5m2, f16 as nk_f16};
    pairs! {
        F32 -> F16:       Some(numkong::<f32, nk_f16>),     half!(dst: f16, convert_from_f32_slice), None;
        F16 -> F32:       Some(numkong::<nk_f16, f32>),     half!(src: f16, convert_to_f32_slice), None;
        F32 -> BF16:      Some(numkong::<f32, nk_bf16>),    half!(dst: bf16, convert_from_f32_slice), None;
        BF16 -> F32:      Some(numkong::<nk_bf16, f32>),    half!(src: bf16, convert_to_f32_slice), None;
        BF16 -> F16:      Some(numkong::<nk_bf16, nk_f16>), None, None;
        F16 -> BF16:      Some(numkong::<nk_f16, nk_bf16>), None, None;
        F64 -> F16:       Some(numkong::<f64, nk_f16>),     half!(dst: f16, convert_from_f64_slice), None;
        F32 -> F64:       Some(numkong::<f32, f64>),        None, plain!(f32, f64);
        F64 -> F32:       Some(numkong::<f64, f32>),        None, plain!(f64, f32);
        F32 -> F8E4M3FN:  Some(numkong::<f32, e4m3>),       None, None;
        F8E4M3FN -> F32:  Some(numkong::<e4m3, f32>),       None, None;
        F32 -> F8E5M2:    Some(numkong::<f32, e5m2>),       None, None;
        F8E5M2 -> F32:    Some(numkong::<e5m2, f32>),       None, None;
        F32 -> I8:        Some(numkong::<f32, i8>),         None, plain!(f32, i8);
        I8 -> F32:        Some(numkong::<i8, f32>),         None, plain!(i8, f32);
        F32 -> U8:        Some(numkong::<f32, u8>),         None, plain!(f32, u8);
        U8 -> F32:        Some(numkong::<u8, f32>),         None, plain!(u8, f32);
        F32 -> I32:       Some(numkong::<f32, i32>),        None, plain!(f32, i32);
        I32 -> F32:       Some(numkong::<i32, f32>),        None, plain!(i32, f32);
        F64 -> I64:       Some(numkong::<f64, i64>),        None, plain!(f64, i64);
        I64 -> F64:       Some(numkong::<i64, f64>),        None, plain!(i64, f64);
        I64 -> F32:       Some(numkong::<i64, f32>),        None, plain!(i64, f32);
        I64 -> I32:       Some(numkong::<i64, i32>),        None, plain!(i64, i32);
        I32 -> I8:        Some(numkong::<i32, i8>),         None, plain!(i32, i8);
        U8 -> U16:        Some(numkong::<u8, u16>),         None, plain!(u8, u16);
    }
};

/// Returns Arrow's type for a dtype, if it has one.
fn arrow_type(dtype: DType) -> Option<DataType> {
    Some(match dtype {
        DType::I8 => DataType::Int8,
        DType::I16 => DataType::Int16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::U8 => DataType::UInt8,
        DType::U16 => DataType::UInt16,
        DType::U32 => DataType::UInt32,
        DType::U64 => DataType::UInt64,
        DType::F16 => DataType::Float16,
        DType::F32 => DataType::Float32,
        DType::F64 => DataType::Float64,
        _ => return None,
    })
}

/// A contender in a race.
struct Contender {
    name: String,
    /// The options with which lanecast should give the same results; `None` if there is nothing to compare.
    same_as: Option<CastOptions>,
    cast: Box<Turn>,
}

/// A pair, a source, and all contenders that cast it.
pub struct Contest {
    pair: Pair,
    n: usize,
    src: Buffer,
    dst: MutableBuffer,
    contenders: Vec<Contender>,
}

impl fmt::Debug for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contest").field("pair", &self.pair).field("n", &self.n).finish_non_exhaustive()
    }
}

/// Totals of bytes read + bytes written: one that stays in L2, and a large one.
pub const SIZES: [usize; 2] = [data::SMALL, data::LARGE];

/// Returns the sizes to race: the one that stays in L2, and with `LANECAST_BENCH_LARGE=1` the large one.
pub fn sizes() -> &'static [usize] {
    let large = std::env::var("LANECAST_BENCH_LARGE").is_ok_and(|value| value == "1");
    if large { &SIZES } else { &SIZES[..1] }
}

impl Contest {
    /// Makes a contest on ordinary numbers in the range of the target, with about `traffic` bytes read + written.
    pub fn new(pair: Pair, traffic: usize) -> Self {
        let n = data::elements(pair.from, pair.to, traffic);
        let src = match (pair.from.kind(), pair.to.kind()) {
            (from, Kind::Int(to)) => {
                let bounds = |bound: i128| bound as f64;
                let (mut low, mut high) = (bounds(to.min()), bounds(to.max()));
                if let Kind::Int(from) = from {
                    (low, high) = (low.max(bounds(from.min())), high.min(bounds(from.max())));
                } else {
                    // In range after any rounding, and not so large that there are no fractions.
                    (low, high) = ((low / 2.0).max(-1e12), (high / 2.0).min(1e12));
                }
                data::numbers(pair.from, n, |random| low + (high - low) * random.unit())
            }
            _ => data::source(pair.from, n),
        };
        let mut contest = Self::on(pair, &src, n);
        contest.enter_arrow();
        contest
    }

    /// Makes a contest on all kinds of elements, without arrow-cast, for which a value out of range is an error:
    /// every element of up to 16 bits; of wider dtypes special values, numbers of all magnitudes, numbers that
    /// two roundings get wrong, and random bits.
    pub fn on_any_bits(pair: Pair) -> Self {
        let n = 1 << 16;
        let width = pair.from.bits() as usize / 8;
        let src = if width <= 2 {
            (0..n as u32).flat_map(|code| code.to_le_bytes()[..width].to_vec()).collect()
        } else {
            let mut special =
                [f64::NAN, f64::INFINITY, 0.0, 0.5, 1.5, 2.5, 300.0, 448.0, 464.0, 500.0, 1e6, 1e300]
                    .into_iter()
                    .chain([31, 32, 63, 64, -14, -126, -1074].map(|power| 2f64.powi(power)))
                    .flat_map(|x| [x, -x]);
            let mut src = data::numbers(pair.from, n, |random| {
                special
                    .next()
                    .unwrap_or_else(|| random.normal() * 2f64.powi((random.bits() >> 32) as i32 % 70))
            });
            let mut random = data::Random::new();
            let (rest, bits) = src.split_at_mut(n / 2 * width);
            bits.fill_with(|| (random.bits() >> 56) as u8);
            for element in rest[n / 4 * width..].chunks_exact_mut(width) {
                if let Some(code) = near_tie(pair, &mut random) {
                    element.copy_from_slice(&code.to_le_bytes()[..width]);
                }
            }
            src
        };
        Self::on(pair, &src, n)
    }

    fn on(pair: Pair, src: &[u8], n: usize) -> Self {
        // Arrow's buffers are aligned for any vector register, and an array of arrow can share them.
        let src = Buffer::from(src);
        let dst = MutableBuffer::from_len_zeroed(data::size(pair.to, n));
        let mut contest = Self { pair, n, src, dst, contenders: Vec::new() };

        let half = vec![1u8; contest.bytes() / 2];
        let mut other = half.clone();
        contest.enter("memcpy", None, move |_| {
            black_box(&mut other).copy_from_slice(black_box(&half));
            None
        });
        if let Some(null) = Isa::best().ok().and_then(|best| Null::new(pair.from, pair.to, best)) {
            for (name, past_caches) in ROOFS {
                let src = contest.src.clone();
                contest.enter(name, None, move |dst| {
                    null.run(black_box(&src), dst, past_caches);
                    None
                });
            }
        }
        for &isa in Isa::available() {
            let options = CastOptions::new().isa(isa);
            let caster = Caster::new(pair.from, pair.to, &options).expect("it is available");
            let src = contest.src.clone();
            contest.enter(&lanecast(isa), Some(options), move |dst| {
                caster.cast(black_box(&src), dst, n).expect("the sizes agree");
                None
            });
        }
        // NumKong rounds floats to the nearest integer, and saturates integers and those floats of 8 bits that have
        // no Inf.
        let numkong = CastOptions::new()
            .int_rounding(Rounding::NearestEven)
            .int_to_int(Overflow::Saturate)
            .saturation(Saturation::UnlessInf);
        contest.enter_cast("numkong", numkong, pair.numkong);
        contest.enter_cast("half", CastOptions::new(), pair.half);
        contest.enter_cast("as", CastOptions::rust_as(), pair.plain.map(|plain| plain.default));
        contest.enter_cast(
            "as, native",
            CastOptions::rust_as(),
            pair.plain.and_then(|plain| (plain.native)()),
        );
        contest
    }

    fn enter(
        &mut self,
        name: &str,
        same_as: Option<CastOptions>,
        cast: impl FnMut(&mut [u8]) -> Option<ArrayRef> + 'static,
    ) {
        self.contenders.push(Contender { name: name.to_owned(), same_as, cast: Box::new(cast) });
    }

    fn enter_cast(&mut self, name: &str, same_as: CastOptions, cast: Option<Cast>) {
        if let Some(cast) = cast {
            let src = self.src.clone();
            self.enter(name, Some(same_as), move |dst| {
                cast(black_box(&src), dst);
                None
            });
        }
    }

    fn enter_arrow(&mut self) {
        let (Some(from), Some(to)) = (arrow_type(self.pair.from), arrow_type(self.pair.to)) else { return };
        let array = ArrayData::builder(from).len(self.n).add_buffer(self.src.clone()).build();
        let array = make_array(array.expect("the buffer has the size of its elements"));
        // A value out of range is an error; with `safe` it would become null, which costs more.
        let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
        self.enter("arrow-cast", Some(CastOptions::new()), move |_| {
            let array: &dyn Array = black_box(&*array);
            Some(arrow_cast::cast_with_options(array, &to, &options).expect("every value is in range"))
        });
    }

    /// Returns the pair.
    pub fn pair(&self) -> Pair {
        self.pair
    }

    /// Returns the number of elements.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns bytes read + bytes written.
    pub fn bytes(&self) -> usize {
        self.src.len() + self.dst.len()
    }

    /// Returns the names of the contenders, memcpy first.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.contenders.iter().map(|contender| &*contender.name)
    }

    /// Runs one cast by a contender.
    pub fn run(&mut self, contender: usize) {
        black_box((self.contenders[contender].cast)(black_box(&mut self.dst)));
    }

    /// Returns the median time of one cast by each contender, in seconds.
    pub fn race(&mut self, length: Length) -> Vec<f64> {
        race(self.contenders.len(), length, |contender| self.run(contender))
    }

    /// Compares the result of each contender with that of lanecast, with options that mean what the contender does.
    /// Prints how many elements differ, and the first of them. Any two NaNs are equal.
    pub fn check(&mut self, input: &str) {
        let (pair, n) = (self.pair, self.n);
        for contender in &mut self.contenders {
            let Some(options) = contender.same_as else { continue };
            let mut wanted = vec![0; self.dst.len()];
            cast_bytes_with(&self.src, pair.from, &mut wanted, pair.to, n, &options.isa(Isa::Scalar))
                .expect("the sizes agree");
            // Removes the result of the previous contender.
            self.dst.fill(0xA5);
            if let Some(array) = (contender.cast)(&mut self.dst) {
                self.dst.copy_from_slice(array.to_data().buffers()[0].as_slice());
            }
            let [from, to] = [pair.from, pair.to].map(|dtype| dtype.bits() as usize / 8);
            let differs = |i: &usize| {
                let [got, wanted] = [&*self.dst, &wanted].map(|buffer| &buffer[i * to..][..to]);
                got != wanted && !(show(pair.to, got) == "NaN" && show(pair.to, wanted) == "NaN")
            };
            let nan = |&i: &usize| show(pair.from, &self.src[i * from..][..from]) == "NaN";
            let (nans, numbers): (Vec<_>, Vec<_>) = (0..n).filter(differs).partition(nan);
            for (what, differing) in [("numbers", numbers), ("NaNs", nans)] {
                let Some(&first) = differing.first() else { continue };
                println!(
                    "differs: {} {pair}: {} of {n} elements ({what}, {input}); {} gives {}, lanecast {}",
                    contender.name,
                    differing.len(),
                    show(pair.from, &self.src[first * from..][..from]),
                    show(pair.to, &self.dst[first * to..][..to]),
                    show(pair.to, &wanted[first * to..][..to]),
                );
            }
        }
    }
}

/// Returns the code of a source element midway between two elements of a float destination, or one unit beside
/// that. If rounded first to a format in between, all three seem to be midway. `None` if the destination is not
/// a narrower float.
fn near_tie(pair: Pair, random: &mut data::Random) -> Option<u64> {
    let to = pair.to.float_format()?.mantissa_bits();
    let beside = (random.bits() >> 32) % 3;
    let exponent = (random.bits() >> 32) % 40;
    Some(match pair.from.kind() {
        Kind::Float(from) if from.mantissa_bits() > to => {
            let number = random.normal() * 2f64.powi(exponent as i32 - 20);
            let drop = from.mantissa_bits() - to - 1;
            let code = match pair.from {
                DType::F32 => (number as f32).to_bits().into(),
                _ => number.to_bits(),
            };
            ((code >> drop | 1) << drop) + beside - 1
        }
        Kind::Int(from) => {
            let magnitude = random.bits() >> (65 - from.bits()) >> (exponent % 8);
            let drop = magnitude.checked_ilog2()?.checked_sub(to + 1)?;
            ((magnitude >> drop | 1) << drop) + beside - 1
        }
        _ => return None,
    })
}

/// Returns the name of lanecast on an instruction set.
pub fn lanecast(isa: Isa) -> String {
    format!("lanecast {isa}")
}

/// Returns the head of a table of [`ratios`], in Markdown.
pub fn ratios_head(best: Isa) -> String {
    let mut head = format!("| pair | {} GB/s |", lanecast(best));
    let mut line = "\n|---|---:|".to_owned();
    for name in columns(best) {
        head += &format!(" {name} |");
        line += "---:|";
    }
    head + &line
}

/// Returns a line of the table, and as text the other libraries that are faster. The line has the speed of lanecast
/// in bytes read + bytes written, and how many times as fast it is as each of the others.
pub fn ratios(contest: &mut Contest, best: Isa, length: Length) -> (String, Option<String>) {
    let medians = contest.race(length);
    let names: Vec<&str> = contest.names().collect();
    let find = |name: &str| names.iter().position(|&other| other == name).map(|i| medians[i]);
    let ours = find(&lanecast(best)).expect("the best is available");
    let mut line = format!("| {} | {:.1} |", contest.pair(), contest.bytes() as f64 / ours / 1e9);
    let roof = ROOFS.iter().filter_map(|(name, _)| find(name)).reduce(f64::min);
    for name in columns(best) {
        let theirs = if name == ROOF { roof } else { find(&name) };
        line += &theirs.map_or(" |".to_owned(), |theirs| format!(" {:.2} |", theirs / ours));
    }
    let ratio = |name: &str| find(name).map(|theirs| theirs / ours);
    let faster = PEERS
        .into_iter()
        .filter_map(|name| ratio(name).filter(|&ratio| ratio < 1.0).map(|ratio| (name, ratio)));
    let faster: Vec<String> = faster.map(|(name, ratio)| format!("{name} {ratio:.2}")).collect();
    let memcpy = ratio("memcpy").unwrap_or(f64::NAN);
    let named = format!("{} ({memcpy:.2} of memcpy): {}", contest.pair(), faster.join(", "));
    (line, (!faster.is_empty()).then_some(named))
}

/// The names of the other libraries, and of the loops.
const PEERS: [&str; 5] = ["numkong", "half", "arrow-cast", "as", "as, native"];

/// Returns the names that lanecast on its best instruction set is compared with.
fn columns(best: Isa) -> impl Iterator<Item = String> {
    let others = Isa::available().iter().rev().filter(move |&&isa| isa != best).map(|&isa| lanecast(isa));
    [ROOF, "memcpy"].into_iter().chain(PEERS).map(str::to_owned).chain(others)
}

/// The column of the null cast: the faster of the two [`ROOFS`].
const ROOF: &str = "roof";
const ROOFS: [(&str, bool); 2] = [("null", false), ("null past the caches", true)];

/// Returns the exact value of an element as text.
fn show(dtype: DType, element: &[u8]) -> String {
    let wide = if matches!(dtype.kind(), Kind::Float(_)) { DType::F64 } else { DType::I64 };
    let mut bytes = [0; 8];
    cast_bytes_with(element, dtype, &mut bytes, wide, 1, &CastOptions::new()).expect("it is one element");
    match wide {
        DType::F64 => format!("{:?}", f64::from_ne_bytes(bytes)),
        _ => i64::from_ne_bytes(bytes).to_string(),
    }
}
