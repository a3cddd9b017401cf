//! The plan of a conversion: what becomes of each tensor, and which files the result has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use globset::{Glob, GlobSet, GlobSetBuilder};
use lanecast::scaled::{Profile, ScaleLayout, ScaleRule, Scaling, TensorScale};
use lanecast::{DType, Packing};
use safetensors::Dtype;
use serde::{Serialize, Serializer};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::args::{Convert, Rule, Switch};
use crate::checkpoint::{Checkpoint, Name, Shape, Shapes, Tensor, hex};
use crate::config;
use crate::defaults;
use crate::dtypes;
use crate::error::{Failure, Kind, Result, suggestion};
use crate::header;
use crate::layout::{self, Format, Layout, Recognised, Role, Weight};
use crate::out::{self, count, parse_size};
use crate::tile;

/// The name of a dtype in the report.
pub(crate) fn label(dtype: Dtype) -> String {
    dtype.to_string().to_lowercase()
}

/// The source of a job.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Plain(Arc<Tensor>),
    Scaled(Arc<Weight>, Arc<Tensor>, Arc<Tensor>),
}

impl Input {
    pub(crate) fn main(&self) -> &Tensor {
        match self {
            Self::Plain(tensor) | Self::Scaled(_, tensor, _) => tensor,
        }
    }

    /// The files that it lies in.
    fn files(&self, it: &Checkpoint) -> BTreeSet<usize> {
        let mut files = BTreeSet::from([self.main().shard]);
        if let Self::Scaled(weight, _, scales) = self {
            let Weight { global, zero_points, group_of_input, others, .. } = &**weight;
            let others = [global, zero_points, group_of_input].into_iter().flatten().chain(others);
            files.extend(others.map(|name| it.tensors[name].shard).chain([scales.shard]));
        }
        files
    }

    /// The name of the dtype or layout in the report.
    fn label(&self) -> String {
        match self {
            Self::Plain(tensor) => label(tensor.dtype),
            Self::Scaled(weight, ..) => weight.layout.name().to_owned(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Plain(tensor) => tensor.len,
            Self::Scaled(_, codes, scales) => codes.len + scales.len,
        }
    }
}

/// What a job does with its source.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    Copy,
    Cast(DType),
    Quantise(Target),
}

impl Output {
    /// Returns [`Target::group`] of an output that is quantised.
    pub(crate) fn group(&self) -> Option<usize> {
        if let Self::Quantise(target) = self { target.group } else { None }
    }
}

/// How a weight is quantised.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) layout: Layout,
    pub(crate) format: Arc<Format>,
    /// Whether the matrix is transposed first, as for gpt-oss.
    pub(crate) transposed: bool,
    /// For a scale or factor of the whole tensor: the number of the group of tensors that share a largest magnitude.
    pub(crate) group: Option<usize>,
    /// Whether the only scale is that of the whole tensor.
    pub(crate) of_tensor: bool,
    /// Whether the tensor has a factor beside the scales of its blocks.
    pub(crate) global: bool,
    /// Whether codes and scales are copied: the source has the same, in another order and under other names.
    pub(crate) relabel: bool,
}

impl Target {
    /// Whether a weight already has the codes and scales of this target, in another order.
    fn is_relabelled(&self, weight: &Weight) -> bool {
        let (to, from) = (&self.format, &weight.format);
        let same_blocks = if self.of_tensor {
            matches!(
                weight.layout,
                Layout::Fp8Tensor | Layout::Int8Tensor | Layout::ModeloptFp8 | Layout::ComfyFp8
            )
        } else {
            // With swizzled scales, `block_rows` are the rows of a tile of the stored scales: each row still has scales of its own.
            let of_rows = |format: &Format| {
                format.block_rows == 1 || format.scaling.layout == ScaleLayout::Swizzle32x4x4
            };
            of_rows(to)
                && of_rows(from)
                && to.block_cols == from.block_cols
                && matches!(to.block_cols, 16 | 32)
        };
        same_blocks
            && !self.layout.is_packed()
            && to.elem == from.elem
            && to.scaling.scale_dtype == from.scaling.scale_dtype
            && !(self.transposed || weight.transposed)
    }
}

/// A tensor of the result.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) name: Name,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Shape,
    /// The contents, if the plan knows them.
    pub(crate) bytes: Option<Box<[u8]>>,
    /// The offset of its bytes in the file, set once all tensors of the file are known.
    pub(crate) offset: u64,
}

impl Out {
    fn new(name: impl Into<Name>, dtype: Dtype, shape: Shape) -> Self {
        Self { name: name.into(), dtype, shape, bytes: None, offset: 0 }
    }

    /// A tensor of the same name and shape as one of the source.
    fn like(tensor: &Tensor, dtype: Dtype) -> Self {
        Self::new(tensor.name.clone(), dtype, tensor.shape.clone())
    }
}

/// The conversion of a tensor, or of the tensors of a quantised weight.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: Name,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// The tensors that are written: codes or values, scales, factor; then those whose contents the plan knows.
    pub(crate) outs: Box<[Out]>,
}

impl Job {
    /// Returns the dtype or layout of the source, as the report calls it.
    pub(crate) fn from(&self) -> String {
        self.input.label()
    }

    /// Returns the dtype or layout of the result, as the report calls it.
    pub(crate) fn to(&self) -> String {
        match &self.output {
            Output::Quantise(target) => target.layout.name().to_owned(),
            _ => label(self.outs[0].dtype),
        }
    }
}

/// A file of the result.
#[derive(Debug)]
pub(crate) struct OutShard {
    pub(crate) name: String,
    pub(crate) jobs: Vec<usize>,
    /// Taken out when the file is begun, because with many tensors it is long.
    pub(crate) header: Mutex<Vec<u8>>,
    pub(crate) header_sha256: String,
    pub(crate) bytes: u64,
    /// The files of the source that it is made from.
    pub(crate) sources: BTreeSet<usize>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) jobs: Vec<Job>,
    pub(crate) shards: Vec<OutShard>,
    pub(crate) groups: usize,
    /// The tensors that are not in the result, and what they were.
    pub(crate) dropped: BTreeMap<Name, &'static str>,
    pub(crate) kept: BTreeMap<Name, &'static str>,
    pub(crate) copied: usize,
    /// The floats among the copied tensors that --copy names.
    pub(crate) copied_floats: BTreeSet<Name>,
    /// The layout of the result, if it is quantised.
    pub(crate) layout: Option<(Layout, Arc<Format>)>,
    /// The dtypes of the scales of its quantised weights.
    pub(crate) scales: BTreeSet<Dtype>,
    /// Whether some of its weights are quantised by this conversion.
    pub(crate) anew: bool,
    pub(crate) plain: Option<DType>,
    /// The dtype of floats that are not quantised where others are (`--high`). None: each keeps its own.
    pub(crate) high: Option<DType>,
    pub(crate) hash: String,
    pub(crate) warnings: Vec<String>,
    /// The weights that stay quantised as they are, and their layouts.
    pub(crate) left: BTreeMap<Name, Layout>,
}

fn globs(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let wrong = |error: globset::Error| Failure::usage(format!("pattern '{pattern}': {}", error.kind()));
        set.add(Glob::new(pattern).map_err(wrong)?);
    }
    set.build().map_err(|error| Failure::usage(error.to_string()))
}

/// The patterns of `--keep`, `--only`, `--copy` and `--drop`.
struct Choice {
    keep: GlobSet,
    only: GlobSet,
    copy: GlobSet,
    drop: GlobSet,
}

impl Choice {
    fn of(args: &Convert) -> Result<Self> {
        let (keep, only) = (globs(&args.keep)?, globs(&args.only)?);
        Ok(Self { keep, only, copy: globs(&args.copy)?, drop: globs(&args.drop)? })
    }

