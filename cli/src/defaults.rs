//! Which tensors are quantised by default: linear layers whose weights loaders look for; not embeddings, the last layer, or layers whose
//! effect is large for their size.

use crate::checkpoint::{Checkpoint, Tensor};
use crate::layout::Layout;

/// Parts of names, anywhere in them.
const PARTS: [&str; 5] = ["embed", "lm_head", "router", "visual", "vision"];
/// Parts of names that also occur in names of models: they count behind the first component of a name.
const LATER_PARTS: [&str; 2] = ["norm", "conv"];
/// Modules, by the last component before `weight`: routers, embeddings whose names do not tell, heads, and parts of DeepSeek's that engines
/// keep as floats.
const MODULES: [&str; 15] = [
    "gate",
    "shared_expert_gate",
    "wte",
    "wpe",
    "shared",
    "relative_attention_bias",
    "codebook",
    "mask_tokens",
    "iou_token",
    "head",
    "score",
    "classifier",
    "lm_loss",
    "eh_proj",
    "weights_proj",
];
/// Whole names of last layers, where others have modules of that name in every layer.
const LAST: [&str; 4] =
    ["output.weight", "model.output.weight", "language_model.output.weight", "proj_out.weight"];
/// Linear layers whose names look like those of other modules.
const LINEAR: [&str; 4] = ["norm_attn_norm.attn.", "norm_attn_norm.", "conv.in_proj.", "conv.out_proj."];
/// Models with transposed matrices: loaders do not take those of Conv1D for linear layers.
const CONV1D: [&str; 5] = ["gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp"];
const CONV1D_MODULES: [&str; 4] = ["c_attn", "q_attn", "c_proj", "c_fc"];
/// Models of which transformers keeps `wo` in float32.
const T5: [&str; 6] = ["t5", "mt5", "umt5", "longt5", "udop", "pop2piano"];
/// Models whose experts are one tensor, in another order than transformers' float8 experts or with biases.
const OTHER_EXPERTS: [&str; 3] = ["gpt_oss", "llama4", "llama4_text"];
/// The projections of experts, by the last component of their names.
const PROJECTIONS: [&str; 10] =
    ["gate_up_proj", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "w13", "fc1", "fc2"];

const NAME: &str = "kept by default, by its name";

/// Why a tensor is not quantised by default.
struct Reason {
    text: &'static str,
    /// What a pattern of `--only` must contain for the reason not to count.
    unless: &'static str,
}

/// Returns the `model_type` of the configuration, or an empty text.
pub(crate) fn model_type(it: &Checkpoint) -> &str {
    it.config.as_ref().and_then(|config| config.get("model_type")?.as_str()).unwrap_or("")
}

/// Whether a tensor holds the matrices of all experts, in a layout that takes them.
fn is_experts(tensor: &Tensor, layout: Layout) -> bool {
    let takes = match layout {
        Layout::Fp8Block => is_projection(&tensor.name),
        _ => layout == Layout::GptOss,
    };
    takes && tensor.shape.len() == 3 && tensor.name.contains("experts")
}

/// Whether a tensor is called like a projection of experts.
pub(crate) fn is_projection(name: &str) -> bool {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    PROJECTIONS.contains(&name.rsplit('.').next().unwrap_or(name))
}

/// Whether a tensor holds the matrices of several experts, whatever the layout is.
pub(crate) fn is_fused_experts(tensor: &Tensor) -> bool {
    let name = &tensor.name[..];
    // The file does not call GraniteMoE's experts that.
    let is_granite = ["input_linear.weight", "output_linear.weight"].iter().any(|end| name.ends_with(end));
    tensor.shape.len() == 3 && (name.contains("experts") || is_granite)
}

/// Whether a weight is that of one expert, by a name such as `mlp.experts.3.up_proj.weight`.
pub(crate) fn is_one_expert(name: &str) -> bool {
    let after = name.split("experts.").skip(1);
    after.filter_map(|rest| rest.split('.').next()).any(|number| number.parse::<usize>().is_ok())
}

