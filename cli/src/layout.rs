//! Recognises quantised weights and their scales, by the names, dtypes and shapes of tensors.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use lanecast::scaled::{ScaleLayout, Scaling, TensorScale};
use lanecast::{DType, Packing};
use regex::Regex;
use safetensors::Dtype;
use serde_json::{Map, Value};

use crate::checkpoint::{Checkpoint, Name, Tensor};
use crate::dtypes;
use crate::error::{Failure, Result, suggestion};
use crate::out::count;
use crate::packed;

/// How quantised weights are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Layout {
    Fp8Block,
    Fp8Channel,
    Fp8Tensor,
    Int8Channel,
    Int8Tensor,
    Mxfp8,
    Mxfp4,
    Nvfp4,
    ModeloptNvfp4,
    ModeloptFp8,
    GptOss,
    ComfyFp8,
    ComfyNvfp4,
    ComfyMxfp8,
    Int4Group,
    Int8Group,
    Awq,
    Gptq,
}

impl Layout {
    /// Whether the layout is only read: no conversion writes it.
    pub(crate) const fn is_read_alone(self) -> bool {
        matches!(self, Self::Awq | Self::Gptq)
    }

    pub(crate) const ALL: [Self; 18] = [
        Self::Fp8Block,
        Self::Fp8Channel,
        Self::Fp8Tensor,
        Self::Int8Channel,
        Self::Int8Tensor,
        Self::Mxfp8,
        Self::Mxfp4,
        Self::Nvfp4,
        Self::ModeloptNvfp4,
        Self::ModeloptFp8,
        Self::GptOss,
        Self::ComfyFp8,
        Self::ComfyNvfp4,
        Self::ComfyMxfp8,
        Self::Int4Group,
        Self::Int8Group,
        Self::Awq,
        Self::Gptq,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fp8Block => "fp8-block",
            Self::Fp8Channel => "fp8-channel",
            Self::Fp8Tensor => "fp8-tensor",
            Self::Int8Channel => "int8-channel",
            Self::Int8Tensor => "int8-tensor",
            Self::Mxfp8 => "mxfp8",
            Self::Mxfp4 => "mxfp4",
            Self::Nvfp4 => "nvfp4",
            Self::ModeloptNvfp4 => "modelopt-nvfp4",
            Self::ModeloptFp8 => "modelopt-fp8",
            Self::GptOss => "gpt-oss",
            Self::ComfyFp8 => "comfy-fp8",
            Self::ComfyNvfp4 => "comfy-nvfp4",
            Self::ComfyMxfp8 => "comfy-mxfp8",
            Self::Int4Group => "int4-group",
            Self::Int8Group => "int8-group",
            Self::Awq => "awq",
            Self::Gptq => "gptq",
        }
    }

    /// Whether codes are integers packed into int32, under scales of groups of any size.
    pub(crate) const fn is_packed(self) -> bool {
        matches!(self, Self::Int4Group | Self::Int8Group)
    }

    /// Whether the configuration of a result is that of compressed-tensors.
    pub(crate) const fn is_of_compressed_tensors(self) -> bool {
        use Layout::*;
        self.is_packed()
            || matches!(self, Fp8Channel | Fp8Tensor | Int8Channel | Int8Tensor | Mxfp8 | Mxfp4 | Nvfp4)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        Self::named(name).ok_or_else(|| {
            let error = Failure::usage(format!("no layout is called '{name}'"));
            match suggestion(name, Self::ALL.map(Self::name)) {
                Some(close) => error.help(format!("did you mean '{close}'?")),
                None => error.help(format!("one of {}", Self::ALL.map(Self::name).join(", "))),
            }
        })
    }
}

/// The role of a tensor in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Weight,
    Scale,
    GlobalScale,
    ZeroPoint,
    ActivationScale,
    Marker,
    Plain,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Scale => "scale",
            Self::GlobalScale => "global_scale",
            Self::ZeroPoint => "zero_point",
            Self::ActivationScale => "activation_scale",
            Self::Marker => "marker",
            Self::Plain => "plain",
        }
    }
}

/// How codes are scaled.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) elem: DType,
    /// The scaling of a matrix, which is the last two dimensions.
    pub(crate) scaling: Scaling,
    pub(crate) packing: Packing,
    /// Whether integers are stored with half of their range (8 or 128) added.
    pub(crate) is_biased: bool,
    /// The rows of a block.
    pub(crate) block_rows: usize,
    /// The columns of a block; 0 stands for all.
    pub(crate) block_cols: usize,
}

impl Format {
    /// Converts codes as they are stored to integers, or integers to such codes.
    pub(crate) fn unbias(&self, codes: &mut [u8]) {
        if self.is_biased {
            let top = if self.elem == DType::I8 { 0x80 } else { 0x88 };
            codes.iter_mut().for_each(|byte| *byte ^= top);
        }
    }
}

/// What is subtracted from zero points where they are stored, in GPTQ's first format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Less {
    Nothing,
    /// One from each: a zero point of 0 wraps around to the largest.
    One,
    /// These numbers by turns, from the 32-bit words that zero points are packed into: a zero point of 0 borrows from the next one.
    Numbers([u32; 3]),
}

/// A quantised weight.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    pub(crate) layout: Layout,
    /// Its name without quantisation.
    pub(crate) name: Name,
    /// Its shape without quantisation, with the last two dimensions exchanged if it is transposed.
    pub(crate) shape: Vec<usize>,
    pub(crate) codes: Name,
    pub(crate) scales: Name,
    pub(crate) global: Option<Name>,
    /// The zero points of packed integers: one for each scale, packed in the way of the layout.
    pub(crate) zero_points: Option<Name>,
    /// How many bits a code has in the file. For 3, `format` has a dtype of 4.
    pub(crate) bits: u32,
    /// What is subtracted from zero points where they are stored.
    pub(crate) less: Less,
    /// For GPTQ with act-order: the tensor that says to which group each input belongs. `format` then has a scale for every input.
    pub(crate) group_of_input: Option<Name>,
    pub(crate) format: Format,
    /// Whether it is transposed when it is dequantised.
    pub(crate) transposed: bool,
    /// The scales of activations and the markers that belong to it.
    pub(crate) others: Vec<Name>,
}

impl Weight {
    /// Returns the shape of its values without quantisation.
    pub(crate) fn logical(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if let (true, [.., rows, columns]) = (self.transposed, &mut shape[..]) {
            std::mem::swap(rows, columns);
        }
        shape
    }
}

/// What was recognised in a checkpoint.
#[derive(Debug)]
pub(crate) struct Recognised {
    pub(crate) weights: BTreeMap<Name, Arc<Weight>>,
    pub(crate) roles: BTreeMap<Name, (Role, Option<Name>)>,
    pub(crate) label: String,
    pub(crate) because: String,
    pub(crate) problems: Vec<Failure>,
    /// Whether `--from` names a layout that no tensor has.
    pub(crate) is_other: bool,
}

const SCALES: [&str; 5] = ["weight_scale_inv", "weight_scale", "scale_weight", "qscale_weight", "scale"];
const GLOBALS: [&str; 2] = ["weight_global_scale", "weight_scale_2"];
const ACTIVATIONS: [&str; 7] = [
    "input_scale",
    "scale_input",
    "input_global_scale",
    "qscale_act",
    "input_scale_inv",
    "input_scale_ub",
    "activation_scale",
];
/// Scales of caches and of what an attention computes, which belong to no weight.
const CACHES: [&str; 6] = ["k_scale", "v_scale", "kv_scale", "q_scale", "prob_scale", "output_scale"];
const ZERO_POINTS: &str = "weight_zero_point";
/// Modules whose rows are not outputs: GPTQModel packs embeddings without transposing them.
const EMBEDDINGS: [&str; 5] = ["embed_tokens", "word_embeddings", "tok_embeddings", "wte", "shared"];
const MARKERS: [&str; 3] = ["comfy_quant", "weight_shape", "g_idx"];

/// Whether a tensor is called like a scale of a cache of keys and values: older checkpoints have it as that of what their layers put out.
pub(crate) fn is_called_of_cache(name: &str) -> bool {
    let (module, last) = split(name);
    let is_of_keys = || ["k_proj.", "v_proj."].iter().any(|end| module.ends_with(end));
    CACHES[..3].contains(&last) || last == "output_scale" && is_of_keys()
}