    /// Returns the patterns of `--only` that fit a name.
    fn named<'a>(&self, patterns: &'a [String], name: &str) -> Vec<&'a str> {
        self.only.matches(name).into_iter().map(|i| &patterns[i][..]).collect()
    }

    /// Fails with the first problem of a tensor that is neither copied nor dropped. Problems of the whole checkpoint do not count
    /// if all quantised weights are copied and none is made, so that the configuration says of them what it said. A `--from` that fits none does
    /// count.
    fn check(&self, found: &Recognised, to: Option<Layout>) -> Result<()> {
        let settled = |name: &String| self.copy.is_match(name) || self.drop.is_match(name);
        let mut weights = found.weights.values();
        let is_copied = to.is_none()
            && !found.is_other
            && weights.len() > 0
            && weights.all(|weight| self.copy.is_match(&*weight.codes));
        let problem =
            found.problems.iter().find(|problem| !problem.tensor.as_ref().map_or(is_copied, settled));
        problem.map_or(Ok(()), |problem| Err(problem.clone()))
    }
}

/// Returns the patterns that fit no tensor, with their options.
fn idle_patterns<'a>(
    it: &Checkpoint,
    found: &Recognised,
    args: &'a Convert,
) -> Result<Vec<(&'static str, &'a str)>> {
    let mut idle = Vec::new();
    for (option, patterns) in
        [("--keep", &args.keep), ("--only", &args.only), ("--copy", &args.copy), ("--drop", &args.drop)]
    {
        for pattern in patterns {
            let one = globs(std::slice::from_ref(pattern))?;
            let fits = |tensor: &Arc<Tensor>| {
                let logical =
                    found.weights.get(&tensor.name).is_some_and(|weight| one.is_match(&*weight.name));
                logical || one.is_match(&*tensor.name)
            };
            if !it.tensors.values().any(fits) {
                idle.push((option, &pattern[..]));
            }
        }
    }
    Ok(idle)
}

/// Returns the dtype that `--to` names, if it does not name a layout.
fn plain_dtype(args: &Convert, layout: Option<Layout>) -> Result<Option<DType>> {
    if layout.is_some() {
        return Ok(None);
    }
    let written = Layout::ALL.into_iter().filter(|layout| !layout.is_read_alone());
    let layouts: Vec<&str> = written.map(Layout::name).collect();
    let dtype = dtypes::parse(&args.to, &layouts)?;
    if !dtypes::in_file(dtype).is_some_and(dtypes::is_float) {
        return Err(Failure::usage(format!("--to {}: not a float dtype that safetensors has", args.to))
            .help(format!(
                "a dtype (bf16, f16, f32, f64, e4m3, e5m2), or a layout: {}",
                dtypes::those_with(&args.to, &layouts)
            )));
    }
    Ok(Some(dtype))
}

/// Returns the dtype of floats that are not quantised. None for `--high same`.
fn high_dtype(args: &Convert) -> Result<Option<DType>> {
    let high = match &args.high[..] {
        "same" => None,
        name => Some(dtypes::parse(name, &["same"])?),
    };
    if high.is_some_and(|high| !matches!(high, DType::BF16 | DType::F16 | DType::F32)) {
        return Err(Failure::usage(format!("--high {}: not a dtype for floats that stay floats", args.high))
            .help("one of same, bf16, f16, f32"));
    }
    Ok(high)
}

/// The dtype of most floats of the source, by their bytes; narrow floats do not count.
fn model_dtype(it: &Checkpoint) -> Dtype {
    let mut bytes: BTreeMap<Dtype, u64> = BTreeMap::new();
    for tensor in it.tensors.values().filter(|t| dtypes::is_float(t.dtype) && !dtypes::is_narrow(t.dtype)) {
        *bytes.entry(tensor.dtype).or_default() += tensor.len;
    }
    bytes.iter().max_by_key(|(_, bytes)| **bytes).map_or(Dtype::F32, |(&dtype, _)| dtype)
}

fn profile(name: &str) -> Result<Profile> {
    const ALL: [(&str, Profile); 11] = [
        ("lanecast", Profile::Lanecast),
        ("ocp", Profile::Ocp),
        ("onnx", Profile::Onnx),
        ("torchao", Profile::Torchao),
        ("modelopt", Profile::Modelopt),
        ("compressed-tensors", Profile::CompressedTensors),
        ("hf-fp8", Profile::HfFp8),
        ("comfy", Profile::Comfy),
        ("gpt-oss", Profile::GptOss),
        ("f32", Profile::F32),
        ("output", Profile::Output),
    ];
    let found = ALL.iter().find(|(known, _)| *known == name).map(|&(_, profile)| profile);
    found.ok_or_else(|| {
        let error = Failure::usage(format!("no profile is called '{name}'"));
        let close = suggestion(name, ALL.map(|(name, _)| name));
        error.help(close.map_or_else(
            || format!("one of {}", ALL.map(|(n, _)| n).join(", ")),
            |close| format!("did you mean '{close}'?"),
        ))
    })
}

const fn rule(rule: Rule) -> ScaleRule {
    match rule {
        Rule::Amax => ScaleRule::Amax,
        Rule::Floor => ScaleRule::Floor,
        Rule::Ceil => ScaleRule::Ceil,
        Rule::Even => ScaleRule::Even,
        Rule::RoundUp => ScaleRule::RoundUp,
    }
}

/// Returns the name of a layout in the markers of comfy-kitchen.
const fn comfy_format(layout: Layout) -> Option<&'static str> {
    match layout {
        Layout::ComfyFp8 => Some("float8_e4m3fn"),
        Layout::ComfyNvfp4 => Some("nvfp4"),
        Layout::ComfyMxfp8 => Some("mxfp8"),
        _ => None,
    }
}

/// Returns a name that is common to tensors that engines fuse, and that therefore need one factor.
pub(crate) fn fused(name: &str) -> String {
    for (parts, whole) in [
        (&["q_proj", "k_proj", "v_proj"][..], "qkv_proj"),
        (&["gate_proj", "up_proj"], "gate_up_proj"),
        (&["w1", "w3"], "w13"),
    ] {
        for part in parts {
            if let Some(module) = name.strip_suffix(&format!(".{part}.weight")) {
                return format!("{module}.{whole}.weight");
            }
        }
    }
    name.to_owned()
}

/// Returns the columns of a group of int4-group and int8-group: those of `--group-size`, those that most weights of the source have, or
/// 128. 0 stands for whole rows.
fn group_size(args: &Convert, found: &Recognised, layout: Option<Layout>) -> Result<usize> {
    // Weights whose groups are whole rows (0) count only if there are no others: they say nothing of the groups of longer rows.
    let of_source = || {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for weight in found.weights.values().filter(|weight| weight.layout.is_packed()) {
            *sizes.entry(weight.format.block_cols).or_default() += 1;
        }
        let most = sizes.iter().max_by_key(|&(&size, &n)| (size > 0, n, Reverse(size)));
        most.map_or(128, |(&size, _)| size)
    };
    match args.group_size {
        Some(size) if !layout.is_some_and(Layout::is_packed) => Err(Failure::usage(format!(
            "--group-size {size}: --to {} has no groups of a chosen size",
            args.to
        ))
        .help("only int4-group and int8-group have: --to int4-group")),
        Some(size) if size == 0 || !size.is_multiple_of(8) => {
            Err(Failure::usage(format!("--group-size {size}: not a positive multiple of 8"))
                .help("32 or 128, for example"))
        }
        size => Ok(size.unwrap_or_else(of_source)),
    }
}

/// Returns the rows and columns of a block of fp8-block: those that all weights of the source have, or 128 x 128.
fn block_size(found: &Recognised) -> [usize; 2] {
    let weights = found.weights.values().filter(|weight| weight.layout == Layout::Fp8Block);
    let blocks: BTreeSet<_> =
        weights.map(|weight| [weight.format.block_rows, weight.format.block_cols]).collect();
    if blocks.len() == 1 { blocks.into_iter().next().expect("one") } else { [128, 128] }
}

struct Planner<'a> {
    it: &'a Checkpoint,
    args: &'a Convert,
    profile: Profile,
    layout: Option<Layout>,
    /// The columns of a group of int4-group and int8-group.
    group_size: usize,
    /// The rows and columns of a block of fp8-block.
    block_size: [usize; 2],
    choice: Choice,
    /// The dtype of floats that are not quantised.
    high: Option<DType>,
    /// The dtype of most floats of the source, by their bytes; narrow floats do not count.
    model: Dtype,
    groups: BTreeMap<String, usize>,
    /// For tensors that engines fuse, by their common name: the name of one, and the bits of their factors. None is the one factor that is
    /// found for those that keep none of their own.
    factors: BTreeMap<String, (Name, BTreeSet<Option<u32>>)>,
    shapes: Shapes,
    /// The format of the layout, shared by all targets.
    format: Option<Arc<Format>>,
    /// The dtypes from which quantising to the format was tried.
    tried: Vec<DType>,
    /// The first error of a weight that stays and cannot lie beside new ones, if there are new ones.
    beside: Option<Failure>,
}

