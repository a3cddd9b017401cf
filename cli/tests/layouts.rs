//! Layouts and configurations: what stays, what is renamed, and what has odd names or shapes.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{Random, Tensors, bf16s, f32s, fails, le, listing, ok, read, write};
use safetensors::Dtype;
use serde_json::{Value, json};

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A directory with these tensors and this configuration.
fn checkpoint(dir: &Path, tensors: &Tensors, config: &Value) {
    fs::create_dir_all(dir).unwrap();
    write(&dir.join("model.safetensors"), tensors, None);
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

/// Runs the program, which must end within seconds, and returns what it says on stderr.
#[track_caller]
fn in_time(dir: &Path, text: &str, code: i32) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lanecast"))
        .args(text.split(' '))
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{text}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{text}: {error}");
    error
}

/// As with --keep: the configuration of the result is about all weights.
#[test]
fn scales_that_are_copied_have_the_names_of_the_layout() {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({ "quantization_config": { "quant_method": "compressed-tensors", "format": "float-quantized",
        "config_groups": { "group_0": { "targets": ["Linear"], "weights": { "strategy": "block", "block_structure": [128, 128] } } },
    } });
    let scales = le(&[0.5, 0.25]);
    let tensors: Tensors = vec![
        ("l.up_proj.weight".into(), Dtype::F8_E4M3, vec![256, 128], Random(1).e4m3(256 * 128)),
        ("l.up_proj.weight_scale".into(), Dtype::F32, vec![2, 1], scales.clone()),
        ("l.down_proj.weight".into(), Dtype::BF16, vec![128, 128], bf16s(&Random(2).floats(128 * 128))),
    ];
    checkpoint(&dir.path().join("src"), &tensors, &config);
    for option in ["--copy *up_proj*", "--copy l.up_proj.weight", "--keep *up_proj*"] {
        ok(dir.path(), &format!("convert src dst --to fp8-block {option} --force --quiet"));
        let all = read(&dir.path().join("dst/model.safetensors"));
        assert_eq!(all["l.up_proj.weight_scale_inv"], (Dtype::F32, vec![2, 1], scales.clone()), "{option}");
        assert!(!all.contains_key("l.up_proj.weight_scale"), "{option}");
        assert!(all.contains_key("l.down_proj.weight_scale_inv"), "{option}");
    }
    // Where the configuration stays, the names stay.
    ok(dir.path(), "convert src dst --to bf16 --copy *up_proj* --force --quiet");
    assert!(read(&dir.path().join("dst/model.safetensors")).contains_key("l.up_proj.weight_scale"));
}

/// A tensor without elements may have any other extents.
#[test]
fn weights_without_elements_take_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let codes = |shape: &[usize]| ("a.weight".to_owned(), Dtype::F8_E4M3, shape.to_vec(), Vec::new());
    let many = 1 << 60;
    for shape in [&[many, 0, 5][..], &[many, 5, 0], &[0, many], &[many, 0]] {
        let scale = ("a.weight_scale".to_owned(), Dtype::F32, vec![1], le(&[0.5]));
        write(&dir.path().join("a.safetensors"), &vec![codes(shape), scale], None);
        for to in ["bf16", "f32"] {
            in_time(dir.path(), &format!("convert a.safetensors b.safetensors --to {to} --force --quiet"), 0);
            assert_eq!(read(&dir.path().join("b.safetensors"))["a.weight"].1, shape);
        }
        in_time(dir.path(), "verify a.safetensors a.safetensors", 0);
        in_time(dir.path(), "inspect a.safetensors --stats", 0);
    }
    let tensor = |name: &str, shape: &[usize]| (name.to_owned(), Dtype::U8, shape.to_vec(), Vec::new());
    let blocks = tensor("a_blocks", &[1 << 16, 0, 1 << 42, 16]);
    let scales = tensor("a_scales", &[1 << 16, 0, 1 << 42]);
    write(&dir.path().join("a.safetensors"), &vec![blocks, scales], None);
    in_time(dir.path(), "convert a.safetensors b.safetensors --to bf16 --force --quiet", 0);
    assert_eq!(read(&dir.path().join("b.safetensors"))["a"].1, [1 << 16, 1 << 47, 0]);
    in_time(dir.path(), "verify a.safetensors b.safetensors", 0);
    // Two codes to a byte, and 32 to a block, have more values than there are numbers.
    for (names, shape, scales) in [
        (["a.weight", "a.weight_scale"], &[0, 1 << 63][..], &[0, 1][..]),
        (["a_blocks", "a_scales"], &[0, 1, many, 16], &[0, 1, many]),
        (["a_blocks", "a_scales"], &[many, 0, 4, 16], &[many, 0, 4]),
    ] {
        let both = vec![tensor(names[0], shape), tensor(names[1], scales)];
        write(&dir.path().join("a.safetensors"), &both, None);
        let error = in_time(dir.path(), "convert a.safetensors c.safetensors --to bf16", 3);
        assert!(error.contains(names[0]) && error.contains("overflows"), "{error}");
    }
}