/// Splits off the last part of a name: `model.layers.0.weight` -> (`model.layers.0.`, `weight`).
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').map_or(("", name), |(module, _)| name.split_at(module.len() + 1))
}

/// Returns the layouts that a format and strategy of compressed-tensors allow.
fn of_format(format: &str, strategy: Option<&str>) -> Vec<Layout> {
    use Layout::*;
    match (format, strategy) {
        ("float-quantized" | "naive-quantized", Some("block")) => vec![Fp8Block],
        ("float-quantized" | "naive-quantized", Some("channel")) => vec![Fp8Channel],
        ("float-quantized" | "naive-quantized", Some("tensor")) => vec![Fp8Tensor],
        ("float-quantized" | "naive-quantized", _) => vec![Fp8Block, Fp8Channel, Fp8Tensor],
        ("int-quantized", Some("channel")) => vec![Int8Channel],
        ("int-quantized", Some("tensor")) => vec![Int8Tensor],
        ("int-quantized", _) => vec![Int8Channel, Int8Tensor],
        ("mxfp8-quantized", _) => vec![Mxfp8],
        ("mxfp4-pack-quantized", _) => vec![Mxfp4],
        ("nvfp4-pack-quantized", _) => vec![Nvfp4],
        ("pack-quantized", _) => vec![Int4Group, Int8Group],
        _ => Vec::new(),
    }
}

/// Expressions for the beginnings of names of modules, each with a number. There may be one for each module, so only those are tried that
/// may fit.
#[derive(Default)]
struct Expressions {
    all: Vec<(Regex, usize)>,
    /// The expressions by a text that is in all names that they fit.
    by_text: HashMap<String, Vec<usize>>,
    /// The lengths of these texts.
    lengths: BTreeSet<usize>,
    /// The expressions without such a text.
    others: Vec<usize>,
}

impl Expressions {
    /// Reads those among some patterns that are expressions (`re:`), and returns what is wrong with the first that cannot be read.
    fn of<'a>(patterns: impl Iterator<Item = (&'a str, usize)>) -> (Self, Option<Failure>) {
        let (mut read, mut problem) = (Self::default(), None);
        let mut texts = Vec::new();
        for (name, number) in patterns {
            let Some(expression) = name.strip_prefix("re:") else { continue };
            if let Ok(regex) = Regex::new(&format!("^(?:{expression})")) {
                read.all.push((regex, number));
                texts.push(texts_of(expression));
            } else {
                let what = format!("config.json: {name} is not a regular expression that can be read");
                let help = "--from LAYOUT goes by the tensors instead of config.json";
                problem.get_or_insert_with(|| Failure::refused(what).help(help));
            }
        }
        let mut shared: HashMap<&str, usize> = HashMap::new();
        texts.iter().flatten().for_each(|text| *shared.entry(text).or_default() += 1);
        for (i, texts) in texts.iter().enumerate() {
            let Some(text) = texts.iter().min_by_key(|text| shared[&text[..]]) else {
                read.others.push(i);
                continue;
            };
            read.lengths.insert(text.len());
            read.by_text.entry(text.clone()).or_default().push(i);
        }
        (read, problem)
    }

    /// Returns the numbers of the expressions that fit.
    fn fitting(&self, module: &str) -> impl Iterator<Item = usize> {
        let mut tried: BTreeSet<&usize> = self.others.iter().collect();
        for &length in &self.lengths {
            for start in 0..(module.len() + 1).saturating_sub(length) {
                let text = module.get(start..start + length);
                tried.extend(text.and_then(|text| self.by_text.get(text)).into_iter().flatten());
            }
        }
        tried.into_iter().map(|&i| &self.all[i]).filter(|(regex, _)| regex.is_match(module)).map(|&(_, n)| n)
    }
}

/// Returns texts that are in every name that an expression fits: none, if it has more than characters, dots and repetitions.
fn texts_of(expression: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut chars = expression.chars().peekable();
    while let Some(next) = chars.next() {
        let own = match next {
            '\\' => chars.next_if(|next| ".-/".contains(*next)),
            '.' | '*' | '+' | '?' | '^' | '$' => None,
            _ => Some(next).filter(|next| next.is_alphanumeric() || "_-/".contains(*next)),
        };
        if own.is_none() && !".*+?^$".contains(next) {
            return Vec::new();
        }
        // What is repeated may be left out.
        match own.filter(|_| !matches!(chars.peek(), Some('*' | '+' | '?'))) {
            Some(own) => texts.last_mut().expect("one").push(own),
            None => texts.push(String::new()),
        }
    }
    texts.retain(|text| !text.is_empty());
    texts
}

/// Patterns for names of modules, as in compressed-tensors: a whole name, or `re:` and a regular expression for the beginning of a name.
struct Names<'a> {
    whole: HashSet<&'a str>,
    expressions: Expressions,
}

impl<'a> Names<'a> {
    fn of(value: Option<&'a Value>) -> Result<Self> {
        let whole: HashSet<&str> = texts(value).collect();
        let (expressions, problem) = Expressions::of(texts(value).map(|name| (name, 0)));
        problem.map_or(Ok(Self { whole, expressions }), Err)
    }

    fn has(&self, module: &str) -> bool {
        self.whole.contains(module) || self.expressions.fitting(module).next().is_some()
    }
}

/// Returns the texts of a list.
fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The groups of compressed-tensors, each of which says how some modules are quantised.
#[derive(Default)]
struct Groups<'a> {
    all: Vec<Group<'a>>,
    /// The groups that name a module: there may be one for each.
    whole: HashMap<&'a str, Vec<usize>>,
    /// The expressions, with the numbers of their groups.
    expressions: Expressions,
    /// The groups of classes of modules.
    classes: Vec<usize>,
    /// The block sizes of all groups.
    blocks: BTreeMap<String, &'a Value>,
    /// What is wrong with a pattern, if one cannot be read.
    problem: Option<Failure>,
}

struct Group<'a> {
    name: &'a str,
    layouts: Vec<Layout>,
    weights: Option<&'a Value>,
}

impl<'a> Groups<'a> {
    fn of(it: &'a Checkpoint) -> Self {
        let mut groups = Self::default();
        let Some(claim) = it.claims() else { return groups };
        let mut patterns = Vec::new();
        for (name, group) in claim.get("config_groups").and_then(Value::as_object).into_iter().flatten() {
            let format =
                group.get("format").and_then(Value::as_str).or_else(|| claim.get("format")?.as_str());
            let weights = group.get("weights");
            let strategy = weights.and_then(|weights| weights.get("strategy")?.as_str());
            let i = groups.all.len();
            for module in texts(group.get("targets")) {
                patterns.push((module, i));
                groups.whole.entry(module).or_default().push(i);
                // Files do not tell the class of a module, such as `Linear`.
                let is_class = module.chars().next().is_some_and(char::is_uppercase);
                groups.classes.extend((is_class && groups.classes.last() != Some(&i)).then_some(i));
            }
            let block = weights.and_then(|weights| weights.get("block_structure"));
            groups.blocks.extend(block.map(|block| (block.to_string(), block)));
            let layouts = of_format(format.unwrap_or(""), strategy);
            groups.all.push(Group { name, layouts, weights });
        }
        (groups.expressions, groups.problem) = Expressions::of(patterns.into_iter());
        groups
    }

    /// Returns the groups of a module: those that name it go before those that name its class.
    fn of_module(&self, module: &str) -> Vec<&Group<'a>> {
        let whole = self.whole.get(module).into_iter().flatten().copied();
        let mut fits: BTreeSet<usize> = whole.chain(self.expressions.fitting(module)).collect();
        if fits.is_empty() {
            fits.extend(&self.classes);
        }
        fits.into_iter().map(|i| &self.all[i]).collect()
    }

    /// Returns what the groups of a module say of its blocks; if none covers it, what all say.
    fn blocks(&self, module: &str) -> Vec<&'a Value> {
        let fits = self.of_module(module);
        if fits.is_empty() {
            return self.blocks.values().copied().collect();
        }
        fits.iter().filter_map(|group| group.weights?.get("block_structure")).collect()
    }
}