/// Whether a layout has scales of groups along rows.
const fn has_groups(layout: Layout) -> bool {
    use Layout::*;
    matches!(
        layout,
        Mxfp8 | Mxfp4 | Nvfp4 | ModeloptNvfp4 | GptOss | ComfyNvfp4 | ComfyMxfp8 | Int4Group | Int8Group
    )
}

/// Returns the dtype of a layout's codes, its scaling, and the rows and columns of its blocks. `group` is the group size of packed
/// integers, `block` the block size of fp8-block.
fn form(layout: Layout, scale: DType, group: usize, block: [usize; 2]) -> (DType, Scaling, [usize; 2]) {
    use Layout::*;
    let per_row = Scaling::blocks(&[1, 0], scale);
    match layout {
        Fp8Block => (DType::F8E4M3FN, Scaling::blocks(&block, scale), block),
        Fp8Channel => (DType::F8E4M3FN, per_row, [1, 0]),
        Int8Channel => (DType::I8, per_row, [1, 0]),
        Int8Tensor => (DType::I8, Scaling::per_tensor(scale), [1, 0]),
        Fp8Tensor | ModeloptFp8 | ComfyFp8 => (DType::F8E4M3FN, Scaling::per_tensor(scale), [1, 0]),
        Mxfp8 => (DType::F8E4M3FN, Scaling::mx(), [1, 32]),
        Mxfp4 | GptOss => (DType::F4E2M1, Scaling::mx(), [1, 32]),
        Nvfp4 | ModeloptNvfp4 => (DType::F4E2M1, Scaling::nvfp4(), [1, 16]),
        // AWQ and GPTQ are only read, never written.
        Int8Group if group == 0 => (DType::I8, per_row, [1, 0]),
        Int8Group => (DType::I8, Scaling::blocks(&[group], scale), [1, group]),
        Int4Group | Awq | Gptq if group == 0 => (DType::I4, per_row, [1, 0]),
        Int4Group | Awq | Gptq => (DType::I4, Scaling::blocks(&[group], scale), [1, group]),
        ComfyNvfp4 => (DType::F4E2M1, Scaling::nvfp4().layout(ScaleLayout::Swizzle32x4x4), [128, 16]),
        ComfyMxfp8 => (DType::F8E4M3FN, Scaling::mx().layout(ScaleLayout::Swizzle32x4x4), [128, 32]),
    }
}

/// The beginning of a help that ends with a pattern.
const KEEP: &str = "leave it as it is, with --keep ";

/// Returns a pattern that fits the tensors of this name in every layer: what is wrong with one is wrong with all.
fn in_every_layer(name: &str) -> String {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match name.split('.').rev().take_while(|part| !is_number(part)).collect::<Vec<_>>() {
        rest if rest.len() < name.split('.').count() => {
            format!("*.{}", rest.into_iter().rev().collect::<Vec<_>>().join("."))
        }
        _ => name.to_owned(),
    }
}

/// Checks that rows and columns divide into whole groups, if the layout requires it.
fn check_groups(
    layout: Layout,
    name: &str,
    shape: &[usize],
    [block_rows, block_cols]: [usize; 2],
) -> Result<()> {
    let columns = *shape.last().unwrap_or(&1);
    let rows = shape.iter().rev().nth(1).copied().unwrap_or(1);
    // Where a group is a whole row of packed integers, its columns must fill int32 numbers of eight codes, or four.
    let groups = has_groups(layout).then_some(if block_cols == 0 { 8 } else { block_cols });
    if let Some(group) = groups.filter(|&group| !columns.is_multiple_of(group)) {
        let what =
            format!("{shape:?}: {columns} columns are not a multiple of {group}, as {} needs", layout.name());
        return Err(Failure::refused(what)
            .tensor(name)
            .help(format!("{KEEP}'{}'", in_every_layer(&globset::escape(name)))));
    }
    if let Some(group) = groups.filter(|&group| block_rows > 1 && !rows.is_multiple_of(group)) {
        let what =
            format!("{shape:?}: {rows} rows are not a multiple of {group}, as {} needs", layout.name());
        return Err(Failure::refused(what)
            .tensor(name)
            .help(format!("{KEEP}'{}'", in_every_layer(&globset::escape(name)))));
    }
    Ok(())
}

/// Returns the shape that the scales of a matrix have in the file.
fn scale_shape(layout: Layout, scaling: &Scaling, name: &str, shape: &[usize]) -> Result<Vec<usize>> {
    use Layout::*;
    let misfit = |error: lanecast::scaled::Error| Failure::refused(error.to_string()).tensor(name);
    Ok(match layout {
        Fp8Tensor | Int8Tensor => vec![1],
        ModeloptFp8 | ComfyFp8 => Vec::new(),
        // Padded to whole tiles.
        ComfyNvfp4 | ComfyMxfp8 => {
            let rows = shape.iter().rev().nth(1).copied().unwrap_or(1).next_multiple_of(128);
            vec![rows, scaling.scale_bytes(shape).map_err(misfit)? / rows]
        }
        _ => scaling.scale_shape(shape).map_err(misfit)?,
    })
}