/// What one factor is found from lies in several files: zero points, too.
#[test]
fn a_run_goes_on_with_zero_points_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = |i: usize| at("src").join(format!("model-0000{i}-of-00003.safetensors"));
    fs::create_dir(at("src")).unwrap();
    let parts = |name: &str| -> Tensors {
        vec![
            (format!("{name}.qweight"), Dtype::I32, vec![4, 32], vec![0x21; 512]),
            (format!("{name}.scales"), Dtype::F16, vec![1, 32], [0, 0x3C].repeat(32)),
        ]
    };
    let zeros = |name: &str, byte: u8| (format!("{name}.qzeros"), Dtype::I32, vec![1, 4], vec![byte; 16]);
    let hour = Duration::from_secs(3600);
    let write_at = |i: usize, tensors: &Tensors, time: SystemTime| {
        write(&file(i), tensors, None);
        fs::File::options().write(true).open(file(i)).unwrap().set_modified(time).unwrap();
    };
    for rank in [0, 1] {
        for name in ["dst", "whole"] {
            let _ = fs::remove_dir_all(at(name));
        }
        let now = SystemTime::now();
        let mut first = parts("l.q_proj");
        first.push(zeros("l.q_proj", 0x11));
        write_at(1, &first, now - 2 * hour);
        write_at(2, &parts("l.k_proj"), now - 2 * hour);
        write_at(3, &vec![zeros("l.k_proj", 0x22)], now - 2 * hour);
        ok(dir.path(), &format!("convert src dst --to nvfp4 --quiet --rank {rank} --of 2"));
        write_at(3, &vec![zeros("l.k_proj", 0xEE)], now - hour);
        ok(dir.path(), "convert src dst --to nvfp4 --quiet --resume");
        ok(dir.path(), "convert src whole --to nvfp4 --quiet");
        assert!(listing(&at("dst")) == listing(&at("whole")), "rank {rank}");
    }
}

/// What is written is recognised: a matrix that is no `weight` of a module has only the scales of fp8-block.
#[test]
fn weights_without_a_module_have_scales_that_are_read_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("a.in_proj_weight".into(), Dtype::BF16, vec![32, 32], bf16s(&Random(1).floats(1024))),
        ("a.out_proj.weight".into(), Dtype::BF16, vec![32, 32], bf16s(&Random(2).floats(1024))),
    ];
    checkpoint(&dir.path().join("src"), &tensors, &json!({}));
    let only = "--only a.in_proj_weight --only *out_proj*";
    ok(dir.path(), &format!("convert src fp8 --to fp8-block {only} --quiet"));
    ok(dir.path(), "verify src fp8 --max-rms-error 0.1");
    for to in
        ["mxfp8", "mxfp4", "nvfp4", "fp8-channel", "modelopt-fp8", "int4-group --group-size 32", "comfy-fp8"]
    {
        for (src, more, help) in [("src", only, "--keep"), ("fp8", "", "convert it to bf16 first")] {
            let error = fails(dir.path(), &format!("convert {src} no --to {to} {more}"), 3);
            assert!(error.contains("a.in_proj_weight: ") && error.contains("ends in '.weight'"), "{error}");
            assert!(error.contains(help), "{error}");
        }
        // By default, such a float stays.
        ok(dir.path(), &format!("convert src out --to {to} --force --quiet"));
        let from = to.split(' ').next().unwrap();
        let found = ok(dir.path(), &format!("inspect out --json --from {from}"));
        assert_eq!(found["problems"], json!([]), "{to}");
    }
}

