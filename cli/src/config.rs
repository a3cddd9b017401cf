//! `config.json` and the index of a result.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use regex::Regex;
use safetensors::Dtype;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::checkpoint::Checkpoint;
use crate::defaults;
use crate::header::byte_len;
use crate::layout::{self, Layout};
use crate::plan::{self, Input, Job, Output, Plan};

/// Returns what is a float in the result, but could be quantised or was: configurations name its module.
pub(crate) fn floats(plan: &Plan) -> impl Iterator<Item = &Job> {
    let is_kept = |name: &str| plan.kept.get(name).is_some_and(|reason| *reason != "it has that layout");
    let is_float = move |job: &&Job| match plan.layout {
        _ if matches!(job.output, Output::Quantise(_)) => false,
        Some(_) => is_kept(&job.name) || plan.copied_floats.contains(&job.name),
        None => matches!(job.input, Input::Scaled(..)),
    };
    plan.jobs.iter().filter(is_float).filter(|job| !modules(job).is_empty())
}

/// Returns the module that this name is a part of.
fn parent(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(parent, _)| parent)
}

/// Returns the module that loaders may make of experts that are many in the file.
pub(crate) fn experts(name: &str) -> Option<&str> {
    Some(&name[..name.find(".experts.")? + ".experts".len()])
}