/// Refuses weights that compressed-tensors transformed before it quantised them.
fn check_transforms(it: &Checkpoint) -> Result<()> {
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let transforms = it.claims().and_then(|claim| claim.get("transform_config")?.as_object());
    // An empty list of transformations may be there.
    if transforms.is_none_or(|it| it.iter().all(|(key, value)| key == "config_groups" && is_empty(value))) {
        return Ok(());
    }
    let what = "config.json says that weights are transformed (transform_config)";
    Err(Failure::not_there(what)
        .help("the transformation cannot be undone here; --copy of all of them, with --to a dtype, leaves them as they are"))
}

/// Compares the quantised weights with the configuration of compressed-tensors, which says what modules are quantised, and how.
fn check_groups(it: &Checkpoint, groups: &Groups<'_>, found: &Recognised) -> Result<()> {
    let Some(claim) = it.claims().filter(|claim| claim["quant_method"] == "compressed-tensors") else {
        return Ok(());
    };
    let ignore = Names::of(claim.get("ignore"))?;
    if let Some(problem) = &groups.problem {
        return Err(problem.clone());
    }
    let from = "correct config.json, or go by the tensors with --from LAYOUT";
    for weight in found.weights.values() {
        let module = weight.name.strip_suffix(".weight").unwrap_or(&weight.name);
        let is = weight.layout.name();
        if ignore.has(module) {
            let what = format!("config.json ignores {module}, but its tensors are {is}");
            return Err(Failure::refused(what).tensor(&weight.codes).help(from));
        }
        let fits = groups.of_module(module);
        if !groups.all.is_empty() && fits.is_empty() {
            let what = format!("no group of config.json covers {module}, but its tensors are {is}");
            return Err(Failure::refused(what).tensor(&weight.codes).help(from));
        }
        if !fits.is_empty() && !fits.iter().any(|group| group.layouts.contains(&weight.layout)) {
            let said: Vec<_> =
                fits.iter().flat_map(|group| &group.layouts).map(|layout| layout.name()).collect();
            let said =
                if said.is_empty() { "a format that is not read".to_owned() } else { said.join(" or ") };
            let what = format!("config.json, {}, says {said}, but the tensors are {is}", fits[0].name);
            return Err(Failure::refused(what).tensor(&weight.codes).help(from));
        }
        if let [Group { name, weights: Some(claim), .. }] = fits[..]
            && weight.layout.is_packed()
            && let Some(what) = other_than_claimed(weight, claim)
        {
            let what = format!("config.json, {name}: {what}");
            return Err(Failure::refused(what).tensor(&weight.codes).help(from));
        }
    }
    Ok(())
}

/// Returns in what packed integers differ from their group in the configuration, if they do.
fn other_than_claimed(weight: &Weight, claim: &Value) -> Option<String> {
    let Format { elem, block_cols, .. } = weight.format;
    let columns = *weight.shape.last()?;
    let claimed = |key: &str| claim.get(key).and_then(Value::as_u64);
    if let Some(bits) = claimed("num_bits").filter(|&bits| bits != u64::from(elem.bits())) {
        return Some(format!("num_bits is {bits}, but the codes have {}", elem.bits()));
    }
    // A row that is one group has the same scales as a whole row.
    let group = if block_cols == 0 { columns } else { block_cols } as u64;
    if let Some(claimed) = claimed("group_size").filter(|&claimed| claimed != group) {
        return Some(format!("group_size is {claimed}, but the groups have {group}"));
    }
    let is_symmetric = claim.get("symmetric").and_then(Value::as_bool);
    (is_symmetric == Some(false) && weight.zero_points.is_none())
        .then(|| "symmetric is false, but there is no weight_zero_point".to_owned())
}

/// Returns what the configuration calls its quantisation, and the layouts that it allows.
fn allowed(claim: &Value) -> Option<(String, Vec<Layout>)> {
    use Layout::*;
    let method = claim.get("quant_method").and_then(Value::as_str).unwrap_or("");
    let mut formats = BTreeSet::new();
    if let Some(format) = claim.get("format").and_then(Value::as_str) {
        formats.insert(format);
    }
    if let Some(groups) = claim.get("config_groups").and_then(Value::as_object) {
        formats.extend(groups.values().filter_map(|group| group.get("format")?.as_str()));
    }
    let says = |what: &str| if what.is_empty() { method.to_owned() } else { format!("{method}, {what}") };
    Some(match method {
        "fp8" => (says(""), vec![Fp8Block, Fp8Tensor, Fp8Channel]),
        "awq" => (says(""), vec![Awq]),
        "gptq" => (says(""), vec![Gptq]),
        "fbgemm_fp8" => (says(""), vec![Fp8Channel]),
        "mxfp4" => (says(""), vec![GptOss]),
        "modelopt" => (says(""), vec![ModeloptFp8, ModeloptNvfp4]),
        "compressed-tensors" => {
            let mut all = Vec::new();
            for format in &formats {
                all.extend(of_format(format, None));
            }
            (says(&formats.into_iter().collect::<Vec<_>>().join(", ")), all)
        }
        "" => return None,
        other => (other.to_owned(), Vec::new()),
    })
}

/// What decides between layouts, beside the tensors.
struct Hints<'a> {
    /// The layout that `--from` names.
    from: Option<Layout>,
    modelopt: bool,
    groups: Groups<'a>,
}

/// Recognises the quantised weights of a checkpoint and their scales. `from` decides if two layouts fit.
pub(crate) fn recognise(it: &Checkpoint, from: Option<Layout>) -> Recognised {
    let claim = it.claims().and_then(allowed);
    let modelopt =
        it.quant_config.is_some() || claim.as_ref().is_some_and(|(says, _)| says.starts_with("modelopt"));
    let hints = Hints { from, modelopt, groups: Groups::of(it) };
    let mut found = Recognised {
        weights: BTreeMap::new(),
        roles: BTreeMap::new(),
        label: String::new(),
        because: String::new(),
        problems: Vec::new(),
        is_other: false,
    };
    for tensor in it.tensors.values() {
        match weight(it, tensor, &hints) {
            Ok(None) => {}
            Ok(Some(weight)) => {
                let of = Some(weight.codes.clone());
                found.roles.insert(weight.codes.clone(), (Role::Weight, None));
                found.roles.insert(weight.scales.clone(), (Role::Scale, of.clone()));
                if let Some(global) = &weight.global {
                    found.roles.insert(global.clone(), (Role::GlobalScale, of.clone()));
                }
                if let Some(zero_points) = &weight.zero_points {
                    found.roles.insert(zero_points.clone(), (Role::ZeroPoint, of.clone()));
                }
                for other in &weight.others {
                    let marker = MARKERS.contains(&split(other).1);
                    let role = if marker { Role::Marker } else { Role::ActivationScale };
                    found.roles.insert(other.clone(), (role, of.clone()));
                }
                found.weights.insert(weight.codes.clone(), weight.into());
            }
            Err(problem) => {
                found.roles.insert(tensor.name.clone(), (Role::Weight, None));
                found.problems.push(problem.tensor(&tensor.name));
            }
        }
    }
    let scaled = !found.weights.is_empty() || !found.problems.is_empty();
    // Of many weights, all may have a problem, and scales that are then without a weight.
    let modules = |problem: &Failure| Some(split(problem.tensor.as_deref()?).0.to_owned());
    let mut wrong: BTreeSet<String> = found.problems.iter().filter_map(modules).collect();
    for tensor in it.tensors.values() {
        if found.roles.contains_key(&tensor.name) {
            continue;
        }
        let (module, last) = split(&tensor.name);
        // A cache or an attention has one scale for all.
        let is_of_cache = CACHES.contains(&last) && tensor.shape.iter().product::<usize>() == 1;
        let role = if scaled && (last == "scaled_fp8" || MARKERS.contains(&last)) {
            Role::Marker
        } else if scaled && (ACTIVATIONS.contains(&last) || is_of_cache) {
            Role::ActivationScale
        } else {
            Role::Plain
        };
        let lone = GLOBALS.contains(&last)
            || SCALES[..4].contains(&last)
            || tensor.name.ends_with("_scale_inv") && role == Role::Plain
            || last == "comfy_quant"
            || last == ZERO_POINTS && scaled
            || last == "scales" && it.get(&format!("{module}qzeros")).is_some()
            || tensor.name.strip_suffix("_scales").is_some_and(|x| it.get(&format!("{x}_blocks")).is_some());
        if lone {
            let near = format!("{module}weight");
            let there = match it.get(&near).or_else(|| it.get(&format!("{module}weight_packed"))) {
                Some(weight) => format!("{} is {} {:?}", weight.name, weight.dtype, weight.shape),
                None => format!("there is no {near}"),
            };
            let is = match last {
                "comfy_quant" => "a marker",
                ZERO_POINTS => "a zero point",
                _ => "a scale",
            };
            let what =
                format!("{is}, {} {:?}, without a quantised weight: {there}", tensor.dtype, tensor.shape);
            // Not reported if the weight has a problem already.
            if wrong.insert(module.to_owned()) {
                let option = format!("--drop '{0}' or --copy '{0}', if that is intended", tensor.name);
                let problem = Failure::refused(what).tensor(&tensor.name).help("fetch the weight");
                found.problems.push(problem.option(option));
            }
            found.roles.insert(tensor.name.clone(), (Role::Scale, None));
            continue;
        }
        let problem = codes_without_scales(it, tensor, scaled).filter(|_| role == Role::Plain);
        wrong.extend(problem.as_ref().map(|_| module.to_owned()));
        found.problems.extend(problem.map(|problem| problem.tensor(&tensor.name)));
        found.roles.insert(tensor.name.clone(), (role, None));
    }
    label(it, &mut found, claim, &hints);
    found
}

