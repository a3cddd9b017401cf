//! `to_dtype` of candle-core as published and with lanecast, in one program: the bits of both, or their times in turns.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

use float8::F8E4M3;
use half::{bf16, f16};

mod turns;

/// Its dtypes that are more than a name.
const NAMES: [&str; 10] = ["u8", "u32", "i16", "i32", "i64", "bf16", "f16", "f32", "f64", "f8e4m3"];

/// One tensor in both libraries.
struct Pair {
    theirs: theirs::Tensor,
    ours: ours::Tensor,
}

impl Pair {
    fn new<T: theirs::WithDType + ours::WithDType>(values: Vec<T>, shape: &[usize]) -> Self {
        Self {
            theirs: theirs::Tensor::from_vec(values.clone(), shape, &theirs::Device::Cpu).unwrap(),
            ours: ours::Tensor::from_vec(values, shape, &ours::Device::Cpu).unwrap(),
        }
    }

    /// The same view of both.
    fn view(
        &self,
        theirs: impl Fn(&theirs::Tensor) -> theirs::Result<theirs::Tensor>,
        ours: impl Fn(&ours::Tensor) -> ours::Result<ours::Tensor>,
    ) -> Self {
        Self { theirs: theirs(&self.theirs).unwrap(), ours: ours(&self.ours).unwrap() }
    }

    /// The bytes of both after a cast.
    fn cast(&self, to: &str) -> (Vec<u8>, Vec<u8>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let theirs = self.theirs.to_dtype(to.parse().unwrap()).unwrap();
        let ours = self.ours.to_dtype(to.parse().unwrap()).unwrap();
        assert_eq!(theirs.dims(), ours.dims());
        if theirs.elem_count() == 0 {
            // (To write those that begin behind the end of the storage would panic in both.)
            return (a, b);
        }
        theirs.flatten_all().unwrap().write_bytes(&mut a).unwrap();
        ours.flatten_all().unwrap().write_bytes(&mut b).unwrap();
        (a, b)
    }
}

/// Numbers of all sizes and signs, and the bits of everything else.
fn bits(i: usize) -> u64 {
    let mut x = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ x >> 32
}

/// A tensor of a dtype; of floats, a quarter any bits, the others of a size that most dtypes hold.
fn tensor(name: &str, shape: &[usize]) -> Pair {
    let n = shape.iter().product();
    let float = |i: usize| match bits(i) {
        x if x % 4 == 0 => f64::from_bits(bits(i + n)),
        x => ((x >> 20) as f64 / (1u64 << 34) as f64 - 512.0) * if x % 4 == 1 { 1.0 } else { 0.01 },
    };
    match name {
        "u8" => Pair::new((0..n).map(|i| bits(i) as u8).collect(), shape),
        "u32" => Pair::new((0..n).map(|i| bits(i) as u32).collect(), shape),
        "i16" => Pair::new((0..n).map(|i| bits(i) as i16).collect(), shape),
        "i32" => Pair::new((0..n).map(|i| bits(i) as i32).collect(), shape),
        "i64" => Pair::new((0..n).map(|i| bits(i) as i64 >> (i % 50)).collect(), shape),
        "bf16" => Pair::new((0..n).map(|i| bf16::from_bits(bits(i) as u16)).collect(), shape),
        "f16" => Pair::new((0..n).map(|i| f16::from_bits(bits(i) as u16)).collect(), shape),
        "f32" => Pair::new((0..n).map(|i| if i % 4 == 0 { f32::from_bits(bits(i) as u32) } else { float(i) as f32 }).collect(), shape),
        "f64" => Pair::new((0..n).map(float).collect(), shape),
        _ => Pair::new((0..n).map(|i| F8E4M3::from_bits(bits(i) as u8)).collect(), shape),
    }
}

/// Does candle round such a pair more than once, or lose the sign of a NaN?
fn may_differ(from: &str, to: &str) -> bool {
    matches!((from, to), ("f64", "f16" | "bf16") | ("u32" | "i32" | "i64", "bf16") | ("f8e4m3", "bf16" | "f16" | "f32"))
}

/// Does candle's loop end? That of float8 to f64 does not, for some codes.
fn ends(from: &str, to: &str) -> bool {
    (from, to) != ("f8e4m3", "f64")
}