/// Whether fp8-block takes the experts of a model, if they are one tensor.
pub(crate) fn takes_experts(it: &Checkpoint, tensor: &Tensor) -> bool {
    is_experts(tensor, Layout::Fp8Block) && !OTHER_EXPERTS.contains(&model_type(it))
}

/// Returns why no option quantises a tensor, if none does. `is_named`: `--only` gives its whole name.
fn never(tensor: &Tensor, layout: Layout, is_named: bool) -> Option<&'static str> {
    let name = &tensor.name[..];
    let experts = is_experts(tensor, layout);
    if layout == Layout::GptOss && (!experts || name.ends_with("bias")) {
        return Some("no matrices of experts");
    }
    if tensor.shape.len() != 2 && !experts && !(is_named && tensor.shape.len() > 2) {
        return Some("no matrix");
    }
    if !(experts || is_named || name.ends_with(".weight") || name == "weight") {
        return Some("no weight, by its name");
    }
    (tensor.len == 0).then_some("empty")
}

/// Returns why a tensor that could be quantised is not by default, if it is not.
fn by_default(it: &Checkpoint, tensor: &Tensor, layout: Layout) -> Option<Reason> {
    let name = &tensor.name[..];
    let because = |unless| Some(Reason { text: NAME, unless });
    if let Some(part) = PARTS.into_iter().find(|part| name.contains(part)) {
        return because(part);
    }
    let module =
        name.strip_suffix(".weight").map_or("", |module| module.rsplit('.').next().unwrap_or(module));
    if let Some(known) = MODULES.into_iter().find(|&known| known == module) {
        return because(known);
    }
    if module.ends_with("_emb") {
        return because("_emb");
    }
    if name.ends_with("cls.predictions.decoder.weight") {
        return because("decoder");
    }
    if let Some(last) = LAST.into_iter().find(|&last| last == name) {
        return because(last.strip_suffix(".weight").unwrap_or(last).rsplit('.').next().unwrap_or(last));
    }
    let mut later = match name.split_once('.') {
        Some((_, rest)) if rest.contains('.') => rest,
        _ => name,
    };
    for linear in LINEAR {
        if let Some(at) = later.find(linear) {
            later = &later[at + linear.len()..];
        }
    }
    if let Some(part) = LATER_PARTS.into_iter().find(|part| later.contains(part)) {
        return because(part);
    }
    let model = model_type(it);
    if let Some(known) = CONV1D_MODULES.into_iter().find(|&known| known == module)
        && CONV1D.contains(&model)
    {
        return Some(Reason {
            text: "kept by default: a Conv1D, which loaders do not take for a linear layer",
            unless: known,
        });
    }
    if layout == Layout::Fp8Block {
        if T5.contains(&model) && module == "wo" {
            return Some(Reason { text: "kept by default: transformers keeps it in float32", unless: "wo" });
        }
        if OTHER_EXPERTS.contains(&model) && tensor.shape.len() == 3 {
            let text = "kept by default: transformers does not read these experts as fp8-block";
            return Some(Reason { text, unless: "experts" });
        }
        if model == "falcon" {
            let text = "kept by default: transformers does not read Falcon's layers as fp8-block";
            return Some(Reason { text, unless: "" });
        }
    }
    None
}

/// Returns why a tensor is not quantised, if it is not. `only`: the patterns of `--only` that fit it.
pub(crate) fn reason(
    it: &Checkpoint,
    tensor: &Tensor,
    layout: Layout,
    only: &[&str],
) -> Option<&'static str> {
    let is_named = only.iter().any(|&pattern| pattern == &*tensor.name);
    if let Some(text) = never(tensor, layout, is_named) {
        return Some(text);
    }
    let reason = by_default(it, tensor, layout)?;
    let is_meant = only.iter().any(|pattern| pattern.contains(reason.unless));
    (!is_meant).then_some(reason.text)
}