/// Returns the help where a layout is not known.
fn known_layouts() -> String {
    format!("the layouts that are read: {}", Layout::ALL.map(Layout::name).join(", "))
}

/// Whether a tensor without a scale looks like codes that have lost it, if others have theirs.
pub(crate) fn are_codes(name: &str, dtype: Dtype, shape: &[usize]) -> bool {
    let is_integer = matches!(dtype, Dtype::I8 | Dtype::U8);
    (dtypes::is_narrow(dtype) || is_integer && split(name).1 == "weight") && shape.len() >= 2
}

/// Returns what is wrong with codes that are no recognised weight: others have scales, or a tensor beside them is called like a scale.
fn codes_without_scales(it: &Checkpoint, tensor: &Tensor, scaled: bool) -> Option<Failure> {
    let module = split(&tensor.name).0;
    if !are_codes(&tensor.name, tensor.dtype, &tensor.shape) {
        return None;
    }
    let codes = format!("codes, {} {:?}", tensor.dtype, tensor.shape);
    let copy = format!("--copy '{}' to leave the codes as they are", globset::escape(&tensor.name));
    let is_of_codes = |rest: &str| ["scale", "absmax", "quant_state"].iter().any(|part| rest.contains(part));
    let from = (Bound::Excluded(&tensor.name[..]), Bound::Unbounded);
    let beside = it.tensors.range::<str, _>(from).map(|(name, _)| name);
    let mut beside = beside.take_while(|name| name.starts_with(&*tensor.name)).cloned();
    let near =
        || ["SCB", "scales"].iter().find_map(|last| Some(it.get(&format!("{module}{last}"))?.name.clone()));
    if let Some(other) = beside.find(|name| is_of_codes(&name[tensor.name.len()..])).or_else(near) {
        let what = format!("{codes}, beside {other}: no known layout has both");
        return Some(Failure::refused(what).help(known_layouts()).option(copy));
    }
    scaled.then(|| {
        Failure::refused(format!("{codes}, without a scale"))
            .help("fetch the scale: other weights have theirs")
            .option(copy)
    })
}

/// Names what was recognised, and compares it with the configuration.
fn label(it: &Checkpoint, found: &mut Recognised, claim: Option<(String, Vec<Layout>)>, hints: &Hints<'_>) {
    let layouts: BTreeSet<Layout> = found.weights.values().map(|weight| weight.layout).collect();
    found.label = match layouts.len() {
        0 => {
            let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
            for tensor in it.tensors.values().filter(|tensor| dtypes::is_float(tensor.dtype)) {
                *bytes.entry(tensor.dtype.to_string()).or_default() += tensor.len;
            }
            let most = bytes.into_iter().max_by_key(|&(_, bytes)| bytes);
            most.map_or("plain".to_owned(), |(dtype, _)| dtype.to_lowercase())
        }
        _ => layouts.iter().map(|layout| layout.name()).collect::<Vec<_>>().join("+"),
    };
    found.because = match found.weights.values().next() {
        None => "no tensor has a scale".to_owned(),
        Some(first) => {
            let (codes, scales) = (&it.tensors[&first.codes], &it.tensors[&first.scales]);
            format!(
                "{} is {} {:?} and {} is {} {:?}",
                codes.name, codes.dtype, codes.shape, scales.name, scales.dtype, scales.shape
            )
        }
    };
    // Tensors do not show it, so going by them (--from) does not help.
    if !layouts.is_empty()
        && let Err(problem) = check_transforms(it)
    {
        found.problems.push(problem);
    }
    if let Some(from) = hints.from {
        if !layouts.contains(&from) {
            found.is_other = true;
            found.problems.push(
                Failure::refused(format!("--from {}: the tensors are {}", from.name(), found.label))
                    .help("leave --from out, or name a layout that the tensors have"),
            );
        }
        if !layouts.is_empty() {
            return;
        }
    }
    let Some((says, allowed)) = claim else { return };
    if allowed.is_empty() {
        // Whatever else is wrong with the tensors follows from that. But --copy of all that are recognised settles this alone.
        if layouts.is_empty() {
            found.problems.clear();
        }
        found.problems.insert(
            0,
            Failure::refused(format!(
                "config.json says that the weights are quantised ({says}), in a way that is not read"
            ))
            .help(known_layouts()),
        );
    } else if layouts.is_empty() {
        found.problems.push(
            Failure::refused(format!(
                "config.json says that the weights are quantised ({says}), but no tensor is"
            ))
            .help("remove quantization_config from config.json, if the tensors are right"),
        );
    } else if let Some(other) = layouts.iter().find(|layout| !allowed.contains(layout)) {
        found.problems.push(
            Failure::refused(format!("config.json says {says}, but the tensors are {}", other.name()))
                .help(format!("--from {} goes by the tensors instead of config.json", other.name())),
        );
    } else if let Err(problem) = check_groups(it, &hints.groups, found) {
        found.problems.push(problem);
    }
}

/// Returns the quantised weight whose codes this tensor is, if it is one.
fn weight(it: &Checkpoint, tensor: &Tensor, hints: &Hints<'_>) -> Result<Option<Weight>> {
    let name = &tensor.name;
    if let Some(base) = name.strip_suffix("_blocks") {
        return blocks(it, tensor, base);
    }
    let (module, last) = split(name);
    if last == "qweight" {
        return columns(it, tensor, module).map(Some);
    }
    let packed = last == "weight_packed";
    if last != "weight" && !packed {
        return fused(it, tensor, hints);
    }
    let quantised =
        packed || dtypes::is_narrow(tensor.dtype) || matches!(tensor.dtype, Dtype::U8 | Dtype::I8);
    if !quantised {
        return Ok(None);
    }
    let there = |names: &[&str]| -> Vec<&Tensor> {
        names.iter().filter_map(|last| it.get(&format!("{module}{last}")).map(|found| &**found)).collect()
    };
    let scales = there(&SCALES);
    let globals = there(&GLOBALS);
    let others: Vec<Name> =
        there(&ACTIVATIONS).into_iter().chain(there(&MARKERS)).map(|tensor| tensor.name.clone()).collect();
    if !scales.is_empty() {
        check_companions(it, module, tensor.dtype == Dtype::I32)?;
    }
    match (&scales[..], &globals[..]) {
        ([], []) if packed => {
            let what =
                format!("packed codes, {} {:?}, without {module}weight_scale", tensor.dtype, tensor.shape);
            Err(Failure::refused(what).help("fetch the scale").option(format!("--copy '{name}'")))
        }
        // Whether that is an error depends on the other tensors.
        ([], []) => Ok(None),
        ([], [global, ..]) => {
            let what = format!("it has {}, but no {module}weight_scale", global.name);
            Err(Failure::refused(what).help("fetch the scale").option(format!("--copy '{module}*'")))
        }
        ([scale], _) if globals.len() < 2 => {
            let base = format!("{module}weight");
            let mut found = scaled(it, tensor, &base, scale, globals.first().copied(), others, hints)?;
            if let Some(zero_points) = it.get(&format!("{module}{ZERO_POINTS}")) {
                check_zero_points(zero_points, tensor, scale, found.format.elem)?;
                found.zero_points = Some(zero_points.name.clone());
            }
            Ok(Some(found))
        }
        _ => {
            let all: Vec<&str> = scales.iter().chain(&globals).map(|tensor| &tensor.name[..]).collect();
            Err(Failure::refused(format!("it has several scales: {}", all.join(", ")))
                .option(format!("--copy '{module}*' to leave all of them as they are")))
        }
    }
}