/// Of three dimensions, fp8-block takes the projections of experts alone.
#[test]
fn what_lies_beside_the_projections_of_experts_stays() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = [
        "l.0.experts.0.pos",
        "l.0.experts.token_mixer",
        "l.0.experts.scale.weight",
        "l.0.experts.gate_up_proj",
        "l.0.experts.down_proj",
        "l.1.experts.fc1.weight",
    ]
    .iter()
    .map(|name| ((*name).into(), Dtype::BF16, vec![2, 32, 32], bf16s(&Random(3).floats(2048))))
    .collect();
    checkpoint(&dir.path().join("src"), &tensors, &json!({}));
    ok(dir.path(), "convert src dst --to fp8-block --quiet");
    let all = read(&dir.path().join("dst/model.safetensors"));
    for (name, dtype, ..) in &tensors[..3] {
        assert_eq!(all[name].0, *dtype, "{name}");
    }
    for (name, ..) in &tensors[3..] {
        assert_eq!(all[name].0, Dtype::F8_E4M3, "{name}");
    }
    let text = fs::read_to_string(dir.path().join("dst/config.json")).unwrap();
    assert!(!text.contains("l.0.experts\"") && text.contains("quant_method"), "{text}");
    // A whole name is an order.
    ok(dir.path(), "convert src dst --to fp8-block --only l.0.experts.0.pos --force --quiet");
    assert_eq!(read(&dir.path().join("dst/model.safetensors"))["l.0.experts.0.pos"].0, Dtype::F8_E4M3);
}

/// Weights of `modelopt-fp8`, and scales of caches, with both of ModelOpt's configurations.
fn of_modelopt(dir: &Path, claim: &Value, own: &Value) {
    let mut tensors = Tensors::new();
    for layer in ["l.0", "l.1"] {
        tensors.push((format!("{layer}.up_proj.weight"), Dtype::F8_E4M3, vec![16, 16], Random(4).e4m3(256)));
        tensors.push((format!("{layer}.up_proj.weight_scale"), Dtype::F32, vec![], le(&[0.5])));
        for cache in ["k_scale", "v_scale"] {
            tensors.push((format!("{layer}.attn.{cache}"), Dtype::F32, vec![], le(&[0.5])));
        }
    }
    checkpoint(dir, &tensors, &json!({ "quantization_config": claim }));
    fs::write(dir.join("hf_quant_config.json"), own.to_string()).unwrap();
}

/// ModelOpt says the same in two files, each with the keys of one of its versions.
#[test]
fn every_configuration_of_modelopt_follows_what_becomes_a_float() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let nested = |exclude: &[&str], cache: Value| json!({ "quant_algo": "FP8", "kv_cache_quant_algo": cache, "exclude_modules": exclude });
    for (is_nested, is_flat) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut claim = json!({ "quant_method": "modelopt" });
        if is_nested {
            claim["quantization"] = nested(&["x"], json!("FP8"));
        }
        let flat = json!({ "quant_algo": "FP8", "ignore": ["x"], "kv_cache_scheme": { "num_bits": 8 } });
        let own = match is_flat {
            true => flat,
            false => json!({ "producer": {}, "quantization": nested(&["x"], json!("FP8")) }),
        };
        of_modelopt(&at("src"), &claim, &own);
        ok(dir.path(), "convert src out --to bf16 --keep l.0.* --force --quiet");
        let (claim, own) = (json_of(&at("out/config.json")), json_of(&at("out/hf_quant_config.json")));
        let claim = &claim["quantization_config"];
        let expected = nested(&["x", "l.1.up_proj"], Value::Null);
        if is_nested {
            assert_eq!(claim["quantization"], expected, "{claim}");
        }
        assert!(claim["ignore"].as_array().unwrap().contains(&json!("l.1.up_proj")), "{claim}");
        match is_flat {
            true => {
                assert_eq!(own["ignore"], json!(["x", "l.1.up_proj"]), "{own}");
                assert!(own["kv_cache_scheme"].is_null() && own.get("exclude_modules").is_none(), "{own}");
            }
            false => assert_eq!(own, json!({ "producer": {}, "quantization": expected })),
        }
        // Nothing is left of either where all weights are floats, or of another layout.
        ok(dir.path(), "convert src out --to bf16 --force --quiet");
        assert!(json_of(&at("out/config.json")).get("quantization_config").is_none());
        assert!(!at("out/hf_quant_config.json").exists());
        ok(dir.path(), "convert src out --to fp8-block --force --quiet");
        let claim = &json_of(&at("out/config.json"))["quantization_config"];
        assert!(claim["quant_method"] == "fp8" && claim.get("quantization").is_none(), "{claim}");
        assert!(!at("out/hf_quant_config.json").exists());
    }
}

