//! `config.json` and the index of a result.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use safetensors::Dtype;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::checkpoint::Checkpoint;
use crate::defaults;
use crate::header::byte_len;
use crate::layout::{self, Layout};
use crate::plan::{Input, Job, Output, Plan};

/// Returns the names of modules that could be quantised and are not.
fn ignored(it: &Checkpoint, plan: &Plan) -> Vec<String> {
    let mut names = BTreeSet::new();
    for job in plan.jobs.iter().filter(|job| !matches!(job.output, Output::Quantise(_))) {
        let is_kept = plan.kept.get(&job.name).is_some_and(|reason| *reason != "it has that layout");
        if !is_kept && !plan.copied_floats.contains(&job.name) {
            continue;
        }
        let tensor = job.input.main();
        let module = job.name.strip_suffix(".weight");
        match tensor.shape.len() {
            2 => names.extend(module.map(str::to_owned)),
            // All experts are in one tensor. Its module has several such tensors, or has another name in the file.
            3 if defaults::is_fused_experts(tensor) => {
                let parent = job
                    .name
                    .strip_suffix(".weight")
                    .unwrap_or(&job.name)
                    .rsplit_once('.')
                    .map(|(parent, _)| parent);
                names.extend(parent.map(|parent| match module {
                    Some(_) => format!("{parent}.experts"),
                    None => parent.to_owned(),
                }));
                names.extend(module.map(str::to_owned));
            }
            _ => {}
        }
    }
    // Loaders may make one module of experts that are many in the file.
    let experts = |name: &str| Some(name[..name.find(".experts.")? + ".experts".len()].to_owned());
    let some: BTreeSet<_> = quantised(plan).filter_map(experts).collect();
    let whole: Vec<_> =
        names.iter().filter_map(|name| experts(name)).filter(|name| !some.contains(name)).collect();
    names.extend(whole);
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
fn quantised(plan: &Plan) -> impl Iterator<Item = &str> {
    let is_there = |job: &&Job| plan.kept.get(&job.name) == Some(&"it has that layout");
    let is_quantised = move |job: &&Job| matches!(job.output, Output::Quantise(_)) || is_there(job);
    plan.jobs.iter().filter(is_quantised).map(|job| &job.name[..])
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
        let mut config = it.quant_config.clone().filter(|_| plan.left)?;
        let names = config.get_mut("quantization")?.as_object_mut()?.entry("exclude_modules");
        dequantised(plan, names.or_insert_with(|| json!([])));
        forget_caches(plan, config.get_mut("quantization")?.as_object_mut()?);
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

/// Returns the names of modules that are no longer quantised. Experts in one tensor are a parameter of theirs.
fn no_longer(plan: &Plan) -> BTreeSet<&str> {
    let now = plan.jobs.iter().filter(|job| matches!(job.input, Input::Scaled(..)));
    now.filter_map(|job| job.name.strip_suffix(".weight").or_else(|| Some(job.name.rsplit_once('.')?.0)))
        .collect()
}

/// Adds the names of modules that are no longer quantised.
fn dequantised(plan: &Plan, names: &mut Value) {
    let mut all = names.as_array().cloned().unwrap_or_default();
    all.extend(no_longer(plan).into_iter().map(Value::from));
    *names = all.into();
}

/// Says in the configuration of GPTQ which modules are no longer quantised: it has no list of them, but rules for names, of which the first
/// that fits decides.
fn dequantised_of_gptq(plan: &Plan, rules: &mut Value) {
    let now = no_longer(plan).into_iter().map(|name| (format!("-:^{}$", regex::escape(name)), json!({})));
    let given = rules.as_object().cloned().unwrap_or_default();
    *rules = Value::Object(now.chain(given).collect());
}

/// Says in the quantisation of a configuration which modules are no longer quantised, and that scales of caches are gone.
fn say_dequantised(plan: &Plan, claim: &mut Map<String, Value>, method: &str) {
    match method {
        "gptq" => dequantised_of_gptq(plan, claim.entry("dynamic").or_insert_with(|| json!({}))),
        "compressed-tensors" | "modelopt" => {
            dequantised(plan, claim.entry("ignore").or_insert_with(|| json!([])));
        }
        _ => dequantised(plan, claim.entry("modules_to_not_convert").or_insert_with(|| json!([]))),
    }
    forget_caches(plan, claim);
}

/// Says that caches are not quantised, if their scales are not in the result: without them, engines take 1.
fn forget_caches(plan: &Plan, claim: &mut Map<String, Value>) {
    if plan.dropped.keys().any(|name| layout::is_called_of_cache(name)) {
        for key in ["kv_cache_scheme", "kv_cache_quant_algo"] {
            claim.get_mut(key).into_iter().for_each(|value| *value = Value::Null);
        }
    }
}

/// Returns the file that GPTQ and AWQ have beside `config.json`, and its name, if weights are no longer quantised and others stay so.
pub(crate) fn packed_config<'a>(it: &'a Checkpoint, plan: &Plan) -> Option<(&'a str, Vec<u8>)> {
    let (name, config) = it.packed_config.as_ref()?;
    if !plan.left || no_longer(plan).is_empty() {
        return None;
    }
    let mut config = config.clone();
    let object = config.as_object_mut()?;
    let of_file = if name == "quantize_config.json" { "gptq" } else { "awq" };
    let method = object.get("quant_method").and_then(Value::as_str).unwrap_or(of_file).to_owned();
    say_dequantised(plan, object, &method);
    Some((name, pretty(&config)))
}

/// Returns the quantisation in a configuration, where [`Checkpoint::claims`] finds it.
fn claim(object: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let known = ["quantization_config", "compression_config"];
    let value = match known.into_iter().find(|key| object.get(*key).is_some_and(|it| !it.is_null())) {
        Some(key) => object.get_mut(key),
        None => object.get_mut("text_config")?.get_mut("quantization_config"),
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
    if plan.jobs.iter().any(|job| !matches!(job.output, Output::Copy)) {
        // Weights that stay quantised need the configuration of the source, which also names those that are not quantised.
        let still = plan.left && it.claims().is_some();
        if still
            && plan.layout.is_none()
            && let Some(value) = claim(object)
        {
            let method = value.get("quant_method").and_then(Value::as_str).unwrap_or("").to_owned();
            say_dequantised(plan, value, &method);
        }
        if !still {
            object.shift_remove("quantization_config");
            remove_others(object);
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