/// Returns the weight of `X_blocks`, as gpt-oss has it, if these are codes.
fn blocks(it: &Checkpoint, tensor: &Tensor, base: &str) -> Result<Option<Weight>> {
    if let Some(scales) = it.get(&format!("{base}_scales")) {
        return gpt_oss(tensor, base, scales).map(Some);
    }
    if tensor.dtype == Dtype::U8 && tensor.shape.len() >= 3 {
        let what = format!("blocks, {} {:?}, without {base}_scales", tensor.dtype, tensor.shape);
        let option = format!("--copy '{}'", globset::escape(&tensor.name));
        return Err(Failure::refused(what).help("fetch the scales").option(option));
    }
    Ok(None)
}

/// Returns the weight of fused experts, which are called `X` and `X_scale_inv`, if this tensor is one.
fn fused(it: &Checkpoint, tensor: &Tensor, hints: &Hints<'_>) -> Result<Option<Weight>> {
    let name = &tensor.name;
    let Some(scales) = it.get(&format!("{name}_scale_inv")) else { return Ok(None) };
    if !matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2) {
        return Ok(None);
    }
    let others = [format!("{name}_input_scale"), format!("{name}_activation_scale")];
    let others = others.iter().filter_map(|other| Some(it.get(other)?.name.clone())).collect();
    scaled(it, tensor, name, scales, None, others, hints).map(Some)
}

/// Refuses unknown tensors beside a weight: a zero point, for example, would change what the codes mean.
fn check_companions(it: &Checkpoint, module: &str, has_zero_points: bool) -> Result<()> {
    let base = format!("{module}weight");
    let known = |last: &str| {
        ["weight", "weight_packed"].contains(&last)
            || SCALES.contains(&last)
            || GLOBALS.contains(&last)
            || ACTIVATIONS.contains(&last)
            || MARKERS.contains(&last)
            || has_zero_points && last == ZERO_POINTS
    };
    let beside = it.tensors.range::<str, _>((Bound::Included(&base[..]), Bound::Unbounded));
    for (name, other) in beside.take_while(|(name, _)| name.starts_with(&base)) {
        if !known(&name[module.len()..]) {
            let what = format!("beside it is an unknown tensor, {name}, {} {:?}", other.dtype, other.shape);
            return Err(
                Failure::refused(what).option(format!("--copy '{module}*' to leave all of them as they are"))
            );
        }
    }
    Ok(())
}

/// Returns the version of GPTQModel, if that wrote a checkpoint.
fn of_gptqmodel(it: &Checkpoint) -> Option<[u32; 2]> {
    let quantizer = it.claim_of_packed(&["meta"])?.1.get("quantizer")?;
    let all = quantizer.as_array().map_or(std::slice::from_ref(quantizer), |all| all);
    let version =
        all.iter().find_map(|it| Some(it.as_str()?.to_lowercase().strip_prefix("gptqmodel:")?.to_owned()))?;
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    Some([numbers.next()?, numbers.next().unwrap_or(0)])
}

/// Returns what is subtracted from the zero points of GPTQ where they are stored. AutoGPTQ subtracts from each zero point, GPTQModel since
/// 0.9 from whole words, which is the same where none is 0. For 3 bits, GPTQModel subtracted numbers of another order before 7.0, and since
/// then from each.
fn less(it: &Checkpoint, bits: u32) -> Less {
    let format = it.claim_of_packed(&["checkpoint_format", "format"]).and_then(|(_, format)| format.as_str());
    if format.is_some_and(|format| format.eq_ignore_ascii_case("gptq_v2")) {
        return Less::Nothing;
    }
    match of_gptqmodel(it) {
        Some(version) if bits == 3 && version >= [7, 0] => Less::One,
        Some(version) if bits == 3 && version >= [0, 9] => {
            Less::Numbers([0x2492_4924, 0x9249_2492, 0x4924_9249])
        }
        Some(version) if version >= [0, 9] => Less::Numbers([u32::MAX / ((1 << bits) - 1); 3]),
        _ => Less::One,
    }
}

/// Returns the weight of AWQ or GPTQ, whose codes are inputs by outputs, with a scale and a zero point for some rows of each column.
fn columns(it: &Checkpoint, codes: &Tensor, module: &str) -> Result<Weight> {
    let copy = || format!("--copy '{module}*' to leave all of them as they are");
    let need = |last: &str| {
        it.get(&format!("{module}{last}")).ok_or_else(|| {
            let what = format!("codes, {} {:?}, without {module}{last}", codes.dtype, codes.shape);
            Failure::refused(what).help("fetch it").option(copy())
        })
    };
    let (scales, zeros) = (need("scales")?, need("qzeros")?);
    let claim = |key: &str| it.claim_of_packed(&[key]).unwrap_or(("config.json", &Value::Null));
    let other = |what: String| {
        Failure::refused(what)
            .help("GPTQ of 2, 3, 4 and 8 bits is read, in the formats gptq and gptq_v2, and AWQ of 4 bits in the format gemm")
            .option(copy())
    };
    // GPTQModel writes both keys, for AWQ, too.
    let formats = &["gptq", "gptq_v2", "gemm"];
    for (key, known) in [("version", &["gemm"][..]), ("checkpoint_format", formats), ("format", formats)] {
        let (file, format) = claim(key);
        let format = format.as_str().unwrap_or(known[0]).to_lowercase();
        if !known.contains(&&format[..]) {
            return Err(other(format!("{file} says {key} {format}, which is not read")));
        }
    }
    if let (file, rotation) = claim("rotation")
        && !rotation.is_null()
    {
        let what = format!("{file} says that weights are rotated (rotation)");
        return Err(Failure::not_there(what).help("the rotation cannot be undone here").option(copy()));
    }
    if EMBEDDINGS.contains(&split(module.trim_end_matches('.')).1) {
        let what = "codes of an embedding, as GPTQModel packs them";
        return Err(Failure::not_there(what).option(copy()));
    }
    // With `dynamic`, some layers have other bits.
    let is_dynamic = claim("dynamic").1.as_object().is_some_and(|layers| !layers.is_empty());
    let (file, claimed) = claim("bits");
    let claimed = claimed.as_u64().filter(|_| !is_dynamic);
    if let Some(bits) = claimed.filter(|bits| !matches!(bits, 2 | 3 | 4 | 8)) {
        return Err(other(format!("{file} says codes of {bits} bits, which are not read")));
    }
    let misfit = || {
        let of = |it: &Tensor| format!("{} {:?}", it.dtype, it.shape);
        let bits = claimed.map_or(String::new(), |bits| format!(" (of {bits} bits, as {file} says)"));
        let what = format!(
            "codes{bits} {}, scales {} and zero points {} do not fit together",
            of(codes),
            of(scales),
            of(zeros)
        );
        Failure::refused(what)
            .help("weights of 4 bits with K inputs and N outputs have codes I32 [K / 8, N] (GPTQ) or [K, N / 8] (AWQ), scales F16 [K / group, N], zero points I32 [K / group, N / 8]; N is a multiple of 32")
            .option(copy())
    };
    let (&[rows, words], &[groups, outputs], &[zero_groups, zero_words]) =
        (&codes.shape[..], &scales.shape[..], &zeros.shape[..])
    else {
        return Err(misfit());
    };
    // 32 zero points fill as many words as a code has bits.
    let bits = zero_words.checked_div(outputs / 32).filter(|bits| bits * (outputs / 32) == zero_words);
    if claimed.is_some_and(|claimed| bits.is_some_and(|bits| bits as u64 != claimed)) {
        return Err(misfit());
    }
    let (elem, bits) = match bits {
        Some(2) => (DType::U2, 2),
        Some(bits @ (3 | 4)) => (DType::U4, bits),
        Some(8) => (DType::U8, 8),
        _ => return Err(misfit()),
    };
    let (layout, inputs) = match words {
        _ if words == outputs && (bits != 3 || rows.is_multiple_of(3)) => {
            (Layout::Gptq, rows.saturating_mul(32) / bits)
        }
        _ if words == zero_words && bits == 4 => (Layout::Awq, rows),
        _ => return Err(misfit()),
    };
    let bits = bits as u32;
    let dtype =
        dtypes::of(scales.dtype).filter(|dtype| matches!(dtype, DType::F16 | DType::BF16 | DType::F32));
    let order = it.get(&format!("{module}g_idx"));
    let fits = (codes.dtype, zeros.dtype) == (Dtype::I32, Dtype::I32)
        && zero_groups == groups
        && outputs.is_multiple_of(32)
        && groups > 0
        && (inputs.is_multiple_of(groups) || order.is_some());
    let (true, Some(dtype)) = (fits, dtype) else { return Err(misfit()) };
    if order.is_none() && *claim("desc_act").1 == true {
        let what = format!("{} says desc_act, but {module}g_idx is not there", claim("desc_act").0);
        return Err(Failure::refused(what).help("fetch it").option(copy()));
    }
    let mut group = inputs / groups;
    let mut group_of_input = None;
    if let Some(order) = order {
        let of = packed::order(it, order)?;
        if order.dtype != Dtype::I32 || of.len() != inputs || of.iter().any(|&of| of as usize >= groups) {
            let what = format!(
                "{}, {} {:?}, does not assign each of {inputs} inputs to one of {}",
                order.name,
                order.dtype,
                order.shape,
                count(groups as u64, "group")
            );
            return Err(Failure::refused(what).option(copy()));
        }
        // If the inputs of a group are not adjacent, as with act-order, every input gets a scale of its own.
        if !inputs.is_multiple_of(groups) || of.iter().enumerate().any(|(i, &of)| of as usize != i / group) {
            group_of_input = Some(order.name.clone());
            group = 1;
        }
    }
    Ok(Weight {
        layout,
        name: format!("{module}weight").into(),
        shape: vec![inputs, outputs],
        codes: codes.name.clone(),
        scales: scales.name.clone(),
        global: None,
        zero_points: Some(zeros.name.clone()),
        bits,
        less: if layout == Layout::Gptq { less(it, bits) } else { Less::Nothing },
        group_of_input,
        format: Format {
            elem,
            scaling: Scaling::blocks(&[group, 1], dtype),
            packing: Packing::LowFirst,
            is_biased: false,
            block_rows: group,
            block_cols: 1,
        },
        transposed: true,
        others: order.map(|order| order.name.clone()).into_iter().collect(),
    })
}

