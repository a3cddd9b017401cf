//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) const JOBS: &str = "\
Jobs:
  fp8 of blocks, for training, CPUs, older GPUs
    lanecast convert DeepSeek-R1 DeepSeek-R1-bf16 --to bf16
  for serving; or mxfp4, nvfp4, int4-group, fp8-channel
    lanecast convert Llama-bf16 Llama-fp8 --to fp8-block
  blocks and scales of mxfp4
    lanecast convert gpt-oss-20b gpt-oss-bf16 --to bf16
  a scale for each tensor, and back
    lanecast convert t5xxl_fp8_scaled.safetensors t5xxl.safetensors --to f16
    lanecast convert flux.safetensors flux8.safetensors --to comfy-fp8 --keep '*img_in*'
  what is lost; exit 1 beyond
    lanecast convert model.safetensors out.safetensors --to bf16 --max-rel-error 0.01
  embeddings; and emb8.scale.npy
    lanecast cast emb.npy emb16.npy --to f16
    lanecast cast emb.npy emb8.npy --to int8 --scale row
  raw numbers
    lanecast cast x.bin y.bin --from f32 --to e4m3 --saturate off
  and
    lanecast inspect PATH        lanecast verify A B
    lanecast info                lanecast bench

Exit: 0 done, 1 a limit was passed or a difference found, 2 usage,
  3 the input was refused, 4 the system failed, 130 interrupted";