impl Planner<'_> {
    /// Whether a weight has other blocks than the result, whose configuration describes all, or zero points, which are never written.
    fn has_other_groups(&self, weight: &Weight) -> bool {
        let block = [weight.format.block_rows, weight.format.block_cols];
        if weight.layout == Layout::Fp8Block {
            return block != self.block_size;
        }
        let columns = match weight.format.block_cols {
            0 if self.group_size > 0 => *weight.shape.last().unwrap_or(&0),
            columns => columns,
        };
        weight.layout.is_packed() && (columns != self.group_size || weight.zero_points.is_some())
    }

    /// Returns the format of a weight that stays in the result, with the group size that the configuration states for all.
    fn format_of(&self, weight: &Weight) -> Arc<Format> {
        let mut format = weight.format.clone();
        if weight.layout.is_packed() {
            format.block_cols = self.group_size;
        }
        format.into()
    }

    /// Returns the name under which the configuration of the result lets loaders look for the scales of a weight that stays. The source may
    /// have another configuration.
    fn scale_name(&self, weight: &Weight) -> Option<Name> {
        use Layout::*;
        let layout = self.layout.filter(|&layout| layout == weight.layout)?;
        let last = match layout {
            Fp8Block => "weight_scale_inv",
            ModeloptFp8 | ModeloptNvfp4 => "weight_scale",
            _ if layout.is_of_compressed_tensors() => "weight_scale",
            _ => return None,
        };
        let codes = weight.codes.strip_suffix("_packed").unwrap_or(&weight.codes);
        Some(format!("{}{last}", codes.strip_suffix("weight")?).into())
    }

    /// Returns the dtype of scales: that of `--scale-dtype`, or the one that loaders of the layout expect.
    fn scale_dtype(&self, layout: Layout) -> Result<DType> {
        use Layout::*;
        Ok(match (&self.args.scale_dtype, layout) {
            (Some(name), _) if has_groups(layout) && !layout.is_packed() => {
                return Err(Failure::usage(format!(
                    "--scale-dtype {name}: the scales of {} have a fixed dtype; leave the option out",
                    layout.name()
                )));
            }
            (Some(name), _) => {
                let scale = dtypes::parse(name, &[])?;
                let fits = match scale {
                    DType::F32 | DType::BF16 => true,
                    DType::F16 => layout != Fp8Block,
                    // For other layouts, no configuration says that scales are powers of two.
                    DType::F8E8M0 => layout == Fp8Block,
                    _ => false,
                };
                if !fits {
                    let known =
                        if layout == Fp8Block { "one of f32, bf16, e8m0" } else { "one of f32, bf16, f16" };
                    return Err(Failure::usage(format!(
                        "--scale-dtype {name}: no loader of {} reads it",
                        layout.name()
                    ))
                    .help(known));
                }
                scale
            }
            (None, Fp8Channel | Fp8Tensor | Int8Channel | Int8Tensor | Int4Group | Int8Group)
                if self.model == Dtype::BF16 =>
            {
                DType::BF16
            }
            // Kernels for these layouts take scales of the model's dtype.
            (None, Int4Group | Int8Group) if self.model == Dtype::F16 => DType::F16,
            (None, Mxfp4 | Mxfp8 | GptOss | ComfyMxfp8) => DType::F8E8M0,
            (None, Nvfp4 | ModeloptNvfp4 | ComfyNvfp4) => DType::F8E4M3FN,
            (None, _) => DType::F32,
        })
    }

    /// Returns the number of a tensor's group, which tensors that engines fuse share.
    fn group(&mut self, layout: Layout, name: &Name, global: bool) -> usize {
        let next = self.groups.len();
        let key = if global && self.fuses(layout) { fused(name) } else { name.to_string() };
        *self.groups.entry(key).or_insert(next)
    }

    /// Whether tensors that engines fuse get one factor in a layout.
    fn fuses(&self, layout: Layout) -> bool {
        matches!(layout, Layout::Nvfp4 | Layout::ModeloptNvfp4) && self.args.fuse == Switch::On
    }

    /// Notes which factor a weight of the result has: its own, if it keeps that of the source (`own`), or one that is found.
    fn note_factor(&mut self, layout: Layout, name: &Name, own: Option<&Weight>) {
        let key = fused(name);
        if !self.fuses(layout) || key == **name {
            return;
        }
        let factor = own.and_then(|weight| match weight.format.scaling.tensor_scale {
            TensorScale::Multiply(factor) | TensorScale::Divide(factor) => Some(factor.to_bits()),
            _ => None,
        });
        let new = || (name.clone(), BTreeSet::new());
        self.factors.entry(key).or_insert_with(new).1.insert(factor);
    }

    /// Checks that the rule and the profile can quantise elements of a dtype.
    fn try_out(&mut self, target: &Target, from: DType) -> Result<()> {
        if self.tried.contains(&from) {
            return Ok(());
        }
        self.tried.push(from);
        tile::try_out(target, from).map_err(|failure| self.of_options(target.layout.name(), failure))
    }

    /// Returns the error of a rule or profile that cannot do what is asked for.
    fn of_options(&self, what: &str, failure: Failure) -> Failure {
        let option = if self.args.scale_rule.is_some() { "--scale-rule" } else { "--profile" };
        Failure::usage(format!("{what}: {}", failure.message))
            .help(format!("use another {option}, or leave it out"))
    }

    /// Returns how a matrix is quantised to a layout, and the tensors that it becomes.
    fn target(&mut self, layout: Layout, name: &Name, shape: &[usize]) -> Result<(Target, Vec<Out>)> {
        use Layout::*;
        let scale = self.scale_dtype(layout)?;
        let (elem, mut scaling, [block_rows, block_cols]) =
            form(layout, scale, self.group_size, self.block_size);
        scaling = scaling.profile(self.profile);
        if let Some(chosen) = self.args.scale_rule {
            scaling = scaling.rule(rule(chosen));
        }
        // The shape of the matrix that is quantised, after a transposition.
        let mut shape = shape.to_vec();
        if layout == GptOss {
            let n = shape.len();
            shape.swap(n - 2, n - 1);
        }
        let columns = *shape.last().unwrap_or(&1);
        check_groups(layout, name, &shape, [block_rows, block_cols])?;
        let of_tensor = matches!(layout, Fp8Tensor | Int8Tensor | ModeloptFp8 | ComfyFp8);
        let global = matches!(layout, Nvfp4 | ModeloptNvfp4 | ComfyNvfp4);
        let group = (of_tensor || global).then(|| self.group(layout, name, global));
        // Names such as `in_proj_weight` are those of no module: scales beside them would not be recognised.
        let module = name.strip_suffix("weight").filter(|module| module.is_empty() || module.ends_with('.'));
        let near = |last: &str| match module {
            Some(module) => Ok(format!("{module}{last}")),
            None => Err(Failure::refused(format!("{} needs a name that ends in '.weight'", layout.name()))
                .tensor(name)
                .help(format!("{KEEP}'{}'", in_every_layer(&globset::escape(name))))),
        };
        let scale_shape = scale_shape(layout, &scaling, name, &shape)?;
        let scale_file = match scale {
            DType::F8E8M0 if layout != Fp8Block => Dtype::U8,
            _ => dtypes::in_file(scale).ok_or_else(|| {
                Failure::usage(format!("--scale-dtype {scale}: safetensors does not have it"))
            })?,
        };
        // Two floats of 4 bits are stored in a byte, and eight or four packed integers in an int32.
        let (codes, each) = match elem {
            DType::F4E2M1 => (Dtype::U8, 2),
            DType::I4 => (Dtype::I32, 8),
            DType::I8 if layout.is_packed() => (Dtype::I32, 4),
            _ => (dtypes::in_file(elem).expect("8 bits"), 1),
        };
        let stored: Vec<u8> = shape.iter().flat_map(|&n| (n as u64).to_le_bytes()).collect();
        let dims = shape.len();
        let mut code_shape = shape;
        *code_shape.last_mut().expect("a matrix") /= each;
        let (code_name, scale_name) = match layout {
            Fp8Block => (name.clone(), format!("{name}_scale_inv")),
            Mxfp4 | Nvfp4 | Int4Group | Int8Group => (near("weight_packed")?.into(), near("weight_scale")?),
            GptOss => {
                *code_shape.last_mut().expect("a matrix") = columns / 32;
                code_shape.push(16);
                (format!("{name}_blocks").into(), format!("{name}_scales"))
            }
            _ => (name.clone(), near("weight_scale")?),
        };
        let mut outs = vec![
            Out::new(code_name, codes, self.shapes.of(&code_shape)),
            Out::new(scale_name, scale_file, self.shapes.of(&scale_shape)),
        ];
        if layout == Nvfp4 {
            outs.push(Out::new(near("weight_global_scale")?, Dtype::F32, self.shapes.of(&[1])));
            scaling = scaling.tensor_scale(TensorScale::ComputeDivide);
        } else if global {
            outs.push(Out::new(near("weight_scale_2")?, Dtype::F32, self.shapes.of(&[])));
            scaling = scaling.tensor_scale(TensorScale::ComputeMultiply);
        }
        if layout.is_packed() {
            let of = Out::new(near("weight_shape")?, Dtype::I64, self.shapes.of(&[dims]));
            outs.push(Out { bytes: Some(stored.into()), ..of });
        }
        if let Some(format) = comfy_format(layout) {
            let bytes = json!({ "format": format }).to_string().into_bytes();
            let marker = Out::new(near("comfy_quant")?, Dtype::U8, self.shapes.of(&[bytes.len()]));
            outs.push(Out { bytes: Some(bytes.into()), ..marker });
        }
        let packing = if layout == ComfyNvfp4 { Packing::HighFirst } else { Packing::LowFirst };
        let is_biased = layout.is_packed();
        let new = || Format { elem, scaling, packing, is_biased, block_rows, block_cols }.into();
        let format = self.format.get_or_insert_with(new).clone();
        let transposed = layout == GptOss;
        Ok((Target { layout, format, transposed, group, of_tensor, global, relabel: false }, outs))
    }
}