/// Checks zero points, which are packed as the integers are, but by rows: eight or four of them to an int32.
fn check_zero_points(zero_points: &Tensor, codes: &Tensor, scales: &Tensor, elem: DType) -> Result<()> {
    let mut fits = scales.shape.to_vec();
    if let [.., rows, _] = &mut fits[..] {
        *rows = rows.div_ceil(32 / elem.bits() as usize);
    }
    if codes.dtype == Dtype::I32 && zero_points.dtype == Dtype::I32 && zero_points.shape[..] == fits {
        return Ok(());
    }
    let what = format!(
        "zero points {} {:?} ({}) do not fit",
        zero_points.dtype, zero_points.shape, zero_points.name
    );
    Err(Failure::refused(what).help(format!("scales {:?} need zero points I32 {fits:?}", scales.shape)))
}

/// Returns an extent of values, of which codes have a part.
fn times(extent: usize, each: usize, codes: &Tensor) -> Result<usize> {
    extent.checked_mul(each).ok_or_else(|| {
        Failure::refused(format!(
            "codes {} {:?}: the shape of their values overflows",
            codes.dtype, codes.shape
        ))
    })
}

fn gpt_oss(codes: &Tensor, base: &str, scales: &Tensor) -> Result<Weight> {
    let bad = || {
        let what = format!(
            "blocks {} {:?} and scales {} {:?} do not fit together",
            codes.dtype, codes.shape, scales.dtype, scales.shape
        );
        Failure::refused(what).help("blocks U8 [.., rows, groups, 16] need scales U8 [.., rows, groups]")
    };
    let (n, dims) = (codes.shape.len(), &codes.shape);
    if codes.dtype != Dtype::U8 || !matches!(scales.dtype, Dtype::U8 | Dtype::F8_E8M0) || n < 3 {
        return Err(bad());
    }
    if dims[n - 1] != 16 || scales.shape[..] != dims[..n - 1] {
        return Err(bad());
    }
    let mut shape = dims[..n - 1].to_vec();
    shape[n - 2] = times(shape[n - 2], 32, codes)?;
    // Without elements, an extent may be of any length: the transpose is a shape that is not checked yet.
    let transpose = [&shape[..n - 3], &[shape[n - 2], shape[n - 3]]].concat();
    transpose.iter().try_fold(1, |all, &extent| times(extent, all, codes))?;
    Ok(Weight {
        layout: Layout::GptOss,
        name: if base == &*codes.name { codes.name.clone() } else { base.into() },
        shape,
        codes: codes.name.clone(),
        scales: scales.name.clone(),
        global: None,
        zero_points: None,
        bits: 4,
        less: Less::Nothing,
        group_of_input: None,
        format: Format {
            elem: DType::F4E2M1,
            scaling: Scaling::mx(),
            packing: Packing::LowFirst,
            is_biased: false,
            block_rows: 1,
            block_cols: 32,
        },
        transposed: true,
        others: Vec::new(),
    })
}

/// Returns the dtype of scales, by that of the tensor.
fn scale_dtype(scales: &Tensor) -> Option<DType> {
    match scales.dtype {
        Dtype::U8 | Dtype::F8_E8M0 => Some(DType::F8E8M0),
        Dtype::F8_E4M3 => Some(DType::F8E4M3FN),
        Dtype::F32 | Dtype::BF16 | Dtype::F16 => dtypes::of(scales.dtype),
        _ => None,
    }
}

/// Returns the format that comfy-kitchen names, in a tensor beside the codes or in the header of their file.
fn marker(it: &Checkpoint, codes: &Tensor, others: &[Name]) -> Result<Option<String>> {
    let module = split(&codes.name).0;
    let value: Value = match others.iter().find(|name| name.ends_with("comfy_quant")) {
        Some(name) => serde_json::from_slice(&it.small(&it.tensors[name])?)
            .map_err(|error| Failure::refused(format!("{name}: not JSON: {error}")))?,
        None => match it.shards[codes.shard].layers.get(module.trim_end_matches('.')) {
            Some(value) => value.clone(),
            None => return Ok(None),
        },
    };
    let format = value.get("format").and_then(Value::as_str).unwrap_or("");
    let fits = match codes.dtype {
        Dtype::F8_E4M3 => ["float8_e4m3fn", "mxfp8"].contains(&format),
        Dtype::F8_E5M2 => format == "float8_e5m2",
        Dtype::U8 => format == "nvfp4",
        Dtype::I8 => format == "int8_tensorwise",
        _ => false,
    };
    // Rotated weights would have to be rotated back.
    let is_rotated = |(key, value): (&String, &Value)| {
        (key.contains("rot") || key.contains("hadamard"))
            && !matches!(value, Value::Null | Value::Bool(false))
    };
    if !fits || value.as_object().is_some_and(|keys| keys.iter().any(is_rotated)) {
        let what = format!("ComfyUI's marker of {} {:?} says {value}", codes.dtype, codes.shape);
        return Err(Failure::not_there(what)
            .help("float8_e4m3fn, float8_e5m2, mxfp8, nvfp4 and int8_tensorwise are read, each with codes of its own dtype, without rotations")
            .option(format!("--copy '{module}*' to leave all of it as it is")));
    }
    Ok(Some(format.to_owned()))
}