fn compare() {
    let mut differing = BTreeMap::new();
    let mut casts = 0;
    for from in NAMES {
        let dense = tensor(from, &[24, 40, 17]);
        let layouts = [
            dense.view(|t| t.permute((2, 0, 1)), |t| t.permute((2, 0, 1))),
            dense.view(|t| t.narrow(1, 3, 25), |t| t.narrow(1, 3, 25)),
            dense.view(|t| t.narrow(0, 5, 1)?.broadcast_as((7, 40, 17)), |t| t.narrow(0, 5, 1)?.broadcast_as((7, 40, 17))),
            dense.view(|t| t.narrow(2, 4, 0), |t| t.narrow(2, 4, 0)),
            // Starts behind the end of the storage.
            dense.view(|t| t.narrow(0, 24, 0)?.narrow(1, 1, 5), |t| t.narrow(0, 24, 0)?.narrow(1, 1, 5)),
            // Enough for threads: dense, strided and broadcast.
            tensor(from, &[(1 << 20) + 77]),
            tensor(from, &[1031, 1033]).view(|t| t.t(), |t| t.t()),
            tensor(from, &[1, 1033]).view(|t| t.broadcast_as((1031, 1033)), |t| t.broadcast_as((1031, 1033))),
            tensor(from, &[]),
            dense,
        ];
        for to in NAMES.into_iter().filter(|to| ends(from, to)) {
            for (i, pair) in layouts.iter().enumerate() {
                let (a, b) = pair.cast(to);
                casts += 1;
                assert_eq!(a.len(), b.len(), "{from} to {to}, layout {i}");
                let size = a.len() / pair.ours.elem_count().max(1);
                let differ = a.chunks(size.max(1)).zip(b.chunks(size.max(1))).filter(|(a, b)| a != b).count();
                assert!(differ == 0 || may_differ(from, to), "{from} to {to}, layout {i}: {differ} elements differ");
                let (count, of) = differing.entry((from, to)).or_insert((0, 0));
                (*count, *of) = (*count + differ, *of + pair.ours.elem_count());
            }
        }
    }
    for ((from, to), (count, of)) in differing.iter().filter(|(_, (count, _))| *count > 0) {
        println!("{from} to {to}: {count} of {of} elements differ");
    }
    println!("{casts} casts of {} pairs of dtypes, dense, strided, broadcast, empty and of one element; on threads and not", differing.len());
}

/// The weights of a small model, saved, loaded and cast by both.
fn model() {
    let dir = std::env::temp_dir().join(format!("candle-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str| dir.join(name);
    let mut weights = HashMap::new();
    for layer in 0..4 {
        for (name, shape) in [("q_proj", [256, 256]), ("up_proj", [704, 256]), ("norm", [1, 256])] {
            let n = shape[0] * shape[1];
            let values = (0..n).map(|i| (bits(i + layer) >> 40) as f32 / (1 << 26) as f32 - 0.125).collect();
            weights.insert(format!("model.layers.{layer}.{name}.weight"), Pair::new::<f32>(values, &shape).theirs);
        }
    }
    theirs::safetensors::save(&weights, file("f32")).unwrap();
    for to in ["bf16", "f16", "f8e4m3"] {
        let their: HashMap<_, _> = theirs::safetensors::load(file("f32"), &theirs::Device::Cpu).unwrap();
        let our: HashMap<_, _> = ours::safetensors::load(file("f32"), &ours::Device::Cpu).unwrap();
        let their: HashMap<_, _> = their.into_iter().map(|(name, t)| (name, t.to_dtype(to.parse().unwrap()).unwrap())).collect();
        let our: HashMap<_, _> = our.into_iter().map(|(name, t)| (name, t.to_dtype(to.parse().unwrap()).unwrap())).collect();
        theirs::safetensors::save(&their, file("theirs")).unwrap();
        ours::safetensors::save(&our, file("ours")).unwrap();
        let (a, b) = (std::fs::read(file("theirs")).unwrap(), std::fs::read(file("ours")).unwrap());
        assert_eq!(a, b, "the model in {to}");
        println!("a model of {} tensors, loaded, cast to {to} and saved: the same {} bytes", weights.len(), a.len());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// How much longer theirs takes than ours.
fn ratio(pair: &Pair, to: &str) -> f64 {
    let (their, our): (theirs::DType, ours::DType) = (to.parse().unwrap(), to.parse().unwrap());
    turns::ratio(
        pair.ours.elem_count(),
        || black_box(&pair.theirs).to_dtype(their).unwrap(),
        || black_box(&pair.ours).to_dtype(our).unwrap(),
    )
}

fn bench() {
    println!("| cast | 512 | 65,536 | 256 x 256, transposed | 4,194,304 |\n|---|---|---|---|---|");
    for from in NAMES {
        for to in NAMES.into_iter().filter(|&to| to != from && ends(from, to)) {
            let transposed = tensor(from, &[256, 256]).view(|t| t.t(), |t| t.t());
            let ratios = [
                ratio(&tensor(from, &[512]), to),
                ratio(&tensor(from, &[65536]), to),
                ratio(&transposed, to),
                ratio(&tensor(from, &[1 << 22]), to),
            ];
            println!("| {from} to {to} | {} |", ratios.map(|ratio| format!("{ratio:.2}")).join(" | "));
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bits") => {
            compare();
            model();
        }
        Some("bench") => bench(),
        _ => panic!("bits or bench"),
    }
}