impl Plan {
    pub(crate) fn new(it: &Checkpoint, found: &Recognised, args: &Convert) -> Result<Self> {
        let layout = Layout::named(&args.to);
        let plain = plain_dtype(args, layout)?;
        let high = high_dtype(args)?;
        let choice = Choice::of(args)?;
        choice.check(found, layout)?;
        if let Some(layout) = layout.filter(|layout| layout.is_read_alone()) {
            return Err(Failure::usage(format!(
                "--to {}: this layout is read, but not written",
                layout.name()
            ))
            .help("int4-group also has 4 bits, and transformers and vLLM load it"));
        }
        if let (Some(Layout::GptOss), model) = (layout, defaults::model_type(it))
            && !["", "gpt_oss"].contains(&model)
        {
            return Err(Failure::refused(format!(
                "--to gpt-oss, but config.json says that the model is {model}"
            ))
            .help(
                "that layout has the experts, biases and names of gpt-oss alone; mxfp4 is for every model",
            ));
        }
        let mut planner = Planner {
            it,
            args,
            profile: profile(&args.profile)?,
            layout,
            group_size: group_size(args, found, layout)?,
            block_size: block_size(found),
            choice,
            high,
            model: model_dtype(it),
            groups: BTreeMap::new(),
            factors: BTreeMap::new(),
            shapes: Shapes::default(),
            format: None,
            tried: Vec::new(),
            beside: None,
        };
        let mut plan = Self {
            from: found.label.clone(),
            // The canonical name, so that a run can be resumed under another name of the same layout or dtype.
            to: layout.map(Layout::name).or(plain.map(dtypes::short)).unwrap_or(&args.to).to_owned(),
            jobs: Vec::with_capacity(it.tensors.len()),
            shards: Vec::new(),
            groups: 0,
            dropped: BTreeMap::new(),
            kept: BTreeMap::new(),
            copied: 0,
            copied_floats: BTreeSet::new(),
            layout: None,
            scales: BTreeSet::new(),
            anew: false,
            plain,
            high,
            hash: String::new(),
            warnings: Vec::new(),
            left: BTreeMap::new(),
        };
        let idle = idle_patterns(it, found, args)?;
        // A pattern that fits no tensor may be why one was not left out: the help names such patterns.
        let with_idle = |error: Failure| {
            let idle = idle.iter().map(|(option, pattern)| format!("{option} '{pattern}' matches no tensor"));
            let parts: Vec<_> = error.help.clone().into_iter().chain(idle).collect();
            if parts.is_empty() { error } else { error.help(parts.join("; ")) }
        };
        for tensor in it.tensors.values() {
            if let Err(error) = plan.tensor(&mut planner, found, tensor) {
                return Err(with_idle(planner.beside.unwrap_or(error)));
            }
        }
        if let Some(error) = planner.beside.take().filter(|_| plan.layout.is_some()) {
            return Err(with_idle(error));
        }
        if plan.jobs.is_empty() {
            let what = "no tensor would be written: SRC has none, or --drop matches all of them";
            return Err(Failure::refused(what).help("`lanecast inspect` lists the tensors"));
        }
        plan.check_parts(args, found)?;
        plan.check_lone_codes(&planner, found)?;
        plan.check_modules(it)?;
        plan.name_exponents(found);
        plan.groups = planner.groups.len();
        plan.warnings.extend(idle.iter().map(|(option, pattern)| {
            format!("{option} '{pattern}' matches no tensor; a pattern must match the whole name: '*q_proj*'")
        }));
        if let (Some(layout), true) = (planner.layout, plan.layout.is_none()) {
            let which = match layout {
                Layout::GptOss => "matrices of experts in one tensor of 3 dimensions",
                _ => "matrices whose names end in .weight",
            };
            return Err(plan.none_becomes(args, layout.name(), which));
        }
        let chosen = args.only.len() - idle.iter().filter(|(option, _)| *option == "--only").count();
        if chosen == 0 && !args.only.is_empty() {
            return Err(plan.none_becomes(args, &args.to, "all floats"));
        }
        let shard_size =
            args.shard_size.as_deref().map(|size| parse_size("--shard-size", size)).transpose()?;
        if shard_size.is_some() && !it.is_dir {
            return Err(Failure::usage("--shard-size: SRC is a single file")
                .help("--shard-size divides the tensors of a directory"));
        }
        let asked_for =
            shard_size.is_some() || [&args.keep, &args.only, &args.copy].iter().any(|x| !x.is_empty());
        if !asked_for && plan.jobs.iter().all(|job| matches!(job.output, Output::Copy)) {
            let what = "no tensor is converted: each has that dtype or layout already, or is kept by default";
            plan.warnings.push(what.to_owned());
        }
        plan.warn_of_loaders(&planner);
        plan.files(it, shard_size)?;
        plan.hash = plan.digest(it, args);
        Ok(plan)
    }

    /// Gives scales of fp8-block that are stored as uint8 the dtype that they mean, float8_e8m0, where other scales are floats: loaders
    /// then convert values, and would take the exponents for values.
    fn name_exponents(&mut self, found: &Recognised) {
        let is_block = self.layout.as_ref().is_some_and(|(layout, _)| *layout == Layout::Fp8Block);
        if !is_block || self.scales.len() == 1 || !self.scales.remove(&Dtype::U8) {
            return;
        }
        self.scales.insert(Dtype::F8_E8M0);
        for job in &mut self.jobs {
            if found.roles[&job.input.main().name].0 == Role::Scale && job.outs[0].dtype == Dtype::U8 {
                job.outs[0].dtype = Dtype::F8_E8M0;
            }
        }
    }

    /// Refuses patterns that separate a weight from its scales: nothing reads codes without scales, or scales without codes.
    fn check_parts(&self, args: &Convert, found: &Recognised) -> Result<()> {
        if args.copy.is_empty() && args.drop.is_empty() {
            return Ok(());
        }
        let copied = self.jobs.iter().filter(|job| matches!(job.output, Output::Copy));
        let copied: HashSet<&str> = copied.map(|job| &*job.input.main().name).collect();
        for weight in found.weights.values() {
            let Weight { codes, scales, global, zero_points, group_of_input, .. } = &**weight;
            let others = [global, zero_points, group_of_input].into_iter().flatten();
            let stays = copied.contains(&**codes);
            if let Some(part) = others.chain([scales]).find(|part| copied.contains(&***part) != stays) {
                let what = match stays {
                    true => format!("it is left out, but {codes}, to which it belongs, stays"),
                    false => format!("it is copied, but {codes}, to which it belongs, is not"),
                };
                return Err(Failure::usage(what)
                    .tensor(part)
                    .help(format!("a pattern that matches {codes} takes its scales along")));
            }
        }
        Ok(())
    }

    /// Refuses codes without a scale beside weights that have scales: readers, this program among them, would take the scale for lost.
    /// Tensors that --copy names are taken as they are.
    fn check_lone_codes(&self, planner: &Planner<'_>, found: &Recognised) -> Result<()> {
        if self.layout.is_none() && self.left.is_empty() {
            return Ok(());
        }
        let is_lone = |job: &&Job| {
            !matches!(job.output, Output::Quantise(_))
                && matches!(found.roles[&job.input.main().name], (Role::Weight | Role::Plain, None))
                && layout::are_codes(&job.name, job.outs[0].dtype, &job.outs[0].shape)
                && !(matches!(job.output, Output::Copy) && found.weights.contains_key(&job.name))
                && !planner.choice.copy.is_match(&*job.name)
        };
        let Some(lone) = self.jobs.iter().find(is_lone) else { return Ok(()) };
        let stays = |job: &&Job| matches!(job.output, Output::Copy) && found.weights.contains_key(&job.name);
        let dtype = label(lone.outs[0].dtype);
        let beside = match (self.jobs.iter().find(stays), &self.layout) {
            (Some(left), _) => {
                format!("{}, which stays {}", left.name, found.weights[&left.name].layout.name())
            }
            (None, layout) => {
                format!("others of {}", layout.as_ref().map_or("", |(layout, _)| layout.name()))
            }
        };
        let help = match lone.output {
            Output::Cast(_) => {
                format!("use --to bf16, or leave out the options that keep others {}", self.from)
            }
            _ if dtypes::is_float(lone.outs[0].dtype) => "--high bf16 converts it to bfloat16".to_owned(),
            _ => {
                let pattern = globset::escape(&lone.name);
                format!("--drop '{pattern}', or --copy '{pattern}' if its reader knows what it is")
            }
        };
        let what = format!("{dtype} without a scale, beside {beside}: readers would expect a scale for it");
        Err(Failure::usage(what).tensor(&lone.name).help(help))
    }

