//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) const JOBS: &str = "\
Examples:
  fp8 in blocks to bf16, for training, CPUs and older GPUs
    lanecast convert DeepSeek-R1 DeepSeek-R1-bf16 --to bf16
  quantised for serving; also mxfp4, nvfp4, int4-group, fp8-channel, ..
    lanecast convert Llama-bf16 Llama-fp8 --to fp8-block
  gpt-oss (mxfp4) to bf16
    lanecast convert gpt-oss-20b gpt-oss-bf16 --to bf16
  fp8 with one scale for each tensor to f16; bf16 to that, for ComfyUI
    lanecast convert t5xxl_fp8_scaled.safetensors t5xxl.safetensors --to f16
    lanecast convert flux.safetensors flux8.safetensors --to comfy-fp8 --keep '*img_in*'
  report what is lost; exit 1 beyond a limit
    lanecast convert model.safetensors out.safetensors --to bf16 --max-rel-error 0.01
  NumPy arrays; the second also writes scales, to emb8.scale.npy
    lanecast cast emb.npy emb16.npy --to f16
    lanecast cast emb.npy emb8.npy --to int8 --scale row
  raw numbers, without a header
    lanecast cast x.bin y.bin --from f32 --to e4m3 --saturate off
  other commands
    lanecast inspect PATH        lanecast verify A B
    lanecast info                lanecast bench

Exit codes: 0 done, 1 a limit was exceeded or a difference found, 2 usage,
  3 the input was refused or DST exists, 4 the system failed, 130 interrupted";

/// Converts model checkpoints between dtypes and quantisation layouts: on a CPU, streamed, verified.
#[derive(Parser, Debug)]
#[command(name = "lanecast", version, before_help = JOBS, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Converts a checkpoint (a file or a directory) to a dtype or a quantisation layout
    Convert(Box<Convert>),
    /// Casts a .npy file, or raw numbers, to another dtype
    Cast(Cast),
    /// Lists what a checkpoint holds, from the headers alone unless --stats or --plot is given
    Inspect(Inspect),
    /// Compares the values of two checkpoints, whatever their layouts
    Verify(Verify),
    /// Shows the CPU, its instruction sets and the one that is used, the dtypes and the layouts
    Info(Info),
    /// Measures the speed of casts relative to memcpy
    Bench(Bench),
    /// Prints completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page of the program, or of one of its commands
    Man {
        /// The command: convert, cast, inspect, .. [default: the whole program]
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
    /// Takes a file for complete if it is recorded as complete and has the recorded size
    State,
    /// Also reads and hashes each file, and compares with the recorded hash
    Hash,
}

#[derive(Args, Debug)]
pub(crate) struct Convert {
    /// A safetensors file, or the directory of a checkpoint
    pub(crate) src: PathBuf,
    /// The file or directory to write: a directory if SRC is one, otherwise a file
    pub(crate) dst: PathBuf,
    /// A dtype for all floats (bf16, f16, f32, f64, e4m3, e5m2, ..), or a layout (fp8-block, mxfp4, nvfp4, int4-group, ..)
    #[arg(long, value_name = "DTYPE|LAYOUT")]
    pub(crate) to: String,
    /// The layout of SRC, if its tensors fit two layouts or config.json contradicts them
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from: String,
    /// Does not convert these tensors (floats among them become --high); the pattern must match the whole name ('*lm_head*'), and
    /// may be given several times
    #[arg(long, value_name = "GLOB")]
    pub(crate) keep: Vec<String>,
    /// Converts only these tensors; the others are treated as with --keep
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Vec<String>,
    /// Copies these tensors byte for byte, with their scales
    #[arg(long, value_name = "GLOB")]
    pub(crate) copy: Vec<String>,
    /// Leaves these tensors out of the result
    #[arg(long, value_name = "GLOB")]
    pub(crate) drop: Vec<String>,
    /// The dtype of floats that stay unconverted, except for --copy: same (each keeps its own), bf16, f16, f32
    #[arg(long, default_value = "same")]
    pub(crate) high: String,
    /// Whose arithmetic to reproduce bit for bit: lanecast (rounds once), f32, torchao, compressed-tensors, ..
    #[arg(long, default_value = "lanecast")]
    pub(crate) profile: String,
    /// How scales are computed from the data
    #[arg(long, value_name = "RULE")]
    pub(crate) scale_rule: Option<Rule>,
    /// The dtype of scales, where the layout leaves a choice: f32, bf16, f16 (not fp8-block), e8m0 (only fp8-block)
    #[arg(long, value_name = "DTYPE")]
    pub(crate) scale_dtype: Option<String>,
    /// How many columns share a scale in int4-group and int8-group, a multiple of 8 [default: as in SRC, or 128]
    #[arg(long, value_name = "N")]
    pub(crate) group_size: Option<usize>,
    /// Gives q, k and v one NVFP4 global scale, and gate and up one, because engines fuse them
    #[arg(long, default_value = "on")]
    pub(crate) fuse: Switch,
    /// Threads, at most 1024 [default, and 0: one for each core, plus two unless SRC and DST are in memory]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// The most memory for all buffers together, such as 64M or 2G
    #[arg(long, default_value = "192M", value_name = "SIZE")]
    pub(crate) memory: String,
    /// The approximate size of output files, such as 5G [default: tensors are divided into files as in SRC]
    #[arg(long, value_name = "SIZE")]
    pub(crate) shard_size: Option<String>,
    /// The number of this process among those that share the work, from 0
    #[arg(long, requires = "of")]
    pub(crate) rank: Option<usize>,
    /// How many processes share the work
    #[arg(long, requires = "rank")]
    pub(crate) of: Option<usize>,
    /// Continues what an interrupted run has left in the directory DST; with --force, starts over if that was another conversion
    #[arg(long, value_name = "BY", num_args = 0..=1, default_missing_value = "state", require_equals = true)]
    pub(crate) resume: Option<Resume>,
    /// Replaces DST if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Shows what each tensor would become, and why; writes nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Does not read back and compare what was written
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Prints the report as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints nothing but warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Progress on stderr: a bar on a terminal (auto), a line for each file (plain), or nothing (none)
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
        _ => Err("a limit is a number that is not negative".to_owned()),
    }
}