/// Converts model checkpoints between dtypes and quantisation layouts: on a CPU, streamed, verified.
#[derive(Parser, Debug)]
#[command(name = "lanecast", version, before_help = JOBS, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Converts a checkpoint, a file or a directory, to a dtype or a quantisation layout
    Convert(Box<Convert>),
    /// Casts a .npy file, or raw numbers
    Cast(Cast),
    /// Says what a checkpoint holds: from the headers alone, at once
    Inspect(Inspect),
    /// Compares two checkpoints, of whatever layouts
    Verify(Verify),
    /// Names the CPU and what is used of it, the dtypes and the layouts
    Info(Info),
    /// Measures casts beside memcpy
    Bench(Bench),
    /// Prints the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, of the program or of one of its commands
    Man {
        /// convert, cast, inspect, ..
        command: Option<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Progress {
    Auto,
    Plain,
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Rounding {
    NearestEven,
    NearestAway,
    Zero,
    Up,
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ScaleOf {
    None,
    Tensor,
    Row,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Rule {
    Amax,
    Floor,
    Ceil,
    Even,
    RoundUp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Resume {
    /// The sizes of files, as their states say
    State,
    /// Reads and hashes what is there
    Hash,
}

#[derive(Args, Debug)]
pub(crate) struct Convert {
    /// A safetensors file, or a directory
    pub(crate) src: PathBuf,
    /// The file or directory that is written; of the same kind as SRC
    pub(crate) dst: PathBuf,
    /// A dtype for all floats (bf16, f16, f32, f64, e4m3, e5m2, ..), or a layout (fp8-block, mxfp4, nvfp4, int4-group, ..)
    #[arg(long, value_name = "DTYPE|LAYOUT")]
    pub(crate) to: String,
    /// The layout of SRC, where two fit
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from: String,
    /// Tensors that are not quantised; a pattern is of a whole name ('*lm_head*'), and may be given several times
    #[arg(long, value_name = "GLOB")]
    pub(crate) keep: Vec<String>,
    /// Converts these tensors alone; the others stay as they are
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Vec<String>,
    /// Copies these tensors byte for byte, with their scales
    #[arg(long, value_name = "GLOB")]
    pub(crate) copy: Vec<String>,
    /// Leaves these tensors out
    #[arg(long, value_name = "GLOB")]
    pub(crate) drop: Vec<String>,
    /// What floats become that are not quantised: same, bf16, f16, f32
    #[arg(long, default_value = "same")]
    pub(crate) high: String,
    /// Whose bits: lanecast (one rounding), f32, torchao, compressed-tensors, ..
    #[arg(long, default_value = "lanecast")]
    pub(crate) profile: String,
    /// How scales follow from the data
    #[arg(long, value_name = "RULE")]
    pub(crate) scale_rule: Option<Rule>,
    /// The dtype of scales: f32, bf16, e8m0
    #[arg(long, value_name = "DTYPE")]
    pub(crate) scale_dtype: Option<String>,
    /// How many columns share a scale of int4-group and int8-group [default: 128]
    #[arg(long, value_name = "N")]
    pub(crate) group_size: Option<usize>,
    /// One NVFP4 factor for q, k and v, and for gate and up, which engines multiply at once
    #[arg(long, default_value = "on")]
    pub(crate) fuse: Switch,
    /// Threads [default, and 0: as many as cores, and two more where there is a disk]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// The most that all buffers take together
    #[arg(long, default_value = "192M", value_name = "SIZE")]
    pub(crate) memory: String,
    /// The size of output files [default: as those of SRC]
    #[arg(long, value_name = "SIZE")]
    pub(crate) shard_size: Option<String>,
    /// Which of several processes this is, from 0
    #[arg(long, requires = "of")]
    pub(crate) rank: Option<usize>,
    /// How many processes share the work
    #[arg(long, requires = "rank")]
    pub(crate) of: Option<usize>,
    /// Goes on with what an interrupted run has left in a directory; with --force, begins anew if that was another conversion
    #[arg(long, value_name = "BY", num_args = 0..=1, default_missing_value = "state", require_equals = true)]
    pub(crate) resume: Option<Resume>,
    /// Replaces what is at DST
    #[arg(long)]
    pub(crate) force: bool,
    /// Says what would become of each tensor, and why; writes nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Does not read back what was written
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// The report as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints nothing but warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// A bar on a terminal, a line for each file, or nothing
    #[arg(long, default_value = "auto")]
    pub(crate) progress: Progress,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Exit 1 if the result has elements that are NaN, Inf, or saturated (several: nan,inf)
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) fail_on: Vec<FailOn>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FailOn {
    Nan,
    Inf,
    Saturated,
}

fn limit(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("a limit is a number, and not negative".to_owned()),
    }
}

#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Exit 1 if an element is off by more than X
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_abs_error: Option<f64>,
    /// Exit 1 if an element is off by more than X times its value
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_rel_error: Option<f64>,
}

impl Verify {
    pub(crate) const fn has_limits(&self) -> bool {
        self.limits.are_there() || self.max_rms_error.is_some()
    }
}

impl Limits {
    pub(crate) const fn are_there(&self) -> bool {
        self.max_abs_error.is_some() || self.max_rel_error.is_some()
    }
}

#[derive(Args, Debug)]
pub(crate) struct Cast {
    /// A .npy file, or raw numbers, which need --from; -: raw numbers from standard input
    pub(crate) src: PathBuf,
    /// What is made: a .npy file if it is called so, else raw numbers; -: to standard output
    pub(crate) dst: PathBuf,
    /// The dtype that they become: bf16, f16, e4m3, int8, ..
    #[arg(long, value_name = "DTYPE")]
    pub(crate) to: String,
    /// The dtype of raw numbers, or of what NumPy has no name for
    #[arg(long, value_name = "DTYPE")]
    pub(crate) from: Option<String>,
    /// Where a value goes that lies between two of the result [default: nearest-even; zero to integers without --scale; up to e8m0]
    #[arg(long)]
    pub(crate) rounding: Option<Rounding>,
    /// Whether in floats of 8 bits what is too large becomes the largest value [default: on], or Inf or NaN; other dtypes it does not concern
    #[arg(long)]
    pub(crate) saturate: Option<Switch>,
    /// Scales from the data, in a file beside DST
    #[arg(long, default_value = "none")]
    pub(crate) scale: ScaleOf,
    /// Refuses to lose an element (exit 1): one that is out of range, or NaN or Inf where there is none
    #[arg(long)]
    pub(crate) strict: bool,
    /// Replaces what is at DST
    #[arg(long)]
    pub(crate) force: bool,
    /// The report as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints nothing but warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// A safetensors file, or a directory
    pub(crate) path: PathBuf,
    /// The layout, where two fit
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from: String,
    /// Reads the data: range, NaN, Inf
    #[arg(long)]
    pub(crate) stats: bool,
    /// Draws how many elements of a tensor have each exponent, as SVG or PNG
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(crate) plot: Option<PathBuf>,
    /// The tensor that is drawn [default: the largest that is a weight]
    #[arg(long, requires = "plot", value_name = "NAME")]
    pub(crate) tensor: Option<String>,
    /// Another checkpoint that has the tensor: what it was converted to
    #[arg(long, requires = "plot", value_name = "PATH")]
    pub(crate) beside: Option<PathBuf>,
    /// The layout of that one, where two fit
    #[arg(long, requires = "beside", default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_beside: String,
    /// Replaces the picture that is there
    #[arg(long, requires = "plot")]
    pub(crate) force: bool,
    /// All of it as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// A safetensors file, or a directory
    pub(crate) a: PathBuf,
    /// What it is compared with
    pub(crate) b: PathBuf,
    /// The layout of A, where two fit
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_a: String,
    /// The layout of B, where two fit
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_b: String,
    /// What both are converted to [default: f64 if a tensor is, else f32]
    #[arg(long = "as", value_name = "DTYPE")]
    pub(crate) common: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Exit 1 if the root mean square of a tensor's errors is more than X times that of its values
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_rms_error: Option<f64>,
    /// Threads [default, and 0: as many as cores]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// What differs as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// As one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// As one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}