    /// Refuses modules of which a part is quantised, where the configuration can only name the whole.
    fn check_modules(&self, it: &Checkpoint) -> Result<()> {
        let is_written = |(layout, _): &(Layout, _)| comfy_format(*layout).is_none();
        let has_names = match &self.layout {
            Some(layout) => it.config.is_some() && is_written(layout),
            None => it.claims().is_some(),
        };
        let Some((float, other)) = config::parted(self).filter(|_| has_names) else { return Ok(()) };
        let what = format!(
            "it would be a float in one module with {other}, which is quantised in the result: config.json names only whole modules"
        );
        let mut help =
            "give both the same: --keep, --only and --copy must match both of them, or neither".to_owned();
        if self.layout.is_some() {
            help += &format!("; --keep '{other}' leaves both floats");
        }
        Err(Failure::usage(what).tensor(float).help(help))
    }

    /// Warns of weights that engines load as one, if only some of them are quantised.
    fn warn_of_parts(&mut self) {
        let whole = |name: &str| {
            let experts = config::experts(name).filter(|_| defaults::is_one_expert(name));
            experts.map_or_else(|| fused(name), str::to_owned)
        };
        let quantised: HashSet<String> = config::quantised(self).map(whole).collect();
        let mut parts = config::floats(self).filter(|job| quantised.contains(&whole(&job.name)));
        if let Some(first) = parts.next() {
            let n = count(1 + parts.count() as u64, "weight");
            self.warnings.push(format!(
                "{n} such as {}: floats, while others that engines load as one with it are quantised (q, k and v; gate and up; the experts of a layer); some engines refuse that",
                first.name
            ));
        }
    }

    /// Returns the error that no tensor becomes what is asked for, with the patterns that fit no tensor, or why the first ones stay.
    fn none_becomes(&self, args: &Convert, to: &str, which: &str) -> Failure {
        const MOST: usize = 3;
        let mut reasons = self.warnings.clone();
        if reasons.is_empty() {
            // The reasons that explain least come last: that a bias is no matrix and, after these, that a tensor is not chosen.
            let mut kept: Vec<_> = self.kept.iter().collect();
            kept.sort_by_key(|(_, why)| (why.starts_with("not in "), why.starts_with("no ")));
            reasons.extend(kept.iter().take(MOST).map(|(name, why)| format!("{name}: {why}")));
            if let more @ 1.. = self.kept.len().saturating_sub(MOST) {
                reasons.push(format!("and {more} more"));
            }
        }
        let what = format!("no tensor would become {to}");
        let what = if reasons.is_empty() { what } else { format!("{what} ({})", reasons.join(", ")) };
        let options = [("--only", &args.only), ("--copy", &args.copy)];
        let given: Vec<_> = options.iter().filter(|(_, it)| !it.is_empty()).map(|(name, _)| *name).collect();
        let without =
            if given.is_empty() { String::new() } else { format!("without {}, ", given.join(" and ")) };
        Failure::refused(what)
            .help(format!("{without}the candidates are {which}; `lanecast inspect` lists all tensors"))
    }

    /// Adds a job that casts a tensor to a dtype, or copies it.
    fn push_plain(&mut self, tensor: &Arc<Tensor>, to: Option<DType>) {
        let dtype = to.map_or(tensor.dtype, |to| dtypes::in_file(to).expect("checked"));
        self.jobs.push(Job {
            name: tensor.name.clone(),
            input: Input::Plain(tensor.clone()),
            output: to.map_or(Output::Copy, Output::Cast),
            outs: [Out::like(tensor, dtype)].into(),
        });
    }

    /// Gives the last job, if it is that of the scales of a weight that stays, the name that loaders of the result look for.
    fn name_scale(&mut self, planner: &Planner<'_>, weight: &Weight, role: Role) {
        if role == Role::Scale
            && let (Some(job), Some(name)) = (self.jobs.last_mut(), planner.scale_name(weight))
        {
            job.outs[0].name = name;
        }
    }

    /// Decides what becomes of a tensor.
    fn tensor(&mut self, planner: &mut Planner<'_>, found: &Recognised, tensor: &Arc<Tensor>) -> Result<()> {
        let (role, of) = &found.roles[&tensor.name];
        // Scales and other companions are chosen by the name of their weight.
        let lead = of.as_ref().unwrap_or(&tensor.name);
        let logical = found.weights.get(lead).map_or(&lead[..], |weight| &weight.name);
        let Choice { keep, only, copy, drop } = &planner.choice;
        let is = |set: &GlobSet| set.is_match(logical) || set.is_match(&**lead);
        if is(copy) || copy.is_match(&*tensor.name) {
            self.copied += 1;
            self.push_plain(tensor, None);
            if let Some(weight) = found.weights.get(lead) {
                self.leave(planner, weight);
                self.name_scale(planner, weight, *role);
            } else if dtypes::is_float(tensor.dtype) {
                self.copied_floats.insert(tensor.name.clone());
            }
            return Ok(());
        }
        if is(drop) || drop.is_match(&*tensor.name) {
            self.dropped.insert(tensor.name.clone(), "--drop");
            return Ok(());
        }
        let left = if is(keep) {
            Some("--keep")
        } else if !only.is_empty() && !is(only) {
            Some("not in --only")
        } else {
            None
        };
        if let Some(weight) = found.weights.get(lead) {
            return self.quantised(planner, weight, (tensor, *role), left);
        }
        if *role == Role::ActivationScale || *role == Role::Marker {
            self.dropped.insert(tensor.name.clone(), role.name());
            return Ok(());
        }
        if !dtypes::is_float(tensor.dtype) || of.is_some() || *role == Role::Scale {
            self.copied += 1;
            self.push_plain(tensor, None);
            return Ok(());
        }
        self.float(planner, tensor, left)
    }

    /// Decides what becomes of a tensor of a quantised weight. `left` is the reason why it stays as it is, if it does.
    fn quantised(
        &mut self,
        planner: &mut Planner<'_>,
        weight: &Arc<Weight>,
        (tensor, role): (&Arc<Tensor>, Role),
        left: Option<&'static str>,
    ) -> Result<()> {
        let args = planner.args;
        let anew =
            args.scale_rule.is_some() || args.scale_dtype.is_some() || planner.profile != Profile::Lanecast;
        let is_there = planner.layout == Some(weight.layout) && !anew && !planner.has_other_groups(weight);
        // Scales of activations that several weights share belong to the first of them.
        if left.is_some() || is_there {
            // A weight that has the layout already is reported as such, even if an option names it: the result is the same.
            let other = left.filter(|_| planner.layout != Some(weight.layout));
            self.kept.insert(tensor.name.clone(), other.unwrap_or("it has that layout"));
            self.leave(planner, weight);
            if planner.layout == Some(weight.layout) && role == Role::Weight {
                planner.note_factor(weight.layout, &weight.name, Some(weight));
                self.layout.get_or_insert_with(|| (weight.layout, planner.format_of(weight)));
            }
            self.push_plain(tensor, None);
            self.name_scale(planner, weight, role);
            return Ok(());
        }
        if role != Role::Weight {
            self.dropped.insert(tensor.name.clone(), role.name());
            return Ok(());
        }
        self.weight(planner, weight, tensor)
    }

    /// Decides what becomes of a tensor of floats. `left` is the reason why it is not quantised, if it is not.
    fn float(
        &mut self,
        planner: &mut Planner<'_>,
        tensor: &Arc<Tensor>,
        mut left: Option<&'static str>,
    ) -> Result<()> {
        let mut to = self.plain;
        let bits = to.map_or(0, |to| tensor.shape.iter().product::<usize>() * to.bits() as usize);
        if !bits.is_multiple_of(8) {
            left = left.or(Some("its elements would not fill whole bytes"));
        }
        if let Some(layout) = planner.layout.filter(|_| left.is_none()) {
            left = defaults::reason(
                planner.it,
                tensor,
                layout,
                &planner.choice.named(&planner.args.only, &tensor.name),
            );
            if left.is_none() {
                let input = Input::Plain(tensor.clone());
                return self.quantise(planner, layout, input, &tensor.name, &tensor.shape);
            }
        }
        if let Some(reason) = left {
            self.kept.insert(tensor.name.clone(), reason);
            to = planner.high;
        }
        match to.filter(|&to| Some(to) != dtypes::of(tensor.dtype)) {
            None => {
                self.copied += usize::from(!self.kept.contains_key(&tensor.name));
                self.push_plain(tensor, None);
            }
            Some(to) => self.push_plain(tensor, Some(to)),
        }
        Ok(())
    }