/// Returns the names of the modules of a float.
fn modules(job: &Job) -> Vec<String> {
    let tensor = job.input.main();
    let is_scaled = matches!(job.input, Input::Scaled(..));
    let is_fused = defaults::is_fused_experts(tensor);
    match job.name.strip_suffix(".weight") {
        // All experts are in one tensor. Its module has another name in the file, or has several such tensors.
        Some(module) if is_fused => {
            parent(module).map(|it| format!("{it}.experts")).into_iter().chain([module.to_owned()]).collect()
        }
        Some(module) if is_scaled || tensor.shape.len() == 2 => vec![module.to_owned()],
        None => {
            // Beside the projections there may be other tensors, which loaders never quantise.
            let are_experts = is_fused && defaults::is_projection(&job.name);
            let is_module = |it: &&str| is_scaled || are_experts && it.rsplit('.').next() == Some("experts");
            parent(&job.name).filter(is_module).map(str::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the names of the modules that are floats, which every configuration has to name.
fn named(plan: &Plan) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = floats(plan).flat_map(modules).collect();
    let some: BTreeSet<&str> = quantised(plan).filter_map(experts).collect();
    let whole = |name: &String| experts(name).filter(|whole| !some.contains(whole)).map(str::to_owned);
    let whole: Vec<String> = names.iter().filter_map(whole).collect();
    names.extend(whole);
    names
}

/// Returns a float that has no module of its own, such as all experts of a layer, and a quantised weight of the same module:
/// configurations name modules as a whole.
pub(crate) fn parted(plan: &Plan) -> Option<(&str, &str)> {
    let quantised: BTreeSet<&str> = quantised(plan).collect();
    floats(plan).filter(|job| !job.name.ends_with(".weight")).find_map(|job| {
        let module = format!("{}.", modules(job).first()?);
        let from = (Bound::Included(&module[..]), Bound::Unbounded);
        let mut others = quantised.range::<str, _>(from).take_while(|other| other.starts_with(&module));
        // Beside experts that were never quantised there may be modules of others, which have their own names.
        let is_part =
            |other: &&&str| matches!(job.input, Input::Scaled(..)) || !other[module.len()..].contains('.');
        Some((&job.name[..], *others.find(is_part)?))
    })
}

/// Returns the names of modules that could be quantised and are not.
fn ignored(it: &Checkpoint, plan: &Plan) -> Vec<String> {
    let mut names = named(plan);
    // A last layer that is tied to an embedding is in no file, but is a module.
    if it.config.is_some() {
        let model = defaults::model_type(it);
        let tied = match model {
            "whisper" => "proj_out",
            "biogpt" => "output_projection",
            _ if it.tensors.keys().any(|name| name.contains("cls.predictions.")) => "cls.predictions.decoder",
            _ => "lm_head",
        };
        if !quantised(plan).any(|name| name.contains(tied)) {
            names.insert(tied.to_owned());
        }
    }
    names.into_iter().collect()
}

/// Returns the names of the weights that are quantised in the result, including those that stay what they were.
pub(crate) fn quantised(plan: &Plan) -> impl Iterator<Item = &str> {
    let made = plan.jobs.iter().filter(|job| matches!(job.output, Output::Quantise(_)));
    made.map(|job| &job.name[..]).chain(plan.left.keys().map(|name| &name[..]))
}

/// Returns what compressed-tensors does not quantise. Its names are those of modules, which transformers may call otherwise than files do.
/// So expressions are added for what is nowhere quantised, as are those of the source.
fn ignored_modules(it: &Checkpoint, plan: &Plan) -> Vec<String> {
    let mut names = ignored(it, plan);
    let mut expressions = BTreeSet::new();
    // A part of the names of modules, and of their names in files.
    for (part, of_file) in [
        ("lm_head", "lm_head"),
        ("lm_head", "embed_out"),
        ("router", "router"),
        ("router", ".gate"),
        ("visual", "visual"),
        ("vision", "vision"),
    ] {
        let is_in_file =
            |name: &String| if of_file == ".gate" { name.ends_with(of_file) } else { name.contains(of_file) };
        if names.iter().any(is_in_file) && !quantised(plan).any(|name| name.contains(part)) {
            expressions.insert(format!("re:.*{part}.*"));
        }
    }
    let given = it.claims().and_then(|claim| claim.get("ignore")?.as_array());
    for text in given.into_iter().flatten().filter_map(Value::as_str) {
        let fits = |expression: &str| Regex::new(&format!("^(?:{expression})")).ok();
        if let Some(fits) = text.strip_prefix("re:").and_then(fits)
            && !quantised(plan).any(|name| fits.is_match(name))
        {
            expressions.insert(text.to_owned());
        }
    }
    names.extend(expressions);
    names
}

/// Returns the `quantization_config` of the result. None if its layout has none.
fn quantisation(it: &Checkpoint, plan: &Plan) -> Option<Value> {
    let (layout, format) = plan.layout.as_ref()?;
    let ignore = ignored(it, plan);
    let ct = |named: &str, weights: Value, activations: Value| {
        json!({
            "quant_method": "compressed-tensors",
            "format": named,
            "quantization_status": "compressed",
            "ignore": ignored_modules(it, plan),
            "config_groups": { "group_0": {
                "targets": ["Linear"], "format": named, "weights": weights, "input_activations": activations,
            } },
        })
    };
    let weights = |bits: u32, kind: &str, strategy: &str, group: Option<u32>, scale: Option<&str>| {
        let mut value = json!({
            "num_bits": bits, "type": kind, "symmetric": true, "strategy": strategy, "group_size": group, "dynamic": false,
        });
        if let Some(scale) = scale {
            value["scale_dtype"] = scale.into();
        }
        value
    };
    let tokens = |bits: u32, kind: &str| json!({ "num_bits": bits, "type": kind, "symmetric": true, "strategy": "token", "dynamic": true });
    Some(match layout {
        Layout::Fp8Block => {
            let mut value = json!({
                "quant_method": "fp8", "activation_scheme": "dynamic",
                "weight_block_size": [format.block_rows, format.block_cols],
                "modules_to_not_convert": ignore,
            });
            // `scale_fmt` is about every weight. If none is quantised anew, the source may say it of scales of float32, too.
            let are_exponents = plan.scales.iter().all(|dtype| matches!(dtype, Dtype::U8 | Dtype::F8_E8M0));
            let is_said = || it.claims().is_some_and(|claim| claim.get("scale_fmt") == Some(&"ue8m0".into()));
            if are_exponents || !plan.anew && is_said() {
                value["scale_fmt"] = "ue8m0".into();
            }
            value
        }
        Layout::Fp8Channel => {
            ct("float-quantized", weights(8, "float", "channel", None, None), tokens(8, "float"))
        }
        Layout::Fp8Tensor => {
            ct("float-quantized", weights(8, "float", "tensor", None, None), tokens(8, "float"))
        }
        Layout::Int8Channel => {
            ct("int-quantized", weights(8, "int", "channel", None, None), tokens(8, "int"))
        }
        Layout::Int8Tensor => ct("int-quantized", weights(8, "int", "tensor", None, None), tokens(8, "int")),
        Layout::Mxfp8 => {
            ct("mxfp8-quantized", weights(8, "float", "group", Some(32), Some("torch.uint8")), Value::Null)
        }
        Layout::Mxfp4 => ct(
            "mxfp4-pack-quantized",
            weights(4, "float", "group", Some(32), Some("torch.uint8")),
            Value::Null,
        ),
        Layout::Nvfp4 => ct(
            "nvfp4-pack-quantized",
            weights(4, "float", "tensor_group", Some(16), Some("torch.float8_e4m3fn")),
            Value::Null,
        ),
        Layout::Int4Group | Layout::Int8Group => {
            let (strategy, group) = match format.block_cols {
                0 => ("channel", None),
                columns => ("group", Some(columns as u32)),
            };
            ct("pack-quantized", weights(format.elem.bits(), "int", strategy, group, None), Value::Null)
        }
        Layout::ModeloptFp8 | Layout::ModeloptNvfp4 => {
            let bits = if *layout == Layout::ModeloptFp8 { 8 } else { 4 };
            let mut weights = json!({ "dynamic": false, "num_bits": bits, "type": "float" });
            if *layout == Layout::ModeloptNvfp4 {
                weights["group_size"] = 16.into();
            }
            let mut value = json!({
                "quant_method": "modelopt", "quant_algo": algorithm(*layout), "kv_cache_scheme": null, "ignore": ignore,
                "config_groups": { "group_0": { "targets": ["Linear"], "weights": weights } },
            });
            value["producer"] = producer();
            value
        }
        Layout::GptOss => json!({ "quant_method": "mxfp4", "modules_to_not_convert": ignore }),
        Layout::ComfyFp8 | Layout::ComfyNvfp4 | Layout::ComfyMxfp8 | Layout::Awq | Layout::Gptq => {
            return None;
        }
    })
}

/// Returns ModelOpt's name of a layout: if there are several, one that leaves activations unquantised, as nothing is known of them.
const fn algorithm(layout: Layout) -> &'static str {
    match layout {
        Layout::ModeloptFp8 => "FP8",
        _ => "W4A16_NVFP4",
    }
}

/// Returns the `producer`, which loaders require.
fn producer() -> Value {
    json!({ "name": "modelopt", "version": concat!("lanecast ", env!("CARGO_PKG_VERSION")) })
}

/// Returns ModelOpt's own configuration, which lies beside `config.json`.
pub(crate) fn quant_config(it: &Checkpoint, plan: &Plan) -> Option<Vec<u8>> {
    let Some(&(layout, _)) = plan.layout.as_ref() else {
        // Weights that stay quantised need it.
        let mut config = it.quant_config.clone().filter(|_| !plan.left.is_empty())?;
        if let Some(own) = config.as_object_mut() {
            match own.contains_key("quantization") {
                true => say_dequantised_within(plan, own),
                // Later versions have the same keys here as in `config.json`.
                false if own.contains_key("quant_algo") => {
                    dequantised(plan, own, "ignore");
                    forget_caches(plan, own);
                }
                false => {}
            }
        }
        return Some(pretty(&config));
    };
    if !matches!(layout, Layout::ModeloptFp8 | Layout::ModeloptNvfp4) {
        return None;
    }
    let mut quantisation = json!({
        "quant_algo": algorithm(layout), "kv_cache_quant_algo": null, "exclude_modules": ignored(it, plan),
    });
    if layout == Layout::ModeloptNvfp4 {
        quantisation["group_size"] = 16.into();
    }
    Some(pretty(&json!({ "producer": producer(), "quantization": quantisation })))
}

/// Adds the names of modules that are no longer quantised to a list, and to those of other versions of a loader that are there. A list that
/// is not there begins with what those have.
fn dequantised(plan: &Plan, claim: &mut Map<String, Value>, list: &str) {
    const LISTS: [&str; 4] = ["modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"];
    let names = named(plan);
    if names.is_empty() {
        return;
    }
    let mut known: Vec<Value> = Vec::new();
    for value in LISTS.iter().filter_map(|key| claim.get(*key)?.as_array()).flatten() {
        if !known.contains(value) {
            known.push(value.clone());
        }
    }
    for key in LISTS {
        let given = claim.get(key).and_then(Value::as_array).cloned();
        if let Some(given) = given.or_else(|| (key == list).then(|| known.clone())) {
            let all = given.into_iter().chain(names.iter().cloned().map(Value::from));
            claim.insert(key.to_owned(), all.collect());
        }
    }
}

/// Says in the configuration of GPTQ which modules are no longer quantised: it has no list of them, but rules for names, of which the first
/// that fits decides. Some engines look for the module that they make of several.
fn dequantised_of_gptq(plan: &Plan, claim: &mut Map<String, Value>) {
    let mut names = named(plan);
    let some: BTreeSet<String> = quantised(plan).map(plan::fused).collect();
    let mut parts: BTreeMap<String, usize> = BTreeMap::new();
    for job in floats(plan).filter(|job| experts(&job.name).is_none()) {
        *parts.entry(plan::fused(&job.name)).or_default() += 1;
    }
    let whole = parts.into_iter().filter(|(name, parts)| *parts > 1 && !some.contains(name));
    names.extend(whole.filter_map(|(name, _)| name.strip_suffix(".weight").map(str::to_owned)));
    if !names.is_empty() {
        let given = claim.get("dynamic").and_then(Value::as_object).cloned().unwrap_or_default();
        let now = names.iter().map(|name| (format!("-:^{}$", regex::escape(name)), json!({})));
        claim.insert("dynamic".to_owned(), now.chain(given).collect());
    }
}

/// Says in the quantisation of a configuration which modules are no longer quantised, and that scales of caches are gone.
fn say_dequantised(plan: &Plan, claim: &mut Map<String, Value>) {
    let is_left = |is: fn(Layout) -> bool| plan.left.values().any(|&layout| is(layout));
    let has_ignore = |layout: Layout| {
        layout.is_of_compressed_tensors() || matches!(layout, Layout::ModeloptFp8 | Layout::ModeloptNvfp4)
    };
    let method = claim.get("quant_method").and_then(Value::as_str);
    if is_left(|layout| layout == Layout::Gptq) {
        dequantised_of_gptq(plan, claim);
    } else if method.map_or(is_left(has_ignore), |it| ["compressed-tensors", "modelopt"].contains(&it)) {
        dequantised(plan, claim, "ignore");
    } else {
        dequantised(plan, claim, "modules_to_not_convert");
    }
    forget_caches(plan, claim);
    say_dequantised_within(plan, claim);
}

/// Says the same in ModelOpt's own `quantization`, if a configuration has that.
fn say_dequantised_within(plan: &Plan, config: &mut Map<String, Value>) {
    if let Some(own) = config.get_mut("quantization").and_then(Value::as_object_mut) {
        dequantised(plan, own, "exclude_modules");
        forget_caches(plan, own);
    }
}

/// Returns the beginning of a name, up to the number of the layer; nothing of a name without one.
fn layer(name: &str) -> &str {
    let mut end = 0;
    for part in name.split_inclusive('.') {
        end += part.len();
        let part = part.trim_end_matches('.');
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &name[..end];
        }
    }
    ""
}

/// Says that caches are not quantised, if a layer of the result has lost their scales, or none has any: without them, engines take 1.
fn forget_caches(plan: &Plan, claim: &mut Map<String, Value>) {
    let mut lost = plan.dropped.keys().filter(|name| layout::is_called_of_cache(name)).peekable();
    if lost.peek().is_none() {
        return;
    }
    let layers: BTreeSet<&str> = plan.jobs.iter().map(|job| layer(&job.name)).collect();
    let has_scales = plan.jobs.iter().any(|job| layout::is_called_of_cache(&job.name));
    if !has_scales || lost.any(|name| layers.contains(layer(name))) {
        for key in ["kv_cache_scheme", "kv_cache_quant_algo"] {
            claim.get_mut(key).into_iter().for_each(|value| *value = Value::Null);
        }
    }
}

/// Returns the files that GPTQ and AWQ have beside `config.json`, if weights are no longer quantised and others stay so.
pub(crate) fn packed_configs<'a>(it: &'a Checkpoint, plan: &Plan) -> Vec<(&'a str, Vec<u8>)> {
    let is_about_left = plan.left.values().any(|layout| layout.is_read_alone());
    if plan.layout.is_some() || !is_about_left || floats(plan).next().is_none() {
        return Vec::new();
    }
    let rewritten = it.packed_configs.iter().filter_map(|(name, config)| {
        let mut config = config.clone();
        say_dequantised(plan, config.as_object_mut()?);
        Some((&name[..], pretty(&config)))
    });
    rewritten.collect()
}