/// Caches stay quantised where only the scales of layers are gone that are gone themselves.
#[test]
fn caches_of_the_layers_that_are_left_stay_quantised() {
    let dir = tempfile::tempdir().unwrap();
    let own = json!({ "quantization": { "quant_algo": "FP8", "kv_cache_quant_algo": "FP8" } });
    let claim = json!({ "quant_method": "modelopt", "kv_cache_scheme": { "num_bits": 8 } });
    of_modelopt(&dir.path().join("src"), &claim, &own);
    for (options, stays) in [
        ("--drop l.1.* --copy l.0.*", true),
        ("--drop l.1.up_proj* --copy l.0.* --copy *k_scale --copy *v_scale", true),
        ("--drop l.1.attn.* --copy l.0.* --copy l.1.up_proj*", false),
        ("--drop l.1.attn.k_scale --copy l.0.* --copy l.1.up_proj* --copy *v_scale", false),
        ("--drop *attn* --copy *up_proj*", false),
        ("--drop l.1.* --drop l.0.attn.* --copy l.0.up_proj*", false),
    ] {
        ok(dir.path(), &format!("convert src out --to bf16 {options} --force --quiet"));
        let claim = &json_of(&dir.path().join("out/config.json"))["quantization_config"];
        assert_eq!(claim["kv_cache_scheme"].is_object(), stays, "{options}: {claim}");
        let own = json_of(&dir.path().join("out/hf_quant_config.json"));
        assert_eq!(own["quantization"]["kv_cache_quant_algo"].is_string(), stays, "{options}: {own}");
    }
}

/// Writers spell the size of a block in several ways.
#[test]
fn sizes_of_blocks_are_read_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![192, 96], vec![0x38; 192 * 96]),
        ("l.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[1.0, 2.0])),
    ];
    let set = |size: &Value| {
        let config = json!({ "quantization_config": { "quant_method": "compressed-tensors", "format": "float-quantized",
            "config_groups": { "group_0": { "targets": ["Linear"],
                "weights": { "strategy": "block", "block_structure": size } } } } });
        checkpoint(&dir.path().join("src"), &tensors, &config);
    };
    for size in [json!([96, 96]), json!([96.0, 96.0]), json!("96x96"), json!("96X96"), json!("96 X 96")] {
        set(&size);
        ok(dir.path(), "convert src dst --to f32 --force --quiet");
        let found = f32s(&read(&dir.path().join("dst/model.safetensors"))["l.weight"].2);
        assert!(found.iter().enumerate().all(|(i, &x)| x == if i / 96 < 96 { 1.0 } else { 2.0 }), "{size}");
    }
    for size in
        [json!([96.5, 96]), json!([-96.0, 96.0]), json!([1e300, 96]), json!("96y96"), json!([0.0, 96])]
    {
        set(&size);
        let error = fails(dir.path(), "convert src no --to f32", 3);
        assert!(error.contains("no block of rows and columns"), "{error}");
    }
}

/// A group for each weight takes no longer with expressions, and each weight has the blocks of its own.
#[test]
fn many_expressions_are_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let module = |i: usize| format!("model.layers.{}.mlp.experts.{}.up_proj", i / 100, i % 100);
    let expressions: [&dyn Fn(&str) -> String; 4] = [
        &|name| format!("re:{}$", name.replace('.', r"\.")),
        &|name| format!("re:{name}"),
        &|name| format!("re:.*{}$", &name["model".len()..]),
        &|name| format!(r"re:.*{}\.up_proj", name["model.".len()..name.len() - 8].replace(".mlp.", ".*")),
    ];
    let mut tensors = Tensors::new();
    let most = 4000;
    for i in 0..most {
        let blocks = 1 + i % 2;
        tensors.push((format!("{}.weight", module(i)), Dtype::F8_E4M3, vec![2, 3], vec![0x38; 6]));
        let scale =
            (format!("{}.weight_scale", module(i)), Dtype::F32, vec![1, blocks], le(&vec![1.0; blocks]));
        tensors.push(scale);
    }
    for expression in expressions {
        let group = |i: usize| {
            let size = [[4, 4], [4, 2]][i % 2];
            let group = json!({ "targets": [expression(&module(i))],
                "weights": { "strategy": "block", "block_structure": size } });
            (format!("group_{i}"), group)
        };
        let config = json!({ "quantization_config": { "quant_method": "compressed-tensors",
            "format": "float-quantized", "config_groups": (0..most).map(group).collect::<serde_json::Map<_, _>>(),
        } });
        checkpoint(&dir.path().join("src"), &tensors, &config);
        in_time(dir.path(), "convert src dst --to bf16 --dry-run", 0);
    }
}