    /// Lets a weight stay quantised as it is. Notes an error if the result has another layout, because a configuration describes only one.
    fn leave(&mut self, planner: &mut Planner<'_>, weight: &Weight) {
        self.left.insert(weight.name.clone(), weight.layout);
        self.scales.insert(planner.it.tensors[&weight.scales].dtype);
        let error = match planner.layout {
            Some(layout) if layout == weight.layout && planner.has_other_groups(weight) => {
                let other =
                    if layout.is_packed() { "with zero points or other groups" } else { "with other blocks" };
                let both = format!("{} {other} beside the new ones in one result", layout.name());
                Failure::not_there(both)
                    .tensor(&weight.name)
                    .help("convert it, too: --keep and --copy must not match it, and --only, if given, must")
            }
            Some(layout) if layout != weight.layout => {
                let both = format!("{} beside {} in one result", weight.layout.name(), layout.name());
                Failure::not_there(both).tensor(&weight.name).help(
                    "convert it, too (--keep and --copy must not match it, and --only, if given, must), or convert it to bf16 first, and that with --keep: it is a float then",
                )
            }
            _ => return,
        };
        planner.beside.get_or_insert(error);
    }

    fn weight(&mut self, planner: &mut Planner<'_>, weight: &Arc<Weight>, codes: &Arc<Tensor>) -> Result<()> {
        let mut weight = weight.clone();
        let scales = planner.it.tensors[&weight.scales].clone();
        if let Some(to) = self.plain.filter(|_| planner.profile != Profile::Lanecast) {
            let own = Arc::make_mut(&mut weight);
            own.format.scaling = own.format.scaling.profile(planner.profile);
            tile::try_out_dequantising(own, to)
                .map_err(|failure| planner.of_options(own.layout.name(), failure).tensor(&own.name))?;
        }
        let (name, from) = (weight.name.clone(), weight.layout.name());
        let input = Input::Scaled(weight, codes.clone(), scales);
        let (shape, _) = tile::logical(&input);
        let to = match (self.plain, planner.layout) {
            (Some(to), _) => to,
            (None, Some(layout)) if !shape.contains(&0) => {
                return self.quantise(planner, layout, input, &name, &shape);
            }
            // A weight without elements has no scales: it becomes a float, as an empty one of an unquantised source stays one.
            (None, _) => {
                self.kept.insert(name.clone(), "empty");
                self.high.or(dtypes::of(planner.model)).unwrap_or(DType::F32)
            }
        };
        let file = dtypes::in_file(to).expect("checked");
        if file.bitsize() < 8 {
            return Err(Failure::refused(format!("{from} to {to}, a dtype without scales"))
                .tensor(&name)
                .help("the layouts mxfp4 and nvfp4 have 4 bits and scales"));
        }
        let out = Out::new(name.clone(), file, planner.shapes.of(&shape));
        self.jobs.push(Job { name, input, output: Output::Cast(to), outs: [out].into() });
        Ok(())
    }

    /// Adds warnings about what loaders refuse, or read in another way.
    fn warn_of_loaders(&mut self, planner: &Planner<'_>) {
        let it = planner.it;
        if let Some(plain) = self.plain.filter(|dtype| dtype.bits() <= 8 && it.config.is_some()) {
            self.warnings
                .push(format!("config.json keeps its dtype, because loaders do not build models of {plain}"));
        }
        if it.config.is_some() {
            self.warn_of_parts();
        }
        let Some((layout, _)) = &self.layout else { return };
        let (layout, [block_rows, block_cols]) = (*layout, planner.block_size);
        let quantised = || self.jobs.iter().filter(|job| matches!(job.output, Output::Quantise(_)));
        let mut warnings = Vec::new();
        if layout == Layout::ModeloptFp8 {
            warnings.push(
                "no input_scale is written: engines that quantise activations need one from a calibration"
                    .to_owned(),
            );
        }
        let mut apart = planner.factors.values().filter(|(_, factors)| factors.len() > 1);
        if let Some((first, _)) = apart.next() {
            let groups = count(1 + apart.count() as u64, "group");
            warnings.push(format!(
                "weights that engines fuse have different global scales, in {groups}, such as that of {first}: some or all are kept from SRC, and engines use one for all (--scale-rule amax computes all anew)"
            ));
        }
        if layout == Layout::Fp8Block {
            let is_odd = |(&n, block): (&usize, usize)| n > block && n % block != 0;
            let odd = |job: &&Job| job.outs[0].shape.iter().rev().zip([block_cols, block_rows]).any(is_odd);
            let mut odd = quantised().filter(odd);
            if let Some(first) = odd.next() {
                let n = 1 + odd.count() as u64;
                let size = match block_rows == block_cols {
                    true => block_rows.to_string(),
                    false => format!("{block_rows} and {block_cols}"),
                };
                warnings.push(format!(
                    "{} with rows or columns that are not a multiple of {size}, such as {} {:?}: transformers on a CPU refuses them, or takes other blocks (--keep leaves them as they are)",
                    count(n, "weight"),
                    first.name,
                    first.outs[0].shape
                ));
            }
            if quantised().any(|job| job.outs[0].shape.len() == 3) {
                warnings.push("transformers reads experts in one tensor of float8 only on a GPU".to_owned());
            }
        }
        // See docs/convert/serving.md. `experts` in tests/packages.py loads such results, and fails where that changes.
        let experts = match layout {
            Layout::Nvfp4 => "misreads, without an error,",
            Layout::Mxfp8 | Layout::Int8Channel => "does not load",
            _ => "",
        };
        if !experts.is_empty()
            && it.config.is_some()
            && quantised().any(|job| defaults::is_one_expert(&job.name))
        {
            warnings.push(format!(
                "transformers (5.24) {experts} experts of {} that are separate tensors; it loads those of fp8-block, fp8-channel, fp8-tensor, mxfp4 and int4-group correctly",
                layout.name()
            ));
        }
        let is_mx = matches!(layout, Layout::Mxfp4 | Layout::Mxfp8 | Layout::Nvfp4);
        if is_mx && it.config.is_some() && planner.model != Dtype::BF16 && planner.high != Some(DType::BF16) {
            warnings.push(format!(
                "loaders dequantise {} to bfloat16, but most floats of SRC are {}: --high bf16 makes bfloat16 of those that stay floats",
                layout.name(),
                label(planner.model)
            ));
        }
        // Most of a model may be in tensors that are not matrices: its size then hardly changes.
        let kept = self.jobs.iter().map(|job| job.input.main()).filter(|tensor| {
            defaults::is_fused_experts(tensor)
                && self
                    .kept
                    .get(&tensor.name)
                    .is_some_and(|why| *why != "it has that layout" && *why != "--keep")
        });
        let (n, bytes, takes) = kept.fold((0, 0, true), |(n, bytes, takes), tensor| {
            (n + 1, bytes + tensor.len, takes && defaults::takes_experts(it, tensor))
        });
        if n > 0 {
            let kept = format!("kept: {} of experts, {}", count(n, "tensor"), out::bytes(bytes));
            let takes = match defaults::model_type(it) {
                "llama4" | "llama4_text" if layout.is_of_compressed_tensors() => {
                    "; transformers does not find experts in such a result, but does in fp8-block, which keeps them, too"
                }
                _ if takes && layout != Layout::Fp8Block => "; fp8-block quantises them",
                _ => "",
            };
            warnings.push(format!("{kept}; {} quantises only matrices here{takes}", layout.name()));
        }
        self.warnings.extend(warnings);
    }