/// Codes and scales whose layout is to be decided.
struct Pair<'a> {
    it: &'a Checkpoint,
    /// The name of the module of the weight.
    module: &'a str,
    codes: &'a Tensor,
    scales: &'a Tensor,
    /// The dtype of the scales.
    dtype: DType,
    /// The shape of the values.
    shape: Vec<usize>,
    /// The format that a marker of comfy-kitchen names.
    marker: Option<String>,
    hints: &'a Hints<'a>,
}

/// A layout, its scaling without the tensor scale, and the rows and columns of its blocks.
type Decided = (Layout, Scaling, [usize; 2]);

impl Pair<'_> {
    fn misfit(&self, fits: &str) -> Failure {
        let (codes, scales) = (self.codes, self.scales);
        let what = format!(
            "scales {} {:?} ({}) do not fit a weight {} {:?}",
            scales.dtype, scales.shape, scales.name, codes.dtype, codes.shape
        );
        Failure::refused(what).help(format!("{fits} would fit; a scale is never broadcast or reshaped"))
    }

    fn fits(&self, scaling: Scaling) -> bool {
        scaling.scale_shape(&self.shape).is_ok_and(|needed| needed[..] == *self.scales.shape)
    }

    fn needed(&self, scaling: Scaling) -> String {
        scaling.scale_shape(&self.shape).map_or("nothing".to_owned(), |shape| format!("{shape:?}"))
    }

    /// Checks that scales have as many bytes as comfy-kitchen's tiles for these groups.
    fn check_tiles(&self, groups: Scaling) -> Result<Scaling> {
        let tiles = groups.layout(ScaleLayout::Swizzle32x4x4);
        if tiles.scale_bytes(&self.shape).ok() == Some(self.scales.shape.iter().product()) {
            Ok(tiles)
        } else {
            Err(self.misfit("scales in tiles of 128 x 4"))
        }
    }

    fn check_groups(&self, groups: Scaling, of: &str) -> Result<Scaling> {
        if self.fits(groups) {
            Ok(groups)
        } else {
            Err(self.misfit(&format!("{of} {}", self.needed(groups))))
        }
    }

    /// Decides the layout of codes of 4 bits.
    fn four_bits(&self, global: Option<&Tensor>) -> Result<Decided> {
        use Layout::*;
        if self.dtype == DType::F8E8M0 && global.is_none() && self.marker.is_none() {
            let groups = self.check_groups(Scaling::blocks(&[32], self.dtype), "U8")?;
            return Ok((Mxfp4, groups, [1, 32]));
        }
        let Some(global) = global else {
            let what = "a global scale is missing: neither weight_global_scale nor weight_scale_2 is there";
            return Err(Failure::refused(what).help("fetch it; without it every value is off by that factor"));
        };
        let sixteen = Scaling::blocks(&[16], self.dtype);
        if self.dtype != DType::F8E4M3FN {
            return Err(self.misfit(&format!("F8_E4M3 {}", self.needed(sixteen))));
        }
        if global.name.ends_with("weight_global_scale") {
            return Ok((Nvfp4, self.check_groups(sixteen, "F8_E4M3")?, [1, 16]));
        }
        let layout = match (self.hints.from, self.marker.as_deref()) {
            (_, Some("nvfp4")) => ComfyNvfp4,
            (_, Some(other)) => {
                return Err(Failure::refused(format!(
                    "its marker says {other}, but its tensors are those of nvfp4"
                )));
            }
            (Some(layout @ (ComfyNvfp4 | ModeloptNvfp4)), None) => layout,
            (_, None) if self.hints.modelopt => ModeloptNvfp4,
            (_, None) => {
                let what = "modelopt-nvfp4 and comfy-nvfp4 have these names, and nothing says which it is";
                return Err(Failure::refused(what).help("--from modelopt-nvfp4, or --from comfy-nvfp4"));
            }
        };
        Ok(match layout {
            ComfyNvfp4 => (layout, self.check_tiles(sixteen)?, [128, 16]),
            _ => (layout, self.check_groups(sixteen, "F8_E4M3")?, [1, 16]),
        })
    }

    /// Decides the layout of packed integers, whose scales are those of groups along rows, or of whole rows.
    fn integers(&self, layout: Layout) -> Result<Decided> {
        let columns = *self.shape.last().unwrap_or(&0);
        let groups = *self.scales.shape.last().unwrap_or(&0);
        let misfit = || self.misfit("F32, BF16 or F16, one for each group of a row,");
        if groups == 0
            || !columns.is_multiple_of(groups)
            || !matches!(self.scales.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16)
        {
            return Err(misfit());
        }
        let (scaling, length) = match groups {
            1 => (Scaling::blocks(&[1, 0], self.dtype), 0),
            _ => (Scaling::blocks(&[columns / groups], self.dtype), columns / groups),
        };
        if self.fits(scaling) { Ok((layout, scaling, [1, length])) } else { Err(misfit()) }
    }

    /// Decides the layout of codes of 8 bits.
    fn eight_bits(&self, global: Option<&Tensor>) -> Result<Decided> {
        use Layout::*;
        if let Some(global) = global {
            let what =
                format!("it is {}, but has {}, a global scale of NVFP4", self.codes.dtype, global.name);
            return Err(Failure::refused(what));
        }
        let last = split(&self.scales.name).1;
        let inverse = self.scales.name.ends_with("_scale_inv") || last == "scale";
        let int8 = self.codes.dtype == Dtype::I8;
        let groups = Scaling::blocks(&[32], self.dtype);
        if self.marker.as_deref() == Some("mxfp8")
            || self.marker.is_none() && self.hints.from == Some(ComfyMxfp8)
        {
            // With whole tiles of rows, these have the same shape as scales that are not in tiles.
            return Ok((ComfyMxfp8, self.check_tiles(groups)?, [128, 32]));
        }
        let usual = Scaling::blocks(&[128, 128], self.dtype);
        if self.dtype == DType::F8E8M0 && !int8 && self.fits(groups) && !(inverse && self.fits(usual)) {
            return Ok((Mxfp8, groups, [1, 32]));
        }
        let given = &self.scales.shape;
        if given.iter().product::<usize>() == 1 && given.len() <= 1 {
            let layout = match self.hints.from {
                _ if int8 => Int8Tensor,
                Some(layout @ (Fp8Tensor | ModeloptFp8 | ComfyFp8)) => layout,
                _ if self.marker.is_some() || last == "scale_weight" => ComfyFp8,
                _ if self.hints.modelopt => ModeloptFp8,
                _ => Fp8Tensor,
            };
            return Ok((layout, Scaling::per_tensor(self.dtype), [1, 0]));
        }
        let rows = Scaling::blocks(&[1, 0], self.dtype);
        let is_matrix = self.shape.len() >= 2;
        if is_matrix && self.fits(rows) && !inverse {
            return Ok((if int8 { Int8Channel } else { Fp8Channel }, rows, [1, 0]));
        }
        let block = self.block_size()?;
        let blocks = Scaling::blocks(&block, self.dtype);
        if is_matrix && self.fits(blocks) && !int8 {
            return Ok((Fp8Block, blocks, block));
        }
        let (blocks, rows) = (self.needed(blocks), self.needed(rows));
        Err(self.misfit(&format!("{blocks} (blocks of {block:?}), {rows} (rows), [1] (the tensor)")))
    }

    /// Returns the block size that the configuration says: one of all weights, or those of the groups of compressed-tensors.
    fn block_size(&self) -> Result<[usize; 2]> {
        let wrong = |what: String| {
            Err(Failure::refused(format!("config.json says {what}"))
                .help("correct it: blocks of another size give other values")
                .option(format!("--copy '{}.*' to leave the weight as it is", globset::escape(self.module))))
        };
        let of_all = self.it.claims().and_then(|claim| claim.get("weight_block_size"));
        let (key, given) = match of_all.filter(|value| !value.is_null()) {
            Some(value) => ("weight_block_size", vec![value]),
            None => ("block_structure", self.hints.groups.blocks(self.module)),
        };
        let mut sizes = BTreeSet::new();
        for value in given.into_iter().filter(|value| !value.is_null()) {
            let Some(size) = block_structure(value) else {
                return wrong(format!("{key} {value}, which is no block of rows and columns"));
            };
            sizes.insert(size);
        }
        let mut sizes = sizes.into_iter();
        match (sizes.next(), sizes.next()) {
            (None, _) => Ok([128, 128]),
            (Some(size), None) => Ok(size),
            (Some(size), Some(other)) => wrong(format!("blocks of both {size:?} and {other:?}")),
        }
    }
}