/// Returns the quantisation in a configuration, where [`Checkpoint::claims`] finds it, and removes others.
fn claim(object: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let is_said = |object: &Map<String, Value>, key: &str| object.get(key).is_some_and(|it| !it.is_null());
    if is_said(object, "quantization_config") {
        remove_others(object);
        return object.get_mut("quantization_config")?.as_object_mut();
    }
    let value = match is_said(object, "compression_config") {
        true => object.get_mut("compression_config"),
        false => object.get_mut("text_config")?.get_mut("quantization_config"),
    };
    value?.as_object_mut()
}

/// Removes the quantisation where older configurations have it, and those of models with a text model.
fn remove_others(object: &mut Map<String, Value>) {
    object.shift_remove("compression_config");
    if let Some(text) = object.get_mut("text_config").and_then(Value::as_object_mut) {
        text.shift_remove("quantization_config");
    }
}

/// Returns the configuration of the result: that of the source with another `quantization_config` and dtype.
pub(crate) fn config(it: &Checkpoint, plan: &Plan) -> Option<Vec<u8>> {
    let mut config = it.config.clone()?;
    let object = config.as_object_mut()?;
    // Tensors that were dropped may be quantised weights, or scales of caches.
    let is_dropped = !plan.dropped.is_empty() && plan.from.split('+').any(|it| Layout::named(it).is_some());
    if is_dropped || plan.jobs.iter().any(|job| !matches!(job.output, Output::Copy)) {
        // Weights that stay quantised need the configuration of the source, which also names those that are not quantised.
        if plan.left.is_empty() || it.claims().is_none() {
            object.shift_remove("quantization_config");
            remove_others(object);
        } else if plan.layout.is_none()
            && let Some(value) = claim(object).filter(|value| !value.is_empty())
        {
            say_dequantised(plan, value);
        }
    }
    if let Some(value) = quantisation(it, plan) {
        remove_others(object);
        object.insert("quantization_config".to_owned(), value);
    }
    // Loaders make no model of floats of 8 bits.
    let dtype = if plan.layout.is_some() { plan.high } else { plan.plain.filter(|dtype| dtype.bits() > 8) };
    if let Some(dtype) = dtype {
        let nested = ["text_config", "vision_config", "audio_config"];
        let set = |of: &mut Map<String, Value>| {
            for key in ["dtype", "torch_dtype"] {
                if let Some(value) = of.get_mut(key).filter(|value| value.is_string()) {
                    *value = dtype.name().into();
                }
            }
        };
        set(object);
        nested.iter().filter_map(|key| object.get_mut(*key)?.as_object_mut().map(set)).for_each(drop);
    }
    Some(pretty(&config))
}