    fn quantise(
        &mut self,
        planner: &mut Planner<'_>,
        layout: Layout,
        input: Input,
        name: &Name,
        shape: &[usize],
    ) -> Result<()> {
        if let Input::Scaled(weight, ..) = &input
            && layout == Layout::GptOss
        {
            let both = format!("{} to gpt-oss", weight.layout.name());
            return Err(Failure::not_there(both)
                .tensor(name)
                .help("convert it to bf16 first, and that to gpt-oss"));
        }
        // A weight that is quantised already cannot be kept beside another layout: it must become a float first.
        let by_way_of_floats = |mut failure: Failure| {
            if matches!(input, Input::Scaled(..)) && failure.kind == Kind::Refused {
                failure.help = failure.help.map(|help| format!("convert it to bf16 first; then {help}"));
            }
            failure
        };
        let (mut target, outs) = planner.target(layout, name, shape).map_err(by_way_of_floats)?;
        let asked_for = planner.args.scale_rule.is_some() || planner.profile != Profile::Lanecast;
        let mut own = None;
        if let Input::Scaled(weight, ..) = &input
            && !asked_for
            && target.is_relabelled(weight)
        {
            (target.relabel, target.group) = (true, None);
            own = Some(&**weight);
        }
        if !target.relabel {
            let from = match &input {
                Input::Plain(tensor) if !dtypes::is_narrow(tensor.dtype) => dtypes::of(tensor.dtype),
                Input::Plain(_) => Some(DType::F32),
                Input::Scaled(..) => Some(DType::F64),
            };
            planner.try_out(&target, from.expect("a float"))?;
        }
        planner.note_factor(layout, name, own);
        self.layout.get_or_insert_with(|| (layout, target.format.clone()));
        self.scales.insert(outs[1].dtype);
        self.anew = true;
        let (name, output) = (name.clone(), Output::Quantise(target));
        self.jobs.push(Job { name, input, output, outs: outs.into() });
        Ok(())
    }

    /// Divides the jobs into the files of the source, or into files of about `size` bytes. Returns their names, the first source file that
    /// each is made from, and their jobs.
    fn division(&self, it: &Checkpoint, size: Option<u64>) -> Vec<(String, usize, Vec<usize>)> {
        let mut by_source: Vec<Vec<usize>> = vec![Vec::new(); it.shards.len()];
        for (index, job) in self.jobs.iter().enumerate() {
            by_source[job.input.main().shard].push(index);
        }
        let Some(size) = size else {
            let files = by_source.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty());
            return files.map(|(i, jobs)| (it.shards[i].name.clone(), i, jobs)).collect();
        };
        let mut files: Vec<Vec<usize>> = Vec::new();
        let mut full = u64::MAX;
        for index in by_source.into_iter().flatten() {
            let bytes: u64 =
                self.jobs[index].outs.iter().map(|out| header::byte_len(out.dtype, &out.shape)).sum();
            if full.saturating_add(bytes) > size {
                files.push(Vec::new());
                full = 0;
            }
            full += bytes;
            files.last_mut().expect("one was begun").push(index);
        }
        let first = &it.shards[0].name;
        let stem = first.strip_suffix(".safetensors").unwrap_or(first);
        let stem = stem.split("-00").next().unwrap_or(stem);
        let n = files.len();
        let name = |i: usize| {
            if n == 1 {
                format!("{stem}.safetensors")
            } else {
                format!("{stem}-{:05}-of-{n:05}.safetensors", i + 1)
            }
        };
        let all = files.into_iter().enumerate();
        all.map(|(i, jobs)| (name(i), self.jobs[jobs[0]].input.main().shard, jobs)).collect()
    }

    /// Returns what ComfyUI reads in the header of a file of these jobs: the layers that are quantised, and those that stay so.
    fn comfy_layers(&self, it: &Checkpoint, jobs: &[usize]) -> BTreeMap<String, serde_json::Value> {
        let mut layers = BTreeMap::new();
        let comfy = self.layout.as_ref().and_then(|(layout, _)| comfy_format(*layout));
        for job in jobs.iter().map(|&job| &self.jobs[job]) {
            let of = &it.shards[job.input.main().shard].layers;
            let kept = job.name.strip_suffix(".weight").filter(|_| matches!(job.output, Output::Copy));
            layers.extend(kept.and_then(|module| Some((module.to_owned(), of.get(module)?.clone()))));
            if let Some(format) = comfy {
                let made = job.outs.iter().filter_map(|out| out.name.strip_suffix(".comfy_quant"));
                layers.extend(made.map(|module| (module.to_owned(), json!({ "format": format }))));
            }
        }
        layers
    }

    /// Divides the jobs into files, and computes the offsets of all tensors.
    fn files(&mut self, it: &Checkpoint, shard_size: Option<u64>) -> Result<()> {
        let mut taken = HashMap::new();
        for job in &self.jobs {
            for out in &job.outs {
                if let Some(other) = taken.insert(&out.name[..], &job.name[..]) {
                    return Err(Failure::refused(format!(
                        "the result would have it twice: from {other} and from {}",
                        job.name
                    ))
                    .tensor(&out.name)
                    .help("--drop one of them"));
                }
            }
        }
        drop(taken);
        // Pairs of a group and a source file with tensors from which its largest magnitude is found.
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for job in &self.jobs {
            if let Some(group) = job.output.group() {
                groups.extend(job.input.files(it).into_iter().map(|file| (group, file)));
            }
        }
        groups.sort_unstable();
        groups.dedup();
        for (name, source, mut jobs) in self.division(it, shard_size) {
            let mut metadata = it.shards[source].metadata.clone();
            if it.is_dir {
                metadata
                    .get_or_insert_default()
                    .entry("format".to_owned())
                    .or_insert_with(|| "pt".to_owned());
            }
            if let Some(metadata) = &mut metadata {
                metadata.remove("_quantization_metadata");
            }
            let layers = self.comfy_layers(it, &jobs);
            if !layers.is_empty() {
                let text = json!({ "format_version": "1.0", "layers": layers }).to_string();
                metadata.get_or_insert_default().insert("_quantization_metadata".to_owned(), text);
            }
            // Jobs and the tensors that they write, in the order of the file.
            let mut order: Vec<(u32, u8)> = Vec::new();
            let mut sources = BTreeSet::new();
            for &index in &jobs {
                let job = &self.jobs[index];
                sources.extend(job.input.files(it));
                if let Some(group) = job.output.group() {
                    let some = &groups[groups.partition_point(|&(other, _)| other < group)..];
                    sources
                        .extend(some.iter().take_while(|&&(other, _)| other == group).map(|&(_, file)| file));
                }
                order.extend((0..job.outs.len()).map(|out| (index as u32, out as u8)));
            }
            let out = |&(job, out): &(u32, u8)| &self.jobs[job as usize].outs[out as usize];
            order.sort_by(|a, b| {
                let (a, b) = (out(a), out(b));
                b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name))
            });
            let tensors = order.iter().map(|place| {
                let Out { name, dtype, shape, .. } = out(place);
                (&name[..], *dtype, &shape[..])
            });
            let header = header::write(metadata.as_ref(), tensors)?;
            let mut bytes = header.len() as u64;
            for (job, out) in order {
                let out = &mut self.jobs[job as usize].outs[out as usize];
                out.offset = bytes;
                bytes += header::byte_len(out.dtype, &out.shape);
            }
            // In the order of the file, so that it can be hashed while it grows.
            jobs.sort_by_key(|&job| self.jobs[job].outs[0].offset);
            let header_sha256 = hex(&Sha256::digest(&header));
            self.shards.push(OutShard { name, jobs, header: header.into(), header_sha256, bytes, sources });
        }
        Ok(())
    }

    /// Returns the hash of everything that determines the bytes of the result. It is computed without a copy of the plan, which would take
    /// more memory than the plan if there are many tensors.
    fn digest(&self, it: &Checkpoint, args: &Convert) -> String {
        let sources = || it.shards.iter().map(|s| json!([s.name, s.sha256, s.stamp.len]));
        let source = |job: &Job| match &job.input {
            Input::Plain(_) => None,
            Input::Scaled(weight, ..) => {
                Some((weight.layout, weight.format.clone(), weight.bits, weight.less))
            }
        };
        let jobs =
            || self.jobs.iter().map(|job| format!("{:?}", (&job.name, source(job), &job.output, &job.outs)));
        let headers = || self.shards.iter().map(|s| (&s.name, &s.header_sha256));
        let text = (
            env!("CARGO_PKG_VERSION"),
            &self.from,
            &self.to,
            &args.profile,
            Each(sources),
            Each(headers),
            Each(jobs),
        );
        let mut hash = Hash(Sha256::new());
        serde_json::to_writer(&mut hash, &text).expect("a plan is JSON");
        hex(&hash.0.finalize())
    }
}

/// Serialises as a list whose elements are made one after the other.
struct Each<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Hashes what is written to it.
struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