/// Returns the weight of codes and scales, and perhaps a tensor scale.
fn scaled(
    it: &Checkpoint,
    codes: &Tensor,
    base: &str,
    scales: &Tensor,
    global: Option<&Tensor>,
    mut others: Vec<Name>,
    hints: &Hints<'_>,
) -> Result<Weight> {
    let marker = marker(it, codes, &others)?;
    if it.get("scaled_fp8").is_some() && split(&scales.name).1 == "scale_weight" {
        others.push("scaled_fp8".into());
        others.sort();
    }
    let packed = if codes.dtype == Dtype::I32 { Some(packed_shape(it, codes)?) } else { None };
    let elem = match codes.dtype {
        _ if packed.is_some() => packed.as_ref().map_or(DType::I4, |(_, elem)| *elem),
        Dtype::U8 | Dtype::F4 => DType::F4E2M1,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::I8 => DType::I8,
        other => {
            return Err(Failure::refused(format!(
                "a weight of {other} with a scale: no known layout has that"
            )));
        }
    };
    let mut shape = codes.shape.to_vec();
    if let Some((of_values, _)) = packed {
        shape = of_values;
    } else if codes.dtype == Dtype::U8
        && let Some(columns) = shape.last_mut()
    {
        *columns = times(*columns, 2, codes)?;
    }
    let known = scale_dtype(scales);
    let dtype = known.unwrap_or(DType::F32);
    let module = base.strip_suffix(".weight").unwrap_or(base);
    let pair = Pair { it, module, codes, scales, dtype, shape, marker, hints };
    if known.is_none() {
        return Err(pair.misfit("F32, BF16, F16, F8_E8M0, F8_E4M3 or U8"));
    }
    let (layout, mut scaling, [block_rows, block_cols]) = match elem {
        DType::F4E2M1 => pair.four_bits(global)?,
        DType::I4 => pair.integers(Layout::Int4Group)?,
        DType::I8 if codes.dtype == Dtype::I32 => pair.integers(Layout::Int8Group)?,
        _ => pair.eight_bits(global)?,
    };
    if let Some(global) = global {
        let value = factor(it, global)?;
        scaling = scaling.tensor_scale(match layout {
            Layout::Nvfp4 => TensorScale::Divide(value),
            _ => TensorScale::Multiply(value),
        });
    }
    let packing = if layout == Layout::ComfyNvfp4 { Packing::HighFirst } else { Packing::LowFirst };
    Ok(Weight {
        layout,
        name: if base == &*codes.name { codes.name.clone() } else { base.into() },
        shape: pair.shape,
        codes: codes.name.clone(),
        scales: scales.name.clone(),
        global: global.map(|global| global.name.clone()),
        zero_points: None,
        bits: elem.bits(),
        less: Less::Nothing,
        group_of_input: None,
        format: Format { elem, scaling, packing, is_biased: layout.is_packed(), block_rows, block_cols },
        transposed: false,
        others,
    })
}

/// Returns the shape of a weight of integers packed into int32, which is stored beside them, and their dtype.
fn packed_shape(it: &Checkpoint, codes: &Tensor) -> Result<(Vec<usize>, DType)> {
    let name = format!("{}weight_shape", split(&codes.name).0);
    let Some(of) = it.get(&name) else {
        let what = format!("packed codes, {} {:?}, without {name}", codes.dtype, codes.shape);
        return Err(Failure::refused(what)
            .help("fetch it")
            .option(format!("--copy '{}'", globset::escape(&codes.name))));
    };
    let bytes = it.small(of)?;
    let shape: Option<Vec<usize>> = match of.dtype {
        Dtype::I64 => bytes.as_chunks().0.iter().map(|&x| i64::from_le_bytes(x).try_into().ok()).collect(),
        Dtype::I32 => bytes.as_chunks().0.iter().map(|&x| i32::from_le_bytes(x).try_into().ok()).collect(),
        _ => None,
    };
    let fits = |each: usize, shape: &Vec<usize>| {
        let (Some((columns, rows)), Some((words, of_codes))) = (shape.split_last(), codes.shape.split_last())
        else {
            return false;
        };
        rows == of_codes && words.checked_mul(each) == Some(*columns)
    };
    match shape {
        Some(shape) if fits(8, &shape) => Ok((shape, DType::I4)),
        Some(shape) if fits(4, &shape) => Ok((shape, DType::I8)),
        _ => {
            let shape = shape.map_or("no shape".to_owned(), |shape| format!("{shape:?}"));
            let what = format!(
                "packed codes {} {:?} do not fit the shape in {name}, which is {shape}",
                codes.dtype, codes.shape
            );
            Err(Failure::refused(what)
                .help("a weight of [.., N] has packed codes of [.., N / 8] (4 bits) or [.., N / 4] (8 bits)"))
        }
    }
}

/// Reads the rows and columns of a block: `[128, 128]` or, as older configurations have it, `"128x128"`.
fn block_structure(value: &Value) -> Option<[usize; 2]> {
    let lengths: Vec<usize> = match value {
        Value::String(text) => {
            text.split(['x', 'X']).map(|length| length.trim().parse().ok()).collect::<Option<_>>()?
        }
        _ => {
            // Some writers make floats of them.
            let whole = |length: &Value| match length.as_f64() {
                Some(x) if length.is_f64() && x.fract() == 0.0 && (0.0..1e9).contains(&x) => Some(x as u64),
                _ => length.as_u64(),
            };
            let lengths = value.as_array()?.iter();
            lengths.map(|length| usize::try_from(whole(length)?).ok()).collect::<Option<_>>()?
        }
    };
    lengths.try_into().ok().filter(|lengths: &[usize; 2]| !lengths.contains(&0))
}

/// Reads the tensor scale, which must be finite and positive.
fn factor(it: &Checkpoint, global: &Tensor) -> Result<f32> {
    let bad = |what: String| {
        Failure::refused(what)
            .tensor(&global.name)
            .help("a global scale must be a single F32, finite and greater than 0")
    };
    if global.dtype != Dtype::F32 || global.len != 4 {
        return Err(bad(format!("the global scale is {} {:?}", global.dtype, global.shape)));
    }
    let bytes = it.small(global)?;
    let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if !(value.is_finite() && value > 0.0) {
        return Err(bad(format!("the global scale is {value}")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{Expressions, texts_of};

    #[test]
    fn expressions_have_texts_that_are_in_every_name() {
        for (expression, texts) in [
            (r"model\.layers\.0\.up_proj$", &["model.layers.0.up_proj"][..]),
            (r"^.*layers.1.up_proj", &["layers", "1", "up_proj"]),
            (r"abc?de*\.?f+g", &["ab", "d", "g"]),
            (r".*", &[]),
            (r"l\.(0|1)\.q", &[]),
            (r"l\.\d", &[]),
            (r"a|b", &[]),
            (r"a{2}", &[]),
            (r"(?i)a", &[]),
            (r"[ab]c", &[]),
        ] {
            assert_eq!(texts_of(expression), texts, "{expression}");
        }
        let patterns =
            ["l", "re:", "re:l.0", r"re:.*\.1\.up", "re:l[.]1", "re:up", r"re:.*up_proj$", "re:lx*y?"];
        let (read, problem) = Expressions::of(patterns.into_iter().zip(0..));
        assert!(problem.is_none());
        let fitting = |module| read.fitting(module).collect::<Vec<_>>();
        assert_eq!(fitting("l.0.up_proj"), [1, 2, 6, 7]);
        assert_eq!(fitting("l.1.up"), [1, 3, 4, 7]);
        assert_eq!(fitting(""), [1]);
        assert!(Expressions::of([("re:(", 0)].into_iter()).1.is_some());
    }
}