/// Returns the name of the index of the result, if that has more than one file, or the source has an index.
pub(crate) fn index_name<'a>(it: &'a Checkpoint, plan: &Plan) -> Option<&'a str> {
    // One file with the name that loaders look for needs no index.
    let plain = plan.shards.len() == 1 && !plan.shards[0].name.contains("-of-");
    let name = it.index.as_ref().map_or("model.safetensors.index.json", |(name, _)| name);
    (!plain && (it.index.is_some() || plan.shards.len() > 1)).then_some(name)
}

/// Returns the contents of the index of the result.
pub(crate) fn index(it: &Checkpoint, plan: &Plan) -> Vec<u8> {
    #[derive(Serialize)]
    struct Index<'a> {
        metadata: Map<String, Value>,
        weight_map: BTreeMap<&'a str, &'a str>,
    }
    let (mut size, mut parameters) = (0u64, 0u64);
    let mut weight_map = BTreeMap::new();
    for shard in &plan.shards {
        for &job in &shard.jobs {
            for (i, out) in plan.jobs[job].outs.iter().enumerate() {
                size += byte_len(out.dtype, &out.shape);
                if i == 0 {
                    let codes = if let Output::Quantise(target) = &plan.jobs[job].output {
                        u64::from(target.format.elem.bits())
                    } else {
                        out.dtype.bitsize() as u64
                    };
                    parameters += byte_len(out.dtype, &out.shape) * 8 / codes;
                }
                weight_map.insert(&out.name[..], &shard.name[..]);
            }
        }
    }
    let mut metadata = Map::new();
    if it.index.as_ref().is_some_and(|(_, metadata)| metadata.get("total_parameters").is_some()) {
        metadata.insert("total_parameters".to_owned(), parameters.into());
    }
    metadata.insert("total_size".to_owned(), size.into());
    pretty(&Index { metadata, weight_map })
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("a value is JSON");
    bytes.push(b'\n');
    bytes
}