#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Exit 1 if the absolute error of an element exceeds X
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_abs_error: Option<f64>,
    /// Exit 1 if the relative error of an element exceeds X
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
    /// A .npy file, or a file of raw numbers, which need --from; - is standard input (raw numbers)
    pub(crate) src: PathBuf,
    /// The file to write: a .npy file if its name ends in .npy, otherwise raw numbers; - is standard output (raw numbers)
    pub(crate) dst: PathBuf,
    /// The dtype of the result: bf16, f16, e4m3, int8, ..
    #[arg(long, value_name = "DTYPE")]
    pub(crate) to: String,
    /// The dtype of raw numbers, or of a .npy file whose dtype NumPy has no name for
    #[arg(long, value_name = "DTYPE")]
    pub(crate) from: Option<String>,
    /// How values are rounded [default: nearest-even; zero for floats to integers without --scale; up for e8m0]
    #[arg(long)]
    pub(crate) rounding: Option<Rounding>,
    /// Whether values too large for a float of 8 bits become its largest value (on) or Inf or NaN (off); no effect on other dtypes
    /// [default: on]
    #[arg(long)]
    pub(crate) saturate: Option<Switch>,
    /// Computes scales from the data, for the whole tensor or for each row, and writes them to a file beside DST
    #[arg(long, default_value = "none")]
    pub(crate) scale: ScaleOf,
    /// Exit 1 if an element would be lost: if it is out of range, or is NaN or Inf where the dtype has none
    #[arg(long)]
    pub(crate) strict: bool,
    /// Replaces DST if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Prints the report as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints nothing but warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// A safetensors file, or the directory of a checkpoint
    pub(crate) path: PathBuf,
    /// The layout, if the tensors fit two layouts or config.json contradicts them
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from: String,
    /// Also reads the data: range, zeros, NaN, Inf, exponents
    #[arg(long)]
    pub(crate) stats: bool,
    /// Draws a histogram of the exponents of a tensor, as SVG or PNG
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(crate) plot: Option<PathBuf>,
    /// The tensor to draw [default: the largest of quantised weights and floats]
    #[arg(long, requires = "plot", value_name = "NAME")]
    pub(crate) tensor: Option<String>,
    /// Another checkpoint that has the tensor, such as the result of a conversion: draws both
    #[arg(long, requires = "plot", value_name = "PATH")]
    pub(crate) beside: Option<PathBuf>,
    /// The layout of the checkpoint of --beside, as --from
    #[arg(long, requires = "beside", default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_beside: String,
    /// Replaces the picture if it exists
    #[arg(long, requires = "plot")]
    pub(crate) force: bool,
    /// Prints all of it as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// A safetensors file, or the directory of a checkpoint
    pub(crate) a: PathBuf,
    /// The file or directory to compare it with
    pub(crate) b: PathBuf,
    /// The layout of A, if its tensors fit two layouts or config.json contradicts them
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_a: String,
    /// The layout of B, as --from-a
    #[arg(long, default_value = "auto", value_name = "LAYOUT")]
    pub(crate) from_b: String,
    /// The float dtype to compare in [default: f64 if a tensor of either side has it, otherwise f32]
    #[arg(long = "as", value_name = "DTYPE")]
    pub(crate) common: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Exit 1 if the root mean square of a tensor's errors is more than X times that of its values
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_rms_error: Option<f64>,
    /// Threads, at most 1024 [default, and 0: one for each core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Prints the differences as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// Prints one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Prints one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}
