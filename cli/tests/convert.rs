//! Conversions: the bits, the layouts, what is refused, and that nothing but input and options decides the result.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{
    Random, Tensors, bf16, bf16s, f32s, fails, from_e2m1, from_e4m3, le, line, listing, ok, read, write,
};
use safetensors::Dtype;
use serde_json::{Value, json};

/// Two layers as DeepSeek has them, with ragged blocks, in two files; scales of one lie in the other.
fn deepseek(dir: &Path) -> HashMap<String, Vec<u16>> {
    let mut random = Random(1);
    let mut files: [Tensors; 2] = [Vec::new(), Vec::new()];
    let mut expected = HashMap::new();
    for (layer, shape) in [(0, [256, 384]), (1, [130, 200])] {
        let name = format!("model.layers.{layer}.mlp.down_proj.weight");
        let codes = random.e4m3(shape[0] * shape[1]);
        let grid = [shape[0].div_ceil(128), shape[1].div_ceil(128)];
        let scales: Vec<f32> = random.floats(grid[0] * grid[1]).iter().map(|x| x.abs() + 1e-4).collect();
        let values = (0..codes.len()).map(|i| {
            let (row, column) = (i / shape[1], i % shape[1]);
            let scale = scales[row / 128 * grid[1] + column / 128];
            // The product of 4 and 24 bits is exact in f64; from there one rounding, by way of odd.
            let exact = f64::from(from_e4m3(codes[i])) * f64::from(scale);
            let near = exact as f32;
            let odd = if f64::from(near) == exact || near.to_bits() & 1 == 1 {
                near
            } else if (f64::from(near) < exact) == (exact > 0.0) {
                f32::from_bits(near.to_bits() + 1)
            } else {
                f32::from_bits(near.to_bits() - 1)
            };
            bf16(odd)
        });
        expected.insert(name.clone(), values.collect());
        files[layer].push((name.clone(), Dtype::F8_E4M3, shape.to_vec(), codes));
        files[1].push((format!("{name}_scale_inv"), Dtype::F32, grid.to_vec(), le(&scales)));
    }
    files[0].push(("model.norm.weight".into(), Dtype::BF16, vec![64], bf16s(&random.floats(64))));
    files[1].push(("model.layers.1.bias".into(), Dtype::F32, vec![3], le(&[1.0, -0.1, 3e38])));
    files[1].push(("model.scalar".into(), Dtype::F32, vec![], le(&[0.3])));
    files[1].push(("model.nothing".into(), Dtype::F32, vec![0, 4], Vec::new()));
    files[1].push(("model.ids".into(), Dtype::I64, vec![2], vec![5; 16]));
    fs::create_dir_all(dir).unwrap();
    let mut map = serde_json::Map::new();
    for (i, tensors) in files.iter().enumerate() {
        let name = format!("model-0000{}-of-00002.safetensors", i + 1);
        write(&dir.join(&name), tensors, Some(HashMap::from([("format".into(), "pt".into())])));
        map.extend(tensors.iter().map(|(tensor, ..)| (tensor.clone(), json!(name))));
    }
    let index = json!({ "metadata": { "total_size": 1, "total_parameters": 1 }, "weight_map": map });
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let config = json!({ "architectures": ["X"], "torch_dtype": "float32", "quantization_config": {
        "quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic",
    } });
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    expected
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn fp8_blocks_become_bf16_by_one_rounding() {
    let dir = tempfile::tempdir().unwrap();
    let expected = deepseek(&dir.path().join("src"));
    let report = ok(dir.path(), "convert src dst --to bf16 --json");
    let dst = dir.path().join("dst");
    let mut all = read(&dst.join("model-00001-of-00002.safetensors"));
    all.extend(read(&dst.join("model-00002-of-00002.safetensors")));
    for (name, values) in &expected {
        let (dtype, _, bytes) = &all[name];
        assert_eq!(*dtype, Dtype::BF16);
        let found: Vec<u16> = bytes.as_chunks().0.iter().map(|&x| u16::from_le_bytes(x)).collect();
        assert!(found == *values, "{name}");
    }
    assert_eq!(all.len(), 7);
    assert_eq!(all["model.layers.1.bias"].2, bf16s(&[1.0, -0.1, 3e38]));
    assert_eq!(all["model.scalar"].2, bf16s(&[0.3]));
    assert_eq!(all["model.nothing"].1, [0, 4]);
    assert_eq!(all["model.ids"], (Dtype::I64, vec![2], vec![5; 16]));
    // The configuration no longer says quantised.
    assert_eq!(
        json_of(&dst.join("config.json")),
        json!({ "architectures": ["X"], "torch_dtype": "bfloat16" })
    );
    let index = json_of(&dst.join("model.safetensors.index.json"));
    let bytes: usize = all.values().map(|(_, _, bytes)| bytes.len()).sum();
    assert_eq!(index["metadata"]["total_size"], bytes);
    assert_eq!(index["weight_map"].as_object().unwrap().len(), 7);
    assert_eq!(fs::read(dst.join("tokenizer.json")).unwrap(), b"{}");
    assert_eq!(report["from"], "fp8-block");
    assert_eq!(report["tensors"]["dropped"], 2);
    let worst = report["max_rel_error"].as_f64().unwrap();
    assert!((1e-3..=2f64.powi(-8)).contains(&worst), "{worst}");
    // Of a tensor of no elements there is no smallest.
    let stats = line(dir.path(), "inspect src --stats");
    let stats = String::from_utf8_lossy(&stats.stdout);
    assert!(stats.contains("model.nothing") && !stats.contains("inf"), "{stats}");
    // Nothing hidden stays.
    assert!(listing(&dst).iter().all(|(name, _)| !name.starts_with('.')));
}

#[test]
fn the_result_depends_on_input_and_options_alone() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    for to in ["bf16", "fp8-channel", "fp8-tensor", "fp8-block"] {
        ok(dir.path(), &format!("convert src a-{to} --to {to} --threads 1 --quiet --only *proj*"));
        ok(
            dir.path(),
            &format!("convert src b-{to} --to {to} --threads 7 --memory 1M --quiet --only *proj*"),
        );
        let (a, b) = (dir.path().join(format!("a-{to}")), dir.path().join(format!("b-{to}")));
        assert!(listing(&a) == listing(&b), "{to}");
        // Each rank alone, the last one first.
        for rank in [1, 0] {
            ok(
                dir.path(),
                &format!("convert src c-{to} --to {to} --rank {rank} --of 2 --quiet --only *proj*"),
            );
        }
        assert!(listing(&a) == listing(&dir.path().join(format!("c-{to}"))), "{to}, ranks");
    }
}

#[test]
fn files_are_those_of_the_library() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    ok(dir.path(), "convert src dst --to bf16 --quiet");
    for name in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        let path = dir.path().join("dst").join(name);
        let ours = fs::read(&path).unwrap();
        let tensors = read(&path)
            .into_iter()
            .map(|(name, (dtype, shape, bytes))| (name, dtype, shape, bytes))
            .collect();
        write(&path, &tensors, Some(HashMap::from([("format".into(), "pt".into())])));
        assert!(ours == fs::read(&path).unwrap(), "{name}");
    }
}

/// A model of one layer in bfloat16.
fn model(dir: &Path) -> HashMap<String, Vec<f32>> {
    let mut random = Random(7);
    let mut tensors: Tensors = Vec::new();
    let mut values = HashMap::new();
    for (name, shape, large) in [
        ("model.embed_tokens.weight", vec![32, 64], 3.0),
        ("model.layers.0.self_attn.q_proj.weight", vec![128, 256], 3.0),
        ("model.layers.0.self_attn.k_proj.weight", vec![64, 256], 1.0),
        ("model.layers.0.mlp.down_proj.weight", vec![160, 96], 2.0),
        ("model.norm.weight", vec![64], 3.0),
    ] {
        let x: Vec<f32> = random.floats(shape.iter().product()).iter().map(|&x| x * large).collect();
        let bytes = bf16s(&x);
        let x = bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            .collect();
        values.insert(name.to_owned(), x);
        tensors.push((name.into(), Dtype::BF16, shape, bytes));
    }
    fs::create_dir_all(dir).unwrap();
    write(&dir.join("model.safetensors"), &tensors, None);
    fs::write(dir.join("config.json"), r#"{"torch_dtype":"bfloat16"}"#).unwrap();
    values
}

#[test]
fn quantised_weights_come_back_within_what_their_format_can() {
    let dir = tempfile::tempdir().unwrap();
    let values = model(&dir.path().join("src"));
    for (to, method, off) in [
        ("fp8-block", "fp8", 0.07),
        ("fp8-channel", "compressed-tensors", 0.07),
        ("fp8-tensor", "compressed-tensors", 0.07),
        ("int8-channel", "compressed-tensors", 0.035),
        ("int8-tensor", "compressed-tensors", 0.035),
        ("modelopt-fp8", "modelopt", 0.07),
        ("modelopt-nvfp4", "modelopt", 0.36),
        ("mxfp8", "compressed-tensors", 0.125),
        ("mxfp4", "compressed-tensors", 0.55),
        ("nvfp4", "compressed-tensors", 0.36),
    ] {
        let report = ok(dir.path(), &format!("convert src {to} --to {to} --json"));
        assert_eq!(report["tensors"]["converted"], 3, "{to}");
        assert_eq!(report["tensors"]["kept"], 2, "{to}");
        let inspected = ok(dir.path(), &format!("inspect {to} --json"));
        assert_eq!((&inspected["layout"], &inspected["problems"]), (&json!(to), &json!([])));
        let config = json_of(&dir.path().join(to).join("config.json"));
        assert_eq!(config["quantization_config"]["quant_method"], method, "{to}");
        ok(dir.path(), &format!("convert {to} {to}-back --to f32 --only *proj* --quiet"));
        let back = read(&dir.path().join(format!("{to}-back/model.safetensors")));
        for (name, x) in &values {
            let (_, _, bytes) = &back[name];
            if !name.contains("proj") {
                continue;
            }
            let largest = x.iter().fold(0f32, |a, x| a.max(x.abs()));
            for (x, y) in x.iter().zip(f32s(bytes)) {
                assert!((x - y).abs() <= off * x.abs().max(largest / 8.0), "{to} {name}: {x} became {y}");
            }
        }
    }
    // q and k go through one matrix product: one factor.
    let nvfp4 = read(&dir.path().join("nvfp4/model.safetensors"));
    let factor = |part: &str| &nvfp4[&format!("model.layers.0.{part}.weight_global_scale")].2;
    assert_eq!(factor("self_attn.q_proj"), factor("self_attn.k_proj"));
    assert_ne!(factor("self_attn.q_proj"), factor("mlp.down_proj"));
    let amax = ["q", "k"].iter().flat_map(|p| &values[&format!("model.layers.0.self_attn.{p}_proj.weight")]);
    let amax = amax.fold(0f32, |a, x| a.max(x.abs()));
    assert_eq!(f32s(factor("self_attn.q_proj")), [2688.0 / amax]);
}

#[test]
fn nibbles_lie_low_first_and_scales_are_powers_of_two() {
    let dir = tempfile::tempdir().unwrap();
    let values = model(&dir.path().join("src"));
    ok(dir.path(), "convert src dst --to mxfp4 --quiet");
    let all = read(&dir.path().join("dst/model.safetensors"));
    let name = "model.layers.0.mlp.down_proj.weight";
    let ((codes, _), (scales, shape)) = (
        (&all[&format!("{name}_packed")].2, ()),
        (&all[&format!("{name}_scale")].2, &all[&format!("{name}_scale")].1),
    );
    assert_eq!(*shape, [160, 3]);
    for (i, x) in values[name].iter().enumerate() {
        let code = codes[i / 2] >> (4 * (i % 2)) & 15;
        let scale = 2f32.powi(i32::from(scales[i / 32]) - 127);
        // Half the distance of two codes, or what saturates: of 8 to 6.
        assert!((x - from_e2m1(code) * scale).abs() <= 2.0 * scale, "element {i}");
    }
}

#[test]
fn gpt_oss_is_transposed() {
    let dir = tempfile::tempdir().unwrap();
    let (experts, rows, groups) = (2, 6, 3);
    let mut random = Random(3);
    let codes: Vec<u8> = (0..experts * rows * groups * 16).map(|_| random.next() as u8).collect();
    let scales: Vec<u8> = (0..experts * rows * groups).map(|_| 120 + (random.next() % 10) as u8).collect();
    let tensors: Tensors = vec![
        ("mlp.experts.gate_up_proj_blocks".into(), Dtype::U8, vec![experts, rows, groups, 16], codes.clone()),
        ("mlp.experts.gate_up_proj_scales".into(), Dtype::U8, vec![experts, rows, groups], scales.clone()),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --memory 1M --quiet");
    // Of equal losses the same is named, whatever the tiles: those of all codes that become 0, and of all values that do.
    let values =
        vec![("l.experts.w".into(), Dtype::F32, vec![2, 672, 331], le(&Random(5).floats(2 * 672 * 331)))];
    write(&dir.path().join("values.safetensors"), &values, None);
    for command in
        ["values.safetensors w.safetensors --to gpt-oss --only *", "a.safetensors w.safetensors --to e4m3"]
    {
        let report = |more: &str| ok(dir.path(), &format!("convert {command} --force --json {more}"));
        let whole = report("");
        assert_eq!(whole, report("--memory 1M --threads 5"), "{command}");
        assert_eq!(whole, report("--memory 64M --threads 1"), "{command}");
    }
    let all = read(&dir.path().join("b.safetensors"));
    let (dtype, shape, bytes) = &all["mlp.experts.gate_up_proj"];
    assert_eq!((*dtype, &shape[..]), (Dtype::BF16, &[experts, 32 * groups, rows][..]));
    for expert in 0..experts {
        for row in 0..rows {
            for column in 0..32 * groups {
                let block = (expert * rows + row) * groups + column / 32;
                let byte = codes[block * 16 + column % 32 / 2];
                let x =
                    from_e2m1(byte >> (4 * (column % 2)) & 15) * 2f32.powi(i32::from(scales[block]) - 127);
                let at = ((expert * 32 * groups + column) * rows + row) * 2;
                assert_eq!(bytes[at..at + 2], bf16(x).to_le_bytes());
            }
        }
    }
}

/// From plain weights to every layout that has no configuration, and back: the values are those that the codes have.
#[test]
fn layouts_without_a_configuration_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let x = bf16s(&Random(31).floats(2 * 96 * 64));
    let tensors: Tensors = vec![
        ("l.mlp.experts.down_proj".into(), Dtype::BF16, vec![2, 96, 64], x.clone()),
        ("l.mlp.experts.down_proj_bias".into(), Dtype::BF16, vec![2, 64], bf16s(&Random(32).floats(128))),
        ("l.proj.weight".into(), Dtype::BF16, vec![96, 128], x),
    ];
    write(&at("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors g.safetensors --to gpt-oss --memory 1M --threads 3 --quiet");
    let all = read(&at("g.safetensors"));
    assert_eq!(all["l.mlp.experts.down_proj_blocks"].1, [2, 64, 3, 16]);
    assert_eq!(all["l.mlp.experts.down_proj_scales"].1, [2, 64, 3]);
    assert_eq!(all["l.proj.weight"].0, Dtype::BF16);
    assert_eq!(ok(dir.path(), "inspect g.safetensors --json")["layout"], "gpt-oss");
    // Beside the same matrices, turned by hand, as mxfp4.
    let source = &tensors[0].3;
    let mut turned = Vec::new();
    for (matrix, column) in (0..2).flat_map(|m| (0..64).map(move |c| (m, c))) {
        for row in 0..96 {
            let i = ((matrix * 96 + row) * 64 + column) * 2;
            turned.extend(&source[i..i + 2]);
        }
    }
    write(&at("t.safetensors"), &vec![("x.weight".into(), Dtype::BF16, vec![128, 96], turned)], None);
    ok(dir.path(), "convert t.safetensors m.safetensors --to mxfp4 --quiet");
    let other = read(&at("m.safetensors"));
    assert!(all["l.mlp.experts.down_proj_blocks"].2 == other["x.weight_packed"].2);
    assert!(all["l.mlp.experts.down_proj_scales"].2 == other["x.weight_scale"].2);
    // What verify compares is turned back.
    ok(dir.path(), "convert g.safetensors back.safetensors --to f32 --quiet");
    ok(dir.path(), "verify g.safetensors back.safetensors --json");
    ok(dir.path(), "convert g.safetensors b.safetensors --to fp8-block --quiet");
    ok(dir.path(), "verify g.safetensors b.safetensors --max-abs-error 0.01 --json");
    // The same codes and scales as those of compressed-tensors' names, in another order.
    for (to, like, order) in [("comfy-nvfp4", "modelopt-nvfp4", true), ("comfy-mxfp8", "mxfp8", false)] {
        ok(dir.path(), &format!("convert a.safetensors {to}.safetensors --to {to} --only l.proj* --quiet"));
        ok(
            dir.path(),
            &format!("convert a.safetensors {like}.safetensors --to {like} --only l.proj* --quiet"),
        );
        let (comfy, plain) =
            (read(&at(&format!("{to}.safetensors"))), read(&at(&format!("{like}.safetensors"))));
        let codes = &plain["l.proj.weight"].2;
        let codes: Vec<u8> = codes.iter().map(|&x| if order { x.rotate_left(4) } else { x }).collect();
        assert!(comfy["l.proj.weight"].2 == codes, "{to}");
        let (scales, columns) = (&plain["l.proj.weight_scale"].2, plain["l.proj.weight_scale"].1[1]);
        let padded = &comfy["l.proj.weight_scale"];
        assert_eq!((padded.1[0], padded.1[1]), (128, columns.next_multiple_of(4)));
        for (i, scale) in scales.iter().enumerate() {
            let (r, c) = (i / columns, i % columns);
            let tile = r / 128 * columns.div_ceil(4) + c / 4;
            assert_eq!(padded.2[tile * 512 + r % 32 * 16 + r / 32 % 4 * 4 + c % 4], *scale, "{to} {r} {c}");
        }
        assert_eq!(comfy.contains_key("l.proj.weight_scale_2"), order);
        assert_eq!(ok(dir.path(), &format!("inspect {to}.safetensors --json"))["layout"], to);
        let from = if order { " --from modelopt-nvfp4" } else { "" };
        ok(dir.path(), &format!("convert {like}.safetensors x.safetensors --to f32 --force{from} --quiet"));
        ok(dir.path(), &format!("verify {to}.safetensors x.safetensors"));
    }
    let ragged: Tensors = vec![("l.weight".into(), Dtype::BF16, vec![24, 32], vec![0; 1536])];
    write(&at("r.safetensors"), &ragged, None);
    assert!(fails(dir.path(), "convert r.safetensors s.safetensors --to comfy-nvfp4", 3).contains("--keep"));
}

#[test]
fn comfy_reads_old_names_and_writes_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(4);
    let codes = random.e4m3(24);
    let tensors: Tensors = vec![
        ("scaled_fp8".into(), Dtype::F8_E4M3, vec![0], Vec::new()),
        ("l.weight".into(), Dtype::F8_E4M3, vec![4, 6], codes.clone()),
        ("l.scale_weight".into(), Dtype::F32, vec![], le(&[0.5])),
        ("l.scale_input".into(), Dtype::F32, vec![], le(&[1.0])),
        ("l.bias".into(), Dtype::F16, vec![1], vec![0, 0x3C]),
    ];
    write(&dir.path().join("t5.safetensors"), &tensors, None);
    ok(dir.path(), "convert t5.safetensors t5-32.safetensors --to f32 --quiet");
    let all = read(&dir.path().join("t5-32.safetensors"));
    assert_eq!(f32s(&all["l.weight"].2), codes.iter().map(|&c| from_e4m3(c) * 0.5).collect::<Vec<_>>());
    assert_eq!(all.len(), 2);
    ok(dir.path(), "convert t5-32.safetensors c.safetensors --to comfy-fp8 --quiet");
    let all = read(&dir.path().join("c.safetensors"));
    assert_eq!(all["l.comfy_quant"].2, br#"{"format":"float8_e4m3fn"}"#);
    assert_eq!(all["l.weight_scale"].1, [0usize; 0]);
    let bytes = fs::read(dir.path().join("c.safetensors")).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = &header.metadata().as_ref().unwrap()["_quantization_metadata"];
    let metadata: Value = serde_json::from_str(metadata).unwrap();
    assert_eq!(
        metadata,
        json!({ "format_version": "1.0", "layers": { "l": { "format": "float8_e4m3fn" } } })
    );
    let found = ok(dir.path(), "inspect c.safetensors --json");
    assert_eq!(found["layout"], "comfy-fp8");
}

/// Files of a layer `l` that would be wrong in silence: what is wrong, and what the error says.
fn corruptions() -> Vec<(&'static str, Tensors, &'static [&'static str])> {
    let weight = |shape: [usize; 2]| {
        ("l.weight".to_owned(), Dtype::F8_E4M3, shape.to_vec(), Random(5).e4m3(shape[0] * shape[1]))
    };
    let packed = || ("l.weight_packed".to_owned(), Dtype::U8, vec![2, 16], vec![0x21; 32]);
    let scale = |name: &str, shape: &[usize], x: f32| {
        let n = shape.iter().product();
        (format!("l.{name}"), Dtype::F32, shape.to_vec(), le(&vec![x; n]))
    };
    let bytes = |name: &str, dtype: Dtype, shape: &[usize], x: u8| {
        (format!("l.{name}"), dtype, shape.to_vec(), vec![x; shape.iter().product()])
    };
    let other = ("m.weight".to_owned(), Dtype::F8_E4M3, vec![2, 2], vec![0; 4]);
    vec![
        (
            "[N] on [M, N]",
            vec![weight([2, 4]), scale("weight_scale", &[4], 1.0)],
            &["[4]", "[2, 4]", "broadcast"],
        ),
        ("[1, N]", vec![weight([4, 4]), scale("weight_scale", &[1, 4], 1.0)], &["[1, 4]", "[4, 4]"]),
        (
            "transposed",
            vec![weight([256, 512]), scale("weight_scale_inv", &[4, 2], 1.0)],
            &["[4, 2]", "[256, 512]", "[2, 4]"],
        ),
        ("no weight", vec![scale("weight_scale_inv", &[1, 1], 1.0)], &["without a quantised weight"]),
        (
            "no scale",
            vec![weight([2, 4]), scale("weight_scale", &[2, 1], 1.0), other],
            &["m.weight", "without a scale", "--copy"],
        ),
        (
            "unknown companion",
            vec![
                weight([2, 4]),
                scale("weight_scale", &[2, 1], 1.0),
                scale("weight_zero_point", &[2, 1], 0.0),
            ],
            &["weight_zero_point"],
        ),
        (
            "two scales",
            vec![weight([2, 4]), scale("weight_scale", &[2, 1], 1.0), scale("scale_weight", &[], 1.0)],
            &["several"],
        ),
        ("NaN", vec![weight([2, 4]), scale("weight_scale", &[2, 1], f32::NAN)], &["l.weight_scale", "NaN"]),
        ("Inf", vec![weight([2, 4]), scale("weight_scale", &[2, 1], f32::INFINITY)], &["inf"]),
        ("negative", vec![weight([2, 4]), scale("weight_scale", &[1], -1.0)], &["-1"]),
        ("e8m0 FF", vec![packed(), bytes("weight_scale", Dtype::U8, &[2, 1], 0xFF)], &["FF"]),
        ("no global", vec![packed(), bytes("weight_scale", Dtype::F8_E4M3, &[2, 2], 0x38)], &["global"]),
        (
            "global 0",
            vec![
                packed(),
                bytes("weight_scale", Dtype::F8_E4M3, &[2, 2], 0x38),
                scale("weight_global_scale", &[1], 0.0),
            ],
            &["global", "0"],
        ),
        (
            "nibbles by whom?",
            vec![
                ("l.weight".into(), Dtype::U8, vec![2, 16], vec![0x21; 32]),
                bytes("weight_scale", Dtype::F8_E4M3, &[2, 2], 0x38),
                scale("weight_scale_2", &[], 1.0),
            ],
            &["--from modelopt-nvfp4"],
        ),
    ]
}

#[test]
fn what_would_corrupt_in_silence_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (what, tensors, says) in corruptions() {
        write(&dir.path().join("a.safetensors"), &tensors, None);
        let error = fails(dir.path(), "convert a.safetensors b.safetensors --to bf16", 3);
        for word in says {
            assert!(error.contains(word), "{what}: no {word:?} in: {error}");
        }
        assert!(!dir.path().join("b.safetensors").exists(), "{what}");
        assert_eq!(listing(dir.path()).len(), 1, "{what}");
    }
    // A zero block scale is legal.
    write(
        &dir.path().join("a.safetensors"),
        &vec![
            ("l.weight".into(), Dtype::F8_E4M3, vec![2, 4], Random(5).e4m3(8)),
            ("l.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[0.0; 2])),
        ],
        None,
    );
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --quiet");
}

#[test]
fn indexes_and_configurations_that_disagree_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    let index = src.join("model.safetensors.index.json");
    deepseek(&src);
    let good = json_of(&index);
    let tensor = "model.ids";
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(&str, Change<'_>, &str); 7] = [
        ("missing", &|v| _ = v["weight_map"].as_object_mut().unwrap().remove(tensor), "does not name"),
        ("extra", &|v| v["weight_map"]["no.such"] = json!("model-00001-of-00002.safetensors"), "no.such"),
        (
            "other shard",
            &|v| v["weight_map"][tensor] = json!("model-00001-of-00002.safetensors"),
            "but it is in",
        ),
        ("outside", &|v| v["weight_map"][tensor] = json!("../a.safetensors"), "plain file name"),
        ("root", &|v| v["weight_map"][tensor] = json!("/etc/passwd"), "plain file name"),
        ("empty", &|v| v["weight_map"][tensor] = json!(""), "plain file name"),
        ("absent", &|v| v["weight_map"][tensor] = json!("b.safetensors"), "not there"),
    ];
    for (what, change, says) in cases {
        let mut bad = good.clone();
        change(&mut bad);
        fs::write(&index, bad.to_string()).unwrap();
        let error = fails(dir.path(), "convert src dst --to bf16", 3);
        assert!(error.contains(says), "{what}: {error}");
        assert!(!dir.path().join("dst").exists());
    }
    fs::write(&index, good.to_string()).unwrap();
    for (config, says) in [("nvfp4-pack-quantized", "nvfp4"), ("marlin-24", "not read")] {
        let config =
            json!({ "quantization_config": { "quant_method": "compressed-tensors", "format": config } });
        fs::write(src.join("config.json"), config.to_string()).unwrap();
        assert!(fails(dir.path(), "convert src dst --to bf16", 3).contains(says));
    }
    fs::remove_dir_all(&src).unwrap();
    model(&src);
    fs::write(src.join("config.json"), r#"{"quantization_config":{"quant_method":"fp8"}}"#).unwrap();
    assert!(fails(dir.path(), "convert src dst --to bf16", 3).contains("no tensor is"));
}

#[test]
fn groups_and_names_of_compressed_tensors_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    model(&src);
    ok(dir.path(), "convert src a --to fp8-channel --quiet");
    let path = dir.path().join("a/config.json");
    let good = json_of(&path);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut config = good.clone();
        change(&mut config["quantization_config"]);
        fs::write(&path, config.to_string()).unwrap();
    };
    let mixed = |mlp: &str| {
        json!({
            "group_0": { "targets": ["re:.*self_attn.*"], "format": "float-quantized", "weights": { "strategy": "channel" } },
            "group_1": { "targets": ["re:.*mlp.*"], "format": mlp, "weights": { "strategy": "channel" } },
        })
    };
    with(&|c| c["config_groups"] = mixed("float-quantized"));
    ok(dir.path(), "convert a b --to bf16 --quiet");
    for (change, says) in [
        (&(|c: &mut Value| c["ignore"] = json!(["re:.*q_proj"])) as &dyn Fn(&mut Value), "ignores"),
        (&|c| c["ignore"] = json!(["model.layers.0.mlp.down_proj"]), "ignores"),
        (
            &|c| c["config_groups"] = mixed("int-quantized"),
            "says int8-channel, but the tensors are fp8-channel",
        ),
        (&|c| c["config_groups"]["group_0"]["weights"]["strategy"] = json!("tensor"), "fp8-tensor"),
        (&|c| c["config_groups"]["group_0"]["targets"] = json!(["re:.*mlp.*"]), "no group"),
        (&|c| c["ignore"] = json!(["re:(("]), "not a regular expression"),
    ] {
        with(change);
        let error = fails(dir.path(), "convert a c --to bf16", 3);
        assert!(error.contains(says) && error.contains("--from"), "{says}: {error}");
        ok(dir.path(), "convert a c --to bf16 --from fp8-channel --force --quiet");
    }
}

#[test]
fn layouts_of_one_format_have_the_same_codes_and_scales() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    let file = |name: &str| read(&dir.path().join(name).join("model.safetensors"));
    let layers = ["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"];

    // There and back, the files have the same bytes.
    for (one, other) in
        [("modelopt-nvfp4", "comfy-nvfp4"), ("mxfp8", "comfy-mxfp8"), ("modelopt-fp8", "comfy-fp8")]
    {
        ok(dir.path(), &format!("convert src {one} --to {one} --quiet"));
        let report = ok(dir.path(), &format!("convert {one} {other} --to {other} --json"));
        assert_eq!(
            (&report["max_abs_error"], &report["max_rel_error"]),
            (&json!(0.0), &json!(0.0)),
            "{other}"
        );
        ok(dir.path(), &format!("verify {one} {other}"));
        ok(dir.path(), &format!("convert {other} back --to {one} --quiet --force"));
        assert!(file(one) == file("back"), "{one}");
    }

    // What moved: the two codes of a byte, and scales to tiles of 128 x 4.
    let (one, other) = (file("modelopt-nvfp4"), file("comfy-nvfp4"));
    for layer in layers {
        let of = |all: &HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>, last: &str| {
            all[&format!("{layer}.{last}")].clone()
        };
        let swapped: Vec<u8> = of(&one, "weight").2.iter().map(|byte| byte.rotate_left(4)).collect();
        assert!(of(&other, "weight").2 == swapped);
        let ((_, shape, plain), (_, _, tiles)) = (of(&one, "weight_scale"), of(&other, "weight_scale"));
        let mut expected = vec![0; tiles.len()];
        for (i, &scale) in plain.iter().enumerate() {
            let (row, column) = (i / shape[1], i % shape[1]);
            let tile = (row / 128) * shape[1].div_ceil(4) + column / 4;
            expected[tile * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + column % 4] = scale;
        }
        assert!(tiles == expected, "{layer}");
        assert_eq!(of(&one, "weight_scale_2").2, of(&other, "weight_scale_2").2);
    }

    // compressed-tensors divides by the factor: that is the nearest reciprocal, and all else is kept.
    let report = ok(dir.path(), "convert modelopt-nvfp4 nvfp4 --to nvfp4 --json");
    assert!(report["max_rel_error"].as_f64().unwrap() < 1e-6, "{report}");
    ok(dir.path(), "convert nvfp4 back --to modelopt-nvfp4 --quiet --force");
    let (there, back) = (file("nvfp4"), file("back"));
    for layer in layers {
        let at = |last: &str| format!("{layer}.{last}");
        assert!(one[&at("weight")].2 == there[&at("weight_packed")].2);
        assert!(one[&at("weight_scale")] == there[&at("weight_scale")]);
        assert!(
            one[&at("weight")] == back[&at("weight")]
                && one[&at("weight_scale")] == back[&at("weight_scale")]
        );
        let factor = |bytes: &[u8]| f32s(bytes)[0];
        let (multiply, divide) =
            (factor(&one[&at("weight_scale_2")].2), factor(&there[&at("weight_global_scale")].2));
        assert_eq!(divide, 1.0 / multiply);
    }
}

#[test]
fn destinations_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    fails(dir.path(), "convert src src --to f16", 3);
    fails(dir.path(), "convert src src/inside --to f16", 3);
    ok(dir.path(), "convert src dst --to f16 --quiet");
    assert!(fails(dir.path(), "convert src dst --to f16", 3).contains("exists"));
    ok(dir.path(), "convert src dst --to f32 --force --quiet");
    assert_eq!(read(&dir.path().join("dst/model.safetensors"))["model.norm.weight"].0, Dtype::F32);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("elsewhere", dir.path().join("link")).unwrap();
        assert!(fails(dir.path(), "convert src link --to f16", 3).contains("link"));
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        assert!(fails(dir.path(), "convert src link/ --to f16 --force", 3).contains("is a link"));
        assert!(listing(&dir.path().join("elsewhere")).is_empty());
    }
    let before = listing(dir.path()).len();
    ok(dir.path(), "convert src dry --to fp8-block --dry-run --json");
    assert_eq!(listing(dir.path()).len(), before);
}

/// Shards, indexes and configurations of the result before are not found beside those of the new one.
#[test]
fn what_is_replaced_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    model(&at("src"));
    ok(dir.path(), "convert src fresh --to bf16 --quiet");
    ok(dir.path(), "convert src dst --to modelopt-fp8 --shard-size 20K --quiet");
    let before = listing(&at("dst"));
    assert!(
        before.iter().any(|(name, _)| name.contains("-of-")) && at("dst/hf_quant_config.json").exists(),
        "{before:?}"
    );
    ok(dir.path(), "convert src dst --to bf16 --force --quiet");
    assert_eq!(listing(&at("dst")), listing(&at("fresh")));
    // What no conversion has made is not removed.
    fs::copy(at("src/model.safetensors"), at("dst/mine.safetensors")).unwrap();
    let before = listing(&at("dst"));
    let error = fails(dir.path(), "convert src dst --to f16 --force", 3);
    assert_eq!(listing(&at("dst")), before);
    assert!(error.contains("mine.safetensors was not made by a conversion"), "{error}");
    assert!(at("dst/mine.safetensors").exists() && at("dst/lanecast.json").exists());
}

/// What lies beside the tensors is part of the result, for --resume too; the dtype is that of nested configurations; and experts that are
/// no matrices are named as what is not quantised.
#[test]
fn configurations_say_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("src")).unwrap();
    let numbers = |n: usize| le(&vec![0.5f32; n]);
    let tensors: Tensors = vec![
        ("layers.0.mlp.experts.gate_up_proj".into(), Dtype::F32, vec![2, 32, 32], numbers(2048)),
        ("layers.0.mlp.up_proj.weight".into(), Dtype::F32, vec![32, 32], numbers(1024)),
    ];
    write(&at("src/model.safetensors"), &tensors, None);
    let config = r#"{"text_config": {"dtype": "float32", "hidden_size": 4}, "vision_config": {"torch_dtype": "float32"}}"#;
    fs::write(at("src/config.json"), config).unwrap();
    ok(dir.path(), "convert src bf16 --to bf16 --quiet");
    let config = json_of(&at("bf16/config.json"));
    assert_eq!(config["text_config"], json!({ "dtype": "bfloat16", "hidden_size": 4 }));
    assert_eq!(config["vision_config"], json!({ "torch_dtype": "bfloat16" }));
    let whole = listing(&at("bf16"));
    fs::remove_file(at("bf16/config.json")).unwrap();
    ok(dir.path(), "convert src bf16 --to bf16 --resume --quiet");
    assert_eq!(listing(&at("bf16")), whole);
    let out = line(dir.path(), "convert src nvfp4 --to nvfp4");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.contains("warning: kept: 1 tensor of experts, 8.2 kB; nvfp4 quantises only matrices"),
        "{text}"
    );
    let quantised = &json_of(&at("nvfp4/config.json"))["quantization_config"];
    assert_eq!(quantised["ignore"], json!(["layers.0.mlp.experts", "lm_head", "re:.*lm_head.*"]));
}

/// A NaN takes what shares its scale with it, which is said.
#[test]
fn a_nan_among_weights_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (name, x, n) in
        [("a.safetensors", f32::NAN, 1), ("b.safetensors", f32::INFINITY, 1), ("c.safetensors", 2.0, 0)]
    {
        let mut values = vec![0.5f32; 64 * 64];
        values[70] = x;
        let tensors: Tensors = vec![("up_proj.weight".into(), Dtype::F32, vec![64, 64], le(&values))];
        write(&dir.path().join(name), &tensors, None);
        for to in [
            "fp8-block",
            "fp8-tensor",
            "int8-channel",
            "mxfp8",
            "mxfp4",
            "nvfp4",
            "modelopt-nvfp4",
            "comfy-nvfp4",
        ] {
            let out = line(dir.path(), &format!("convert {name} {to}-{name} --to {to} --quiet"));
            let text = String::from_utf8_lossy(&out.stderr);
            assert_eq!(text.matches("NaN or Inf among the weights").count(), n, "{name} {to}: {text}");
        }
    }
    // What the warning names makes an error of it: also where the element became a number, or its neighbours 0.
    let out = line(dir.path(), "convert a.safetensors w.safetensors --to mxfp8 --quiet");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && text.contains("(--fail-on nan,inf,saturated makes that an error)"),
        "{text}"
    );
    for name in ["a.safetensors", "b.safetensors"] {
        for to in ["fp8-block", "int8-channel", "mxfp8", "mxfp4", "nvfp4", "comfy-nvfp4"] {
            let all =
                format!("convert {name} limit.safetensors --to {to} --fail-on nan,inf,saturated --force");
            let error = fails(dir.path(), &all, 1);
            assert!(error.contains("beyond the limit"), "{name} {to}: {error}");
        }
    }
    // What is not quantised shares no scale.
    let tensors: Tensors = vec![
        ("norm.weight".into(), Dtype::F32, vec![64], le(&[1e10f32; 64])),
        ("up_proj.weight".into(), Dtype::F32, vec![64, 64], le(&[0.5f32; 64 * 64])),
    ];
    write(&dir.path().join("d.safetensors"), &tensors, None);
    let out = line(
        dir.path(),
        "convert d.safetensors d8.safetensors --to fp8-block --high f16 --fail-on inf --quiet",
    );
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("64 Inf") && !text.contains("among the weights"), "{text}");
}

/// Scales are found anew where that is asked for, though the source has the layout.
#[test]
fn scales_of_the_same_layout_are_found_anew() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    ok(dir.path(), "convert src fp8 --to fp8-block --quiet");
    ok(dir.path(), "convert fp8 e8m0 --to fp8-block --scale-dtype e8m0 --quiet");
    let all = read(&dir.path().join("e8m0/model.safetensors"));
    assert_eq!(all["model.layers.0.mlp.down_proj.weight_scale_inv"].0, Dtype::F8_E8M0);
    ok(dir.path(), "verify src e8m0 --max-abs-error 1 --max-rms-error 0.05");
}

/// Nothing of a checkpoint is left out without a word.
#[test]
fn directories_are_named_and_dangling_links_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    // Those of tensors, as pipelines have them. Others are a part of the model.
    let at = |name: &str| dir.path().join(name);
    for (directory, file) in
        [("1_Pooling", "config.json"), ("chat/templates", "a.jinja"), ("unet", "model.safetensors")]
    {
        fs::create_dir_all(at("src").join(directory)).unwrap();
        fs::write(at("src").join(directory).join(file), directory).unwrap();
    }
    let out = line(dir.path(), "convert src dst --to bf16");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("not read, and not copied: unet/"), "{text}");
    for (directory, file) in [("1_Pooling", "config.json"), ("chat/templates", "a.jinja")] {
        assert_eq!(fs::read_to_string(at("dst").join(directory).join(file)).unwrap(), directory);
    }
    assert!(!at("dst/unet").exists());
    // Under --quiet, too; and those that are larger than a part of a model is.
    fs::create_dir_all(at("src/deep/b/c/d/e")).unwrap();
    fs::create_dir_all(at("src/large/part")).unwrap();
    for i in 0..=1000 {
        fs::write(at(&format!("src/large/part/{i}")), "").unwrap();
    }
    let out = line(dir.path(), "convert src quiet --to f16 --quiet");
    assert_eq!(
        String::from_utf8_lossy(&out.stderr),
        "warning: not read, and not copied: unet/, deep/ (directories in it lie more than 4 deep), large/ (more than 1000 files)\n"
    );
    assert!(out.stdout.is_empty() && !at("quiet/large").exists() && at("quiet/1_Pooling").exists());
    let text = String::from_utf8(line(dir.path(), "inspect src").stdout).unwrap();
    assert!(text.contains("not read: large/ (more than 1000 files)"), "{text}");
    // A thousand of them are copied, in several directories, too.
    fs::create_dir(at("src/large/other")).unwrap();
    for i in 0..10 {
        fs::rename(at(&format!("src/large/part/{i}")), at(&format!("src/large/other/{i}"))).unwrap();
    }
    fs::remove_file(at("src/large/part/10")).unwrap();
    fs::remove_dir_all(at("src/deep/b/c/d")).unwrap();
    let out = line(dir.path(), "convert src quiet --to f16 --quiet --force");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "warning: not read, and not copied: unet/\n");
    assert_eq!(fs::read_dir(at("quiet/large/part")).unwrap().count(), 990);
    assert_eq!(fs::read_dir(at("quiet/large/other")).unwrap().count(), 10);
    fs::remove_dir_all(at("src/unet")).unwrap();
    let error = fails(dir.path(), "inspect .", 3);
    assert!(error.contains("if the checkpoint is in dst/, name that directory"), "{error}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../nope", dir.path().join("src/tokenizer.json")).unwrap();
        let error = fails(dir.path(), "convert src other --to bf16", 3);
        assert!(error.contains("tokenizer.json is a link to a file that does not exist"), "{error}");
    }
}

/// Names of files are bytes, which need not be text.
#[cfg(target_os = "linux")]
#[test]
fn files_beside_the_tensors_have_any_name() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    model(&at("src"));
    // (As text, the first two have one name.)
    let names: [&[u8]; 3] = [b"\xff.txt", b"\xfe.txt", b"\xff/\xff.txt"];
    fs::create_dir(at("src").join(OsStr::from_bytes(b"\xff"))).unwrap();
    for name in names {
        fs::write(at("src").join(OsStr::from_bytes(name)), name).unwrap();
    }
    ok(dir.path(), "convert src dst --to f16 --quiet");
    for name in names {
        assert_eq!(fs::read(at("dst").join(OsStr::from_bytes(name))).unwrap(), name);
    }
    ok(dir.path(), "inspect src --json");
}

#[test]
fn globs_choose() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    ok(
        dir.path(),
        "convert src dst --to fp8-channel --keep *q_proj* --drop *k_proj* --copy *norm* --high f32 --quiet",
    );
    let all = read(&dir.path().join("dst/model.safetensors"));
    assert_eq!(all["model.layers.0.self_attn.q_proj.weight"].0, Dtype::F32);
    assert!(!all.contains_key("model.layers.0.self_attn.k_proj.weight"));
    assert_eq!(all["model.norm.weight"].0, Dtype::BF16);
    assert_eq!(all["model.embed_tokens.weight"].0, Dtype::F32);
    assert_eq!(all["model.layers.0.mlp.down_proj.weight"].0, Dtype::F8_E4M3);
    // The model is bfloat16, and so are the scales: transformers would make them that.
    assert_eq!(all["model.layers.0.mlp.down_proj.weight_scale"].0, Dtype::BF16);
    let ignore = &json_of(&dir.path().join("dst/config.json"))["quantization_config"]["ignore"];
    assert_eq!(
        *ignore,
        json!(["lm_head", "model.embed_tokens", "model.layers.0.self_attn.q_proj", "re:.*lm_head.*"])
    );
}

#[test]
fn what_stays_quantised_keeps_its_scales_and_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    ok(dir.path(), "convert src dst --to bf16 --keep *layers.0* --quiet");
    let all = read(&dir.path().join("dst/model-00001-of-00002.safetensors"));
    assert_eq!(all["model.layers.0.mlp.down_proj.weight"].0, Dtype::F8_E4M3);
    let all = read(&dir.path().join("dst/model-00002-of-00002.safetensors"));
    assert!(all.contains_key("model.layers.0.mlp.down_proj.weight_scale_inv"));
    assert!(!all.contains_key("model.layers.1.mlp.down_proj.weight_scale_inv"));
    let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
    assert_eq!(config["modules_to_not_convert"], json!(["model.layers.1.mlp.down_proj"]));
    assert!(
        fails(dir.path(), "convert src mixed --to mxfp8 --keep *layers.0*", 2).contains("not supported yet")
    );
    ok(dir.path(), "inspect dst --json");
}

/// What a rule or a profile does not do is said before anything is written; a dry run says it, too.
#[test]
fn rules_and_profiles_are_tried_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    matrices(&at("src"), &["a.up_proj.weight", "embed.weight"], r#"{"dtype":"float32"}"#);
    let (mut refused, mut done) = (0, 0);
    let mut try_out = |words: &str| {
        let dry = line(dir.path(), &format!("convert {words} --quiet --dry-run"));
        let out = line(dir.path(), &format!("convert {words} --quiet"));
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(dry.status.code(), out.status.code(), "{words}: {error}");
        if out.status.success() {
            done += 1;
            fs::remove_dir_all(at("dst")).unwrap();
        } else {
            refused += 1;
            assert_eq!(out.status.code(), Some(2), "{words}: {error}");
            assert!(error.contains("another --") && !at("dst").exists(), "{words}: {error}");
        }
    };
    let layouts =
        ["fp8-block", "int8-tensor", "mxfp8", "mxfp4", "nvfp4", "modelopt-fp8", "comfy-nvfp4", "int4-group"];
    let profiles =
        ["lanecast", "ocp", "onnx", "torchao", "compressed-tensors", "hf-fp8", "comfy", "gpt-oss", "f32"];
    for to in layouts {
        ok(dir.path(), &format!("convert src {to} --to {to} --quiet"));
        for profile in profiles {
            try_out(&format!("src dst --to {to} --profile {profile}"));
            try_out(&format!("{to} dst --to bf16 --profile {profile}"));
            try_out(&format!("{to} dst --to e4m3 --profile {profile}"));
            try_out(&format!("{to} dst --to mxfp8 --profile {profile}"));
        }
        for rule in ["amax", "floor", "ceil", "even", "round-up"] {
            try_out(&format!("src dst --to {to} --scale-rule {rule}"));
        }
    }
    assert!(refused > 50 && done > 50, "{refused} and {done}");
}

/// A quantised matrix that does not fit another layout cannot be kept beside it, but as a float.
#[test]
fn what_fits_no_layout_is_kept_as_a_float() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("a.weight".into(), Dtype::F8_E4M3, vec![128, 130], Random(1).e4m3(128 * 130)),
        ("a.weight_scale".into(), Dtype::F32, vec![], le(&[0.5])),
        ("b.weight".into(), Dtype::F8_E4M3, vec![128, 128], Random(2).e4m3(128 * 128)),
        ("b.weight_scale".into(), Dtype::F32, vec![], le(&[0.5])),
    ];
    write(&dir.path().join("src.safetensors"), &tensors, None);
    ok(dir.path(), "convert src.safetensors bf16.safetensors --to bf16 --quiet");
    for to in ["mxfp8", "mxfp4", "nvfp4", "comfy-nvfp4", "int4-group"] {
        let error = fails(dir.path(), &format!("convert src.safetensors x.safetensors --to {to}"), 3);
        assert!(
            error.contains("convert it to bf16 first; then leave it as it is, with --keep 'a.weight'"),
            "{error}"
        );
        let error =
            fails(dir.path(), &format!("convert src.safetensors x.safetensors --to {to} --keep a.weight"), 2);
        assert!(error.contains("convert it to bf16 first, and that with --keep"), "{error}");
        ok(
            dir.path(),
            &format!("convert bf16.safetensors {to}.safetensors --to {to} --keep a.weight --quiet"),
        );
        ok(dir.path(), &format!("verify src.safetensors {to}.safetensors --max-rms-error 0.2"));
    }
}

/// A weight and its scales stay together, or are left out together.
#[test]
fn patterns_do_not_part_weights_from_their_scales() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["a.up_proj.weight", "a.down_proj.weight"], "{}");
    for (layout, scale) in [
        ("fp8-block", "weight_scale_inv"),
        ("int8-channel", "weight_scale"),
        ("nvfp4", "weight_global_scale"),
        ("modelopt-nvfp4", "weight_scale_2"),
        ("int4-group", "weight_scale"),
    ] {
        ok(dir.path(), &format!("convert src {layout} --to {layout} --quiet"));
        let part = format!("a.up_proj.{scale}");
        for words in [
            format!("--to bf16 --keep * --drop {part}"),
            format!("--to {layout} --drop {part}"),
            format!("--to bf16 --copy {part}"),
            format!("--to mxfp8 --copy {part}"),
        ] {
            let error = fails(dir.path(), &format!("convert {layout} x {words}"), 2);
            // (Two layouts in one result are an error of their own.)
            assert!(error.contains(&part) || error.contains("in one result"), "{words}: {error}");
        }
        // What is dropped once it is folded in is dropped anyway.
        ok(dir.path(), &format!("convert {layout} bf16 --to bf16 --drop {part} --force --quiet"));
        for words in ["--copy *up_proj.weight*", "--drop *up_proj.weight*", "--copy a.up_proj.weight"] {
            ok(dir.path(), &format!("convert {layout} y --to bf16 {words} --force --quiet"));
            let from = if layout == "modelopt-nvfp4" { "--from modelopt-nvfp4" } else { "" };
            let from = if words.starts_with("--drop") { "" } else { from };
            let report = ok(dir.path(), &format!("inspect y --json {from}"));
            assert_eq!(report["problems"], json!([]), "{layout} {words}");
        }
    }
}

/// Codes without a scale would be taken for codes whose scale is lost, if others have theirs.
#[test]
fn codes_without_scales_do_not_lie_beside_others() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["l.0.up_proj.weight", "l.0.down_proj.weight", "l.embed.weight"];
    matrices(&dir.path().join("src"), &names, "{}");
    for layout in ["fp8-block", "int8-channel", "nvfp4", "modelopt-nvfp4", "comfy-fp8", "int4-group"] {
        ok(dir.path(), &format!("convert src {layout} --to {layout} --quiet"));
        for how in ["--keep *up_proj*", "--copy *up_proj*", "--only *down_proj*"] {
            for to in ["e4m3", "e5m2", "float8_e4m3fnuz"] {
                let error = fails(dir.path(), &format!("convert {layout} x --to {to} {how}"), 2);
                assert!(error.contains("l.0.down_proj.weight: ") && error.contains("--to bf16"), "{error}");
                assert!(error.contains("l.0.up_proj") && error.contains(layout), "{error}");
            }
            ok(dir.path(), &format!("convert {layout} bf16 --to bf16 {how} --force --quiet"));
            ok(dir.path(), &format!("verify {layout} bf16 --max-rel-error 0.004"));
        }
    }
    // Codes that were there before, and stay.
    ok(dir.path(), "convert src plain --to e4m3 --quiet");
    let error = fails(dir.path(), "convert plain x --to fp8-block", 2);
    assert!(error.contains("l.embed.weight: f8_e4m3") && error.contains("--high bf16"), "{error}");
    ok(dir.path(), "convert plain x --to fp8-block --high bf16 --quiet");
    ok(dir.path(), "verify plain x --max-rms-error 0.05");
    ok(dir.path(), "convert plain copied --to fp8-block --copy *embed* --quiet");
    let mut tensors: Tensors = vec![("a.weight".into(), Dtype::U8, vec![32, 32], vec![7; 1024])];
    tensors.push(("b.weight".into(), Dtype::BF16, vec![32, 32], bf16s(&Random(1).floats(1024))));
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let error = fails(dir.path(), "convert a.safetensors b.safetensors --to mxfp8", 2);
    assert!(error.contains("a.weight: u8") && error.contains("--drop 'a.weight'"), "{error}");
    ok(dir.path(), "convert a.safetensors b.safetensors --to mxfp8 --drop a.weight --quiet");
}

#[test]
fn files_have_the_size_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    ok(dir.path(), "convert src plain --to bf16 --quiet");
    for (size, files) in [("100G", 1), ("60K", 2)] {
        ok(dir.path(), &format!("convert src {size} --to bf16 --shard-size {size} --quiet"));
        ok(dir.path(), &format!("verify plain {size} --as f64"));
        let names: Vec<String> = listing(&dir.path().join(size)).into_iter().map(|(name, _)| name).collect();
        let safetensors = names.iter().filter(|name| name.ends_with(".safetensors")).count();
        assert_eq!(safetensors, files, "{names:?}");
        assert_eq!(names.contains(&"model.safetensors.index.json".to_owned()), files > 1);
    }
}

#[test]
fn infinity_that_becomes_a_number_has_saturated() {
    let dir = tempfile::tempdir().unwrap();
    let values = [1.0, f32::INFINITY, f32::NEG_INFINITY, 2.0];
    let tensors: Tensors = vec![("x.weight".into(), Dtype::F32, vec![4], le(&values))];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    for to in ["e4m3", "e5m2"] {
        let error =
            fails(dir.path(), &format!("convert a.safetensors {to} --to {to} --fail-on saturated"), 1);
        assert!(error.contains("2 saturated"), "{to}: {error}");
    }
    let report = ok(dir.path(), "convert a.safetensors f16 --to f16 --json");
    assert_eq!((&report["saturated"], &report["inf"]), (&json!(0), &json!(2)));
}

/// Where nothing is quantised, tensors with the names of scales are tensors.
#[test]
fn scales_are_scales_beside_what_they_scale_alone() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a.weight", "a.k_scale", "a.v_scale", "a.input_scale"];
    let tensors = |x: f32| -> Tensors {
        names.iter().map(|name| (name.to_string(), Dtype::F32, vec![4], le(&[x, 2.0, 3.0, 4.0]))).collect()
    };
    write(&dir.path().join("a.safetensors"), &tensors(1.0), None);
    write(&dir.path().join("b.safetensors"), &tensors(9.0), None);
    let report = ok(dir.path(), "convert a.safetensors c.safetensors --to f16 --json");
    assert_eq!((&report["tensors"]["converted"], &report["dropped"]), (&json!(4), &json!([])));
    ok(dir.path(), "verify a.safetensors c.safetensors");
    let error = line(dir.path(), "verify a.safetensors b.safetensors --json");
    let report: Value = serde_json::from_slice(&error.stdout).unwrap();
    assert_eq!(report["differ"].as_array().unwrap().len(), 4, "{report}");
}

/// Two float64 that are one float32 are not equal.
#[test]
fn float64_is_compared_as_float64() {
    let dir = tempfile::tempdir().unwrap();
    for (name, x) in [("a.safetensors", 1.0f64), ("b.safetensors", 1.0 + 2f64.powi(-40))] {
        let tensors: Tensors = vec![("x".into(), Dtype::F64, vec![1], x.to_le_bytes().to_vec())];
        write(&dir.path().join(name), &tensors, None);
    }
    fails(dir.path(), "verify a.safetensors b.safetensors", 1);
    ok(dir.path(), "verify a.safetensors b.safetensors --as f32");
    for (name, x) in [("c.safetensors", 2i64), ("d.safetensors", -1000)] {
        let tensors: Tensors =
            vec![("ids".into(), Dtype::I64, vec![2], [1i64, x].map(i64::to_le_bytes).concat())];
        write(&dir.path().join(name), &tensors, None);
    }
    let out = line(dir.path(), "verify c.safetensors d.safetensors");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.starts_with("ids: 2 and -1000, at [1]"), "{text}");
}

#[test]
fn limits_are_exit_1_and_the_result_stands() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![("x.weight".into(), Dtype::F32, vec![4], le(&[1.0, 1.001, 1e30, -0.5]))];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --max-rel-error 0.01 --quiet");
    fails(dir.path(), "convert a.safetensors c.safetensors --to bf16 --max-rel-error 0.0001", 1);
    assert!(dir.path().join("c.safetensors").exists());
    let error = fails(dir.path(), "convert a.safetensors d.safetensors --to f16 --fail-on inf,saturated", 1);
    assert!(error.contains("1 saturated"), "{error}");
    let report = ok(dir.path(), "convert a.safetensors e.safetensors --to bf16 --json");
    assert_eq!((&report["worst"][0]["index"], &report["nan"]), (&json!([1]), &json!(0)));
}

#[test]
fn an_interrupted_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    ok(dir.path(), "convert src whole --to bf16 --quiet");
    // What a killed run leaves: one file with its state, a part of another under a name of its own.
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    let dst = dir.path().join("dst");
    fs::write(dst.join(".model-00001-of-00002.safetensors.x7Hq2a.tmp"), b"half").unwrap();
    fs::write(dst.join(".model-00002-of-00002.safetensors.x7Hq2b.tmp"), b"half").unwrap();
    fs::write(dst.join(".lanecast.json.x7Hq2c.tmp"), b"half").unwrap();
    fs::write(dst.join(".tokenizer.json.x7Hq2d.tmp"), b"half").unwrap();
    assert!(!dst.join("config.json").exists());
    fails(dir.path(), "convert src dst --to f16 --resume", 3);
    ok(dir.path(), "convert src dst --to bf16 --resume --quiet");
    let whole = listing(&dir.path().join("whole"));
    assert!(listing(&dst) == whole);
    // What is complete is not made again, and is not that of another plan.
    let file = dst.join("model-00001-of-00002.safetensors");
    let made = fs::metadata(&file).unwrap().modified().unwrap();
    let report = ok(dir.path(), "convert src dst --to bf16 --resume --json");
    assert_eq!(report["files"].as_array().unwrap().len(), 2);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), made);
    fails(dir.path(), "convert src dst --to f16 --resume", 3);
    // But a file that was damaged is.
    let mut bad = fs::read(&file).unwrap();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&file, bad).unwrap();
    ok(dir.path(), "convert src dst --to bf16 --resume=hash --quiet");
    assert!(listing(&dst) == whole);
    // What one rank finds damaged is not complete for a later run that compares sizes alone.
    ok(dir.path(), "convert src ranks --to bf16 --quiet --rank 0 --of 2");
    let file = dir.path().join("ranks/model-00001-of-00002.safetensors");
    let mut bad = fs::read(&file).unwrap();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&file, bad).unwrap();
    ok(dir.path(), "convert src ranks --to bf16 --quiet --rank 1 --of 2 --resume=hash");
    assert!(!dir.path().join("ranks/lanecast.json").exists());
    ok(dir.path(), "convert src ranks --to bf16 --quiet --resume");
    assert!(listing(&dir.path().join("ranks")) == whole);
}

/// Each rank removes what killed runs of it have left of its files, and nothing that another rank writes now.
#[test]
#[cfg(unix)]
fn ranks_remove_what_they_left() {
    let dir = tempfile::tempdir().unwrap();
    deepseek(&dir.path().join("src"));
    ok(dir.path(), "convert src whole --to bf16 --quiet");
    let dst = dir.path().join("dst");
    fs::create_dir_all(dst.join(".lanecast")).unwrap();
    let left = |i: usize, end: &str| dst.join(format!(".model-0000{i}-of-00002.safetensors.{end}.tmp"));
    let (abandoned, written) = ([1, 2].map(|i| left(i, "aB3xyZ")), [1, 2].map(|i| left(i, "Zb4xyZ")));
    let make =
        || abandoned.iter().chain(&written).map(|path| fs::File::create(path).unwrap()).collect::<Vec<_>>();
    let there = || [&abandoned, &written].map(|paths| paths.iter().filter(|path| path.exists()).count());
    // (A lock stays for a moment after its file is closed, in processes that are started then: so each time they are new files.)
    let remove = || abandoned.iter().chain(&written).for_each(|path| _ = fs::remove_file(path));
    let lock = |files: &[fs::File]| files[2..].iter().for_each(|file| file.lock().unwrap());
    let files = make();
    lock(&files);
    ok(dir.path(), "convert src dst --to bf16 --resume --rank 0 --of 2 --quiet");
    assert_eq!(there(), [1, 2]);
    ok(dir.path(), "convert src dst --to bf16 --resume --rank 1 --of 2 --quiet");
    assert_eq!(there(), [0, 2]);
    // Where all is complete already, those of every rank.
    remove();
    let files = make();
    lock(&files);
    ok(dir.path(), "convert src dst --to bf16 --resume --rank 0 --of 2 --quiet");
    assert_eq!(there(), [0, 2]);
    remove();
    drop(make());
    ok(dir.path(), "convert src dst --to bf16 --resume --rank 1 --of 2 --quiet");
    assert_eq!(there(), [0, 0]);
    assert!(listing(&dst) == listing(&dir.path().join("whole")));
}

/// What the last rank does, another may find half done: the record is there, and the states are not any more.
#[test]
fn ranks_that_end_at_once_make_nothing_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    deepseek(&at("src"));
    let ranks =
        ["0", "1"].map(|rank| format!("convert src dst --to bf16 --quiet --resume --rank {rank} --of 2"));
    // Both files and their states, as they are before the record.
    let parts = ranks.each_ref().map(|rank| {
        _ = fs::remove_dir_all(at("dst"));
        ok(dir.path(), rank);
        let state = fs::read_dir(at("dst/.lanecast")).unwrap().next().unwrap().unwrap().path();
        let name = state.file_stem().unwrap().to_str().unwrap().to_owned();
        (fs::read(&state).unwrap(), fs::read(at("dst").join(&name)).unwrap(), name)
    });
    for i in 0..20 {
        _ = fs::remove_dir_all(at("dst"));
        fs::create_dir_all(at("dst/.lanecast")).unwrap();
        let files = parts.each_ref().map(|(state, file, name)| {
            fs::write(at("dst/.lanecast").join(format!("{name}.json")), state).unwrap();
            fs::write(at("dst").join(name), file).unwrap();
            fs::File::open(at("dst").join(name)).unwrap()
        });
        let times =
            |files: &[fs::File; 2]| files.each_ref().map(|file| file.metadata().unwrap().modified().unwrap());
        std::thread::scope(|scope| {
            for rank in &ranks {
                scope.spawn(|| ok(dir.path(), rank));
            }
        });
        assert!(at("dst/lanecast.json").exists(), "{i}");
        let now = parts.each_ref().map(|(.., name)| fs::File::open(at("dst").join(name)).unwrap());
        assert_eq!(times(&now), times(&files), "{i}");
    }
}

/// What was made from data that have changed since is made again, also where headers are the same.
#[test]
fn a_run_goes_on_with_data_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = |i: usize| format!("model-0000{i}-of-00002.safetensors");
    let set_time = |path: &Path, time: SystemTime| {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let metadata = || Some(HashMap::from([("format".into(), "pt".into())]));
    // A byte of a tensor becomes another, at a certain time.
    let change = |name: &str, tensor: &str, time: SystemTime| {
        let (path, mut all) = (at(name), read(&at(name)));
        all.get_mut(tensor).unwrap().2[0] ^= 1;
        let all: Tensors =
            all.into_iter().map(|(name, (dtype, shape, bytes))| (name, dtype, shape, bytes)).collect();
        write(&path, &all, metadata());
        set_time(&path, time);
    };
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    deepseek(&at("src"));
    // Fused layers, which have one factor, in two files.
    fs::create_dir(at("qk")).unwrap();
    for (i, name) in [(1, "l.q_proj.weight"), (2, "l.k_proj.weight")] {
        let values = bf16s(&[8.0 * i as f32; 32 * 64]);
        write(&at("qk").join(file(i)), &vec![(name.into(), Dtype::BF16, vec![32, 64], values)], metadata());
    }
    let block = "model.layers.1.mlp.down_proj.weight";
    // (The scales of what is in the first file lie in the second.)
    let scales = "model.layers.0.mlp.down_proj.weight_scale_inv";
    for (src, to, changed, tensor, time) in [
        ("src", "bf16", 2, block, now + hour),
        ("src", "bf16", 2, block, now - hour),
        ("src", "f32", 2, scales, now + hour),
        ("qk", "nvfp4", 2, "l.k_proj.weight", now + hour),
    ] {
        let words = format!("--to {to} --quiet");
        for rank in [0, 1] {
            for name in ["dst", "whole"] {
                let _ = fs::remove_dir_all(at(name));
            }
            // One of two files is complete, and its state has the times of the source.
            for i in [1, 2] {
                set_time(&at(src).join(file(i)), now - 2 * hour);
            }
            ok(dir.path(), &format!("convert {src} dst {words} --rank {rank} --of 2"));
            change(&format!("{src}/{}", file(changed)), tensor, time);
            ok(dir.path(), &format!("convert {src} dst {words} --resume"));
            ok(dir.path(), &format!("convert {src} whole {words}"));
            assert!(listing(&at("dst")) == listing(&at("whole")), "{src} {to} {tensor} {rank}");
        }
    }
    // What is complete has no times but its own: it is made again if the source is newer.
    ok(dir.path(), "convert src dst --to bf16 --force --quiet");
    change(&format!("src/{}", file(2)), block, now + hour);
    ok(dir.path(), "convert src dst --to bf16 --resume --quiet");
    ok(dir.path(), "convert src whole --to bf16 --force --quiet");
    assert!(listing(&at("dst")) == listing(&at("whole")));
    // Ranks may have copies of the source, of other times. It is said, as their data might be others.
    fs::remove_dir_all(at("dst")).unwrap();
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    set_time(&at("src").join(file(2)), now);
    let out = line(dir.path(), "convert src dst --to bf16 --quiet --rank 1 --of 2");
    let error = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{error}");
    assert!(
        error.starts_with("warning: 1 file made by other ranks from source files with other times"),
        "{error}"
    );
    assert!(listing(&at("dst")) == listing(&at("whole")));
    set_time(&at("src").join(file(2)), now + hour);
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 1 --of 2");
    assert!(listing(&at("dst")) == listing(&at("whole")));
}

/// Whatever lies at DST and is not of the same plan would be read with the result.
#[test]
fn a_run_goes_on_with_its_own_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    deepseek(&at("src"));
    // A part of a result, and files of another division.
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    let before = listing(&at("dst"));
    let error = fails(dir.path(), "convert src dst --to bf16 --resume --shard-size 1G", 3);
    assert!(error.contains("dst was made by another conversion") && error.contains("--force"), "{error}");
    assert_eq!(listing(&at("dst")), before);
    // Files of no conversion, of other names and of the same.
    for name in ["mine.safetensors", "model-00001-of-00002.safetensors"] {
        fs::create_dir(at("other")).unwrap();
        fs::write(at("other").join(name), "mine").unwrap();
        let error = fails(dir.path(), "convert src other --to bf16 --resume", 3);
        assert!(error.contains("other exists, and no conversion has begun there"), "{error}");
        assert_eq!(fs::read_to_string(at("other").join(name)).unwrap(), "mine");
        fs::remove_dir_all(at("other")).unwrap();
    }
    fs::write(at("dst/mine.safetensors"), "mine").unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16 --resume", 3);
    assert!(error.contains("mine.safetensors was not made by a conversion"), "{error}");
    fs::remove_file(at("dst/mine.safetensors")).unwrap();
    ok(dir.path(), "convert src dst --to bf16 --resume --quiet");
    fs::write(at("dst/mine.safetensors"), "mine").unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16 --resume", 3);
    assert!(error.contains("mine.safetensors was not made by a conversion"), "{error}");
    // By --force it begins anew, but ranks do not, as others may be writing.
    fs::remove_file(at("dst/mine.safetensors")).unwrap();
    let error = fails(dir.path(), "convert src dst --to f16 --force --rank 0 --of 2", 3);
    assert!(error.contains("remove dst before") && !error.contains("--force"), "{error}");
    ok(dir.path(), "convert src whole --to f16 --shard-size 1G --quiet");
    ok(dir.path(), "convert src dst --to f16 --shard-size 1G --force --resume --quiet");
    assert!(listing(&at("dst")) == listing(&at("whole")));
    // What no conversion has begun stays as it is, whatever lies there; an empty directory is begun.
    fs::create_dir(at("new")).unwrap();
    ok(dir.path(), "convert src new --to bf16 --resume --quiet");
    fs::create_dir(at("notes")).unwrap();
    fs::write(at("notes/tokenizer.json"), "mine").unwrap();
    let before = listing(&at("notes"));
    for (options, says) in [
        ("", "notes exists\nhelp: --force replaces it\n"),
        ("--resume", "notes exists, and no conversion has begun there\nhelp: --force replaces it\n"),
        ("--rank 0 --of 2", "notes exists\n"),
        ("--resume --rank 0 --of 2", "no conversion has begun there"),
    ] {
        let error = fails(dir.path(), &format!("convert src notes --to bf16 {options}"), 3);
        assert!(error.contains(says), "{options}: {error}");
        assert_eq!(listing(&at("notes")), before, "{options}");
    }
    assert!(fails(dir.path(), "convert src new --to bf16", 3).contains("--resume continues it"));
}

/// Ranks share a directory. Any other run has it for itself.
#[test]
#[cfg_attr(not(unix), ignore = "not run: directories are not locked")]
fn a_directory_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    deepseek(&at("src"));
    let written = "dst is being written by another run\nhelp: wait until it has ended, or write elsewhere";
    let refused = |options: &str| {
        let error = fails(dir.path(), &format!("convert src dst --to bf16 --quiet {options}"), 3);
        assert!(error.contains(written), "{options}: {error}");
    };
    fs::create_dir(at("dst")).unwrap();
    let lock = fs::File::open(at("dst")).unwrap();
    lock.lock().unwrap();
    ["", "--force", "--resume", "--rank 0 --of 2"].iter().for_each(|options| refused(options));
    assert!(listing(&at("dst")).is_empty());
    lock.unlock().unwrap();
    lock.lock_shared().unwrap();
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 0 --of 2");
    refused("--resume");
    ok(dir.path(), "convert src dst --to bf16 --quiet --rank 1 --of 2");
    // What is complete is read.
    ok(dir.path(), "convert src dst --to bf16 --quiet --resume");
    refused("--force");
    lock.unlock().unwrap();
    ok(dir.path(), "convert src whole --to bf16 --quiet");
    assert!(listing(&at("dst")) == listing(&at("whole")));
}

#[test]
fn every_word_of_the_command_line_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("src"));
    assert!(fails(dir.path(), "convert src dst --to fp8-blok", 2).contains("'fp8-block'"));
    assert!(fails(dir.path(), "convert src dst --to bf61", 2).contains("bf16"));
    fails(dir.path(), "convert src dst --to bf16 --profile nobody", 2);
    fails(dir.path(), "convert src dst --to bf16 --memory lots", 2);
    fails(dir.path(), "convert src dst --to bf16 --rank 2 --of 2", 2);
    for rank in [0, 1] {
        let words = format!("convert src/model.safetensors x.safetensors --to f16 --rank {rank} --of 2");
        assert!(fails(dir.path(), &words, 2).contains("ranks share the files of a directory"));
    }
    fails(dir.path(), "convert src dst", 2);
    fails(dir.path(), "convert nowhere dst --to bf16", 3);
    let out = line(dir.path(), "convert nowhere dst --to bf16 --json");
    let error: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "refused");
    assert!(line(dir.path(), "--help").stdout.starts_with(b"Examples:"));
}

/// The files that the documentation speaks of.
fn documented(dir: &Path) {
    let at = |name: &str| dir.join(name);
    let mut random = Random(13);
    deepseek(&at("DeepSeek-R1"));
    model(&at("Llama-bf16"));
    fs::create_dir(at("gpt-oss-20b")).unwrap();
    let tensors: Tensors = vec![
        ("l.mlp.experts.down_proj_blocks".into(), Dtype::U8, vec![2, 32, 2, 16], vec![0x35; 2048]),
        ("l.mlp.experts.down_proj_scales".into(), Dtype::U8, vec![2, 32, 2], vec![121; 128]),
    ];
    write(&at("gpt-oss-20b/model.safetensors"), &tensors, None);
    fs::write(at("gpt-oss-20b/config.json"), r#"{"quantization_config":{"quant_method":"mxfp4"}}"#).unwrap();
    let tensors: Tensors = vec![
        ("scaled_fp8".into(), Dtype::F8_E4M3, vec![0], Vec::new()),
        ("l.weight".into(), Dtype::F8_E4M3, vec![4, 6], random.e4m3(24)),
        ("l.scale_weight".into(), Dtype::F32, vec![], le(&[0.5])),
    ];
    write(&at("t5xxl_fp8_scaled.safetensors"), &tensors, None);
    let tensors: Tensors = vec![
        ("img_in.weight".into(), Dtype::BF16, vec![64, 64], bf16s(&random.floats(4096))),
        ("blocks.0.weight".into(), Dtype::BF16, vec![64, 64], bf16s(&random.floats(4096))),
    ];
    write(&at("flux.safetensors"), &tensors, None);
    write(
        &at("model.safetensors"),
        &vec![("x".into(), Dtype::F32, vec![512], le(&random.floats(512)))],
        None,
    );
    let header = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (16, 32), }";
    let mut npy = header.to_vec();
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend(le(&random.floats(512)));
    fs::write(at("emb.npy"), npy).unwrap();
    fs::write(at("x.bin"), le(&random.floats(512))).unwrap();
}

/// Each command of the documentation, as it is written there.
#[test]
fn the_jobs_of_the_documentation_run() {
    let dir = tempfile::tempdir().unwrap();
    documented(dir.path());
    let at = |name: &str| dir.path().join(name);
    let text = include_str!("../../docs/checkpoints.md");
    let jobs = text.split("\n## ").find(|part| part.starts_with("Jobs")).unwrap();
    let commands: Vec<&str> = jobs.split('`').filter(|code| code.starts_with("lanecast ")).collect();
    assert_eq!(commands.len(), 14);
    for command in commands {
        let words = command.strip_prefix("lanecast ").unwrap();
        let words = words.replace("PATH", "DeepSeek-R1").replace("A B", "flux.safetensors flux.safetensors");
        ok(dir.path(), &words);
    }
    let flux = read(&at("flux8.safetensors"));
    assert_eq!((flux["img_in.weight"].0, flux["blocks.0.weight"].0), (Dtype::BF16, Dtype::F8_E4M3));
    assert!(at("emb8.scale.npy").exists());
}

/// The pages of docs/convert, each in a directory of its own: every command in its order, with exit 0 unless it says otherwise.
#[test]
fn the_pages_of_the_jobs_run_as_they_are_written() {
    let pages = listing(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/convert"));
    assert_eq!(pages.len(), 8);
    let mut run = 0;
    for (name, text) in pages {
        let dir = tempfile::tempdir().unwrap();
        documented(dir.path());
        for command in String::from_utf8(text).unwrap().lines().filter_map(|l| l.strip_prefix("lanecast ")) {
            let (words, code) = command.split_once("# exit ").unwrap_or((command, "0"));
            let out = line(dir.path(), words);
            let error = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), code.trim().parse().ok(), "{name}: {command}: {error}");
            run += 1;
        }
    }
    assert!(run > 35, "{run} commands");
}

/// Without scales, float8 of scaled weights is the product rounded once, and what is too large is clamped and counted.
#[test]
fn scaled_weights_become_floats_of_8_bits() {
    let dir = tempfile::tempdir().unwrap();
    let codes = Random(8).e4m3(128 * 130);
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![128, 130], codes.clone()),
        ("l.weight_scale".into(), Dtype::F32, vec![], le(&[2.0])),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let report = ok(dir.path(), "convert a.safetensors b.safetensors --to e4m3 --json");
    let found = &read(&dir.path().join("b.safetensors"))["l.weight"];
    assert_eq!((found.0, &found.1), (Dtype::F8_E4M3, &vec![128, 130]));
    let values: Vec<f32> = codes.iter().map(|&code| from_e4m3(code) * 2.0).collect();
    for (&code, &x) in found.2.iter().zip(&values) {
        assert_eq!(from_e4m3(code), x.clamp(-448.0, 448.0));
    }
    // 448 itself, and what rounds to it, is none.
    let clamped = values.iter().filter(|x| x.abs() > 464.0).count();
    assert!(clamped > 0 && report["saturated"] == clamped, "{report}");
    assert_eq!(report["max_abs_error"], 448.0);
    ok(dir.path(), "convert a.safetensors c.safetensors --to e5m2 --quiet");
    ok(dir.path(), "verify a.safetensors c.safetensors --max-rel-error 0.125");
    let text = fails(dir.path(), "convert a.safetensors d.safetensors --to e2m1", 3);
    assert!(text.contains("l.weight") && text.contains("mxfp4"), "{text}");
    assert!(!dir.path().join("d.safetensors").exists());
}

/// Embeddings and last layers whose names do not say so stay as they are, and the dtype of the configuration follows `--high`.
#[test]
fn embeddings_of_other_names_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        ("transformer.wte.weight", true),
        ("transformer.wpe.weight", true),
        ("shared.weight", true),
        ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", true),
        ("output.weight", true),
        ("encoder.layer.0.attention.output.weight", false),
        ("layers.0.shared_expert.up_proj.weight", false),
    ];
    let tensors: Tensors = names
        .iter()
        .map(|(name, _)| ((*name).into(), Dtype::F32, vec![32, 64], le(&[0.5f32; 2048])))
        .collect();
    fs::create_dir(dir.path().join("src")).unwrap();
    write(&dir.path().join("src/model.safetensors"), &tensors, None);
    fs::write(dir.path().join("src/config.json"), r#"{"dtype":"float32"}"#).unwrap();
    ok(dir.path(), "convert src dst --to fp8-block --high bf16 --quiet");
    let all = read(&dir.path().join("dst/model.safetensors"));
    for (name, kept) in names {
        assert_eq!(all[name].0, if kept { Dtype::BF16 } else { Dtype::F8_E4M3 }, "{name}");
    }
    assert_eq!(json_of(&dir.path().join("dst/config.json"))["dtype"], "bfloat16");
    ok(dir.path(), "convert src same --to fp8-block --quiet");
    assert_eq!(json_of(&dir.path().join("same/config.json"))["dtype"], "float32");
}

/// fbgemm's float8 is that of channels, with a limit of activations beside it.
#[test]
fn fbgemm_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![2, 4], vec![0x38; 8]),
        ("up_proj.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[2.0, 3.0])),
        ("up_proj.input_scale_ub".into(), Dtype::F32, vec![1], le(&[1200.0])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("config.json"), r#"{"quantization_config":{"quant_method":"fbgemm_fp8"}}"#).unwrap();
    ok(dir.path(), "convert src dst --to f32 --quiet");
    let all = read(&dir.path().join("dst/model.safetensors"));
    assert_eq!(all.len(), 1);
    assert_eq!(f32s(&all["up_proj.weight"].2), [2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
}

/// One scale of a tensor is read as the layout that `--from` names, where several have it.
#[test]
fn from_decides_between_layouts_of_one_scale() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![2, 4], vec![0x38; 8]),
        ("up_proj.weight_scale".into(), Dtype::F32, vec![], le(&[2.0])),
    ];
    write(&dir.path().join("src.safetensors"), &tensors, None);
    for from in ["fp8-tensor", "modelopt-fp8", "comfy-fp8"] {
        let report = ok(
            dir.path(),
            &format!("convert src.safetensors {from}.safetensors --to f32 --from {from} --json"),
        );
        assert_eq!(report["from"], from);
        assert_eq!(
            f32s(&read(&dir.path().join(format!("{from}.safetensors")))["up_proj.weight"].2),
            [2.0; 8]
        );
    }
}

/// What a configuration says that is not read is the error, not what follows from it.
#[test]
fn a_quantisation_that_is_not_read_is_named_first() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("up_proj.weight_packed".into(), Dtype::I32, vec![2, 4], vec![0; 32]),
        ("up_proj.weight_scale".into(), Dtype::BF16, vec![2, 1], vec![0; 4]),
        ("up_proj.weight_shape".into(), Dtype::I64, vec![2], vec![0; 16]),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    let config = r#"{"quantization_config":{"quant_method":"compressed-tensors","format":"marlin-24"}}"#;
    fs::write(src.join("config.json"), config).unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16", 3);
    assert!(error.contains("marlin-24), in a way that is not read") && !error.contains("--copy"), "{error}");
}

/// Variants of diffusers name theirs in the name of the index.
#[test]
fn the_index_of_a_variant_is_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let mut map = serde_json::Map::new();
    for i in 1..=2 {
        let (file, tensor) = (format!("m.fp16-0000{i}-of-00002.safetensors"), format!("x{i}"));
        write(&src.join(&file), &vec![(tensor.clone(), Dtype::F16, vec![2], vec![0, 0x3C, 0, 0x40])], None);
        map.insert(tensor, json!(file));
    }
    let index = json!({ "metadata": { "total_size": 8 }, "weight_map": map });
    fs::write(src.join("m.safetensors.index.fp16.json"), index.to_string()).unwrap();
    ok(dir.path(), "convert src dst --to f32 --quiet");
    let index = json_of(&dir.path().join("dst/m.safetensors.index.fp16.json"));
    assert_eq!(index["metadata"]["total_size"], 16);
    // Files of one name are listed by their numbers, and a line for each is no matter of --quiet.
    let listed = String::from_utf8(line(dir.path(), "inspect src").stdout).unwrap();
    assert!(
        listed.contains("1 of 2") && listed.contains("2 of 2") && !listed.contains("of-00002"),
        "{listed}"
    );
    let told = line(dir.path(), "convert src again --to f32 --quiet --progress plain");
    assert!(told.status.success() && told.stdout.is_empty() && told.stderr.is_empty(), "{told:?}");
    fs::remove_file(src.join("m.fp16-00002-of-00002.safetensors")).unwrap();
    assert!(
        fails(dir.path(), "inspect src", 3)
            .contains("it names m.fp16-00002-of-00002.safetensors, which is not there")
    );
}

/// The integers of 4 bits of compressed-tensors: eight to a number of 32 bits, each with 8 added, in the order of the columns.
fn int4(words: &[u8], n: usize) -> Vec<i32> {
    (0..n).map(|i| i32::from(words[i / 2] >> (4 * (i % 2)) & 0xF) - 8).collect()
}

fn int64s(values: [usize; 2]) -> Vec<u8> {
    values.iter().flat_map(|&value| (value as u64).to_le_bytes()).collect()
}

#[test]
fn int4_groups_are_written_as_compressed_tensors_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let x: Vec<f32> = Random(3).floats(12 * 48);
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F32, vec![12, 48], le(&x)),
        ("lm_head.weight".into(), Dtype::F32, vec![2, 8], le(&[1.0f32; 16])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("config.json"), "{}").unwrap();
    ok(dir.path(), "convert src dst --to int4-group --group-size 16 --quiet");
    let all = read(&dir.path().join("dst/model.safetensors"));
    let (dtype, shape, words) = &all["up_proj.weight_packed"];
    assert_eq!((*dtype, &shape[..]), (Dtype::I32, &[12, 6][..]));
    let (dtype, shape, scales) = &all["up_proj.weight_scale"];
    assert_eq!((*dtype, &shape[..]), (Dtype::F32, &[12, 3][..]));
    assert_eq!(all["up_proj.weight_shape"], (Dtype::I64, vec![2], int64s([12, 48])));
    assert_eq!(all.len(), 4);
    let (codes, scales) = (int4(words, x.len()), f32s(scales));
    for (i, (&x, &code)) in x.iter().zip(&codes).enumerate() {
        let group = &scales[i / 16];
        // (Half a step, and what rounding the scale changes.)
        assert!((x - code as f32 * group).abs() <= group * 0.50001, "{i}: {x} is {code} * {group}");
    }
    assert!(codes.contains(&7) && codes.contains(&-7));
    let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
    let weights = &config["config_groups"]["group_0"]["weights"];
    assert_eq!(
        (&config["format"], &config["ignore"]),
        (&json!("pack-quantized"), &json!(["lm_head", "re:.*lm_head.*"]))
    );
    assert_eq!(
        (&weights["strategy"], &weights["group_size"], &weights["num_bits"]),
        (&json!("group"), &json!(16), &json!(4))
    );

    // Back, with one rounding: none, as float32 holds these products.
    ok(dir.path(), "convert dst back --to f32 --quiet");
    let back = f32s(&read(&dir.path().join("back/model.safetensors"))["up_proj.weight"].2);
    assert!(back.iter().zip(codes).enumerate().all(|(i, (&x, code))| x == code as f32 * scales[i / 16]));
    ok(dir.path(), "verify dst back");
    // What has the layout stays as it is, in groups of the source's size, and another size is another quantisation.
    ok(dir.path(), "convert dst same --to int4-group --quiet");
    assert!(
        listing(&dir.path().join("same"))
            .iter()
            .zip(listing(&dir.path().join("dst")))
            .all(|(a, b)| a.0 == "lanecast.json" || *a == b)
    );
    ok(dir.path(), "convert dst other --to int4-group --group-size 24 --quiet");
    assert_eq!(read(&dir.path().join("other/model.safetensors"))["up_proj.weight_scale"].1, [12, 2]);
    ok(dir.path(), "convert dst fp8 --to fp8-channel --quiet");
    ok(dir.path(), "verify dst fp8 --max-rms-error 0.04");
    // The same of 8 bits, four to a number, with 128 added.
    ok(dir.path(), "convert src int8 --to int8-group --group-size 16 --quiet");
    let all = read(&dir.path().join("int8/model.safetensors"));
    let (dtype, shape, words) = &all["up_proj.weight_packed"];
    assert_eq!((*dtype, &shape[..]), (Dtype::I32, &[12, 12][..]));
    let scales = f32s(&all["up_proj.weight_scale"].2);
    for (i, (&x, &byte)) in x.iter().zip(words).enumerate() {
        let (code, group) = (f32::from(byte) - 128.0, scales[i / 16]);
        assert!((x - code * group).abs() <= group * 0.50001, "{i}: {x} is {code} * {group}");
    }
    let config = &json_of(&dir.path().join("int8/config.json"))["quantization_config"];
    assert_eq!(config["config_groups"]["group_0"]["weights"]["num_bits"], 8);
    ok(dir.path(), "convert int8 int8-back --to f32 --quiet");
    ok(dir.path(), "verify int8 int8-back");
    ok(dir.path(), "verify src int8 --max-rms-error 0.01");
    for (words, code, says) in [
        ("--to int4-group --group-size 20", 2, "--group-size 20: not a positive multiple of 8"),
        ("--to nvfp4 --group-size 32", 2, "int4-group and int8-group have"),
        ("--to int4-group", 3, "48 columns are not a multiple of 128"),
    ] {
        assert!(fails(dir.path(), &format!("convert src no {words}"), code).contains(says), "{words}");
    }
}

/// A weight with as many columns as a group has one, and the others keep theirs.
#[test]
fn groups_are_those_that_most_weights_have() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensor = |name: &str, columns: usize| {
        let x = bf16s(&Random(columns as u64).floats(8 * columns));
        (format!("{name}_proj.weight"), Dtype::BF16, vec![8, columns], x)
    };
    write(&src.join("model.safetensors"), &vec![tensor("a", 32), tensor("b", 96), tensor("c", 64)], None);
    fs::write(src.join("config.json"), "{}").unwrap();
    for to in ["int4-group", "int8-group"] {
        ok(dir.path(), &format!("convert src {to} --to {to} --group-size 32 --quiet"));
        for words in ["", "--group-size 32"] {
            ok(dir.path(), &format!("convert {to} again --to {to} {words} --force --quiet"));
            let again = listing(&dir.path().join("again"));
            let same = |(a, b): (&(String, Vec<u8>), _)| a.0 == "lanecast.json" || *a == b;
            assert!(again.iter().zip(listing(&dir.path().join(to))).all(same), "{to} {words}");
        }
    }
    // Rows that are all one group may be of any length.
    fs::remove_file(src.join("model.safetensors")).unwrap();
    write(&src.join("model.safetensors"), &vec![tensor("a", 32)], None);
    ok(dir.path(), "convert src one --to int4-group --group-size 32 --quiet");
    ok(dir.path(), "convert one rows --to int4-group --quiet");
    ok(dir.path(), "verify one rows");
}

/// A configuration may say other blocks than 128 x 128: weights that stay keep theirs, and others get the same.
#[test]
fn blocks_are_those_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![128, 192], Random(1).e4m3(128 * 192)),
        ("up_proj.weight_scale_inv".into(), Dtype::F32, vec![4, 3], le(&[0.5f32; 12])),
        ("down_proj.weight".into(), Dtype::BF16, vec![64, 128], bf16s(&Random(2).floats(64 * 128))),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    let config = r#"{"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 64]}}"#;
    fs::write(src.join("config.json"), config).unwrap();
    ok(dir.path(), "convert src dst --to fp8-block --quiet");
    let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
    assert_eq!(config["weight_block_size"], json!([32, 64]));
    let all = read(&dir.path().join("dst/model.safetensors"));
    assert_eq!(all["up_proj.weight_scale_inv"], (Dtype::F32, vec![4, 3], le(&[0.5f32; 12])));
    assert_eq!(all["down_proj.weight_scale_inv"].1, [2, 2]);
    ok(dir.path(), "verify src dst --max-rms-error 0.05");
    // Of scales that are found anew, too.
    ok(dir.path(), "convert src anew --to fp8-block --scale-rule amax --quiet");
    ok(dir.path(), "verify src anew --max-rms-error 0.05");
}

/// `scale_fmt` says of all scales that they are powers of two, and loaders convert scales to the dtype that follows from it.
#[test]
fn configurations_say_what_all_scales_are() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let exponents = |dtype| (dtype, vec![120]);
    let (f32s, bf16s) = ((Dtype::F32, le(&[0.3])), (Dtype::BF16, bf16s(&[0.3])));
    let (e8m0, u8s) = (exponents(Dtype::F8_E8M0), exponents(Dtype::U8));
    // The scales of two weights; what the source says; what the result says, and the dtypes of its scales.
    for (a, b, said, says, dtypes) in [
        (&e8m0, &e8m0, false, true, [Dtype::F8_E8M0; 2]),
        (&u8s, &u8s, false, true, [Dtype::U8; 2]),
        (&e8m0, &u8s, true, true, [Dtype::F8_E8M0; 2]),
        (&e8m0, &f32s, false, false, [Dtype::F8_E8M0, Dtype::F32]),
        (&f32s, &e8m0, false, false, [Dtype::F32, Dtype::F8_E8M0]),
        (&u8s, &f32s, false, false, [Dtype::F8_E8M0, Dtype::F32]),
        (&bf16s, &f32s, false, false, [Dtype::BF16, Dtype::F32]),
        // Powers of two that are stored as float32, as DeepSeek-V3.1 has them.
        (&f32s, &f32s, true, true, [Dtype::F32; 2]),
        (&f32s, &f32s, false, false, [Dtype::F32; 2]),
    ] {
        let mut tensors: Tensors = Vec::new();
        for (name, (dtype, scale)) in [("a", a), ("b", b)] {
            tensors.push((format!("{name}.weight"), Dtype::F8_E4M3, vec![64, 32], Random(1).e4m3(2048)));
            tensors.push((format!("{name}.weight_scale_inv"), *dtype, vec![1, 1], scale.clone()));
        }
        let mut config =
            json!({ "quantization_config": { "quant_method": "fp8", "weight_block_size": [128, 128] } });
        if said {
            config["quantization_config"]["scale_fmt"] = "ue8m0".into();
        }
        fs::write(src.join("config.json"), config.to_string()).unwrap();
        write(&src.join("model.safetensors"), &tensors, None);
        for how in ["", "--keep a.weight", "--copy b.weight"] {
            ok(dir.path(), &format!("convert src dst --to fp8-block {how} --force --quiet"));
            let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
            let all = read(&dir.path().join("dst/model.safetensors"));
            let found = ["a", "b"].map(|name| all[&format!("{name}.weight_scale_inv")].0);
            assert_eq!(
                (config.get("scale_fmt").is_some(), found),
                (says, dtypes),
                "{how} {a:?} {b:?} {said}"
            );
            ok(dir.path(), "verify src dst");
        }
        // Another one, which gets float32.
        tensors.push(("c.weight".into(), Dtype::F32, vec![64, 32], le(&[0.5; 2048])));
        write(&src.join("model.safetensors"), &tensors, None);
        ok(dir.path(), "convert src dst --to fp8-block --force --quiet");
        let config = json_of(&dir.path().join("dst/config.json"));
        assert!(config["quantization_config"].get("scale_fmt").is_none(), "{config}");
        ok(dir.path(), "verify src dst");
    }
}

/// Blocks of several rows have fewer scales than groups of as many columns.
#[test]
fn blocks_of_rows_are_no_groups() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let scales = (0..8).map(|i| 120 + i).collect();
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![256, 128], Random(1).e4m3(256 * 128)),
        ("up_proj.weight_scale_inv".into(), Dtype::F8_E8M0, vec![2, 4], scales),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    let config = r#"{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 32]}}"#;
    fs::write(src.join("config.json"), config).unwrap();
    for to in ["mxfp8", "comfy-mxfp8", "fp8-block"] {
        ok(dir.path(), &format!("convert src {to} --to {to} --quiet"));
        ok(dir.path(), &format!("verify src {to} --max-rms-error 0.05"));
    }
    ok(dir.path(), "convert mxfp8 back --to fp8-block --scale-dtype e8m0 --quiet");
    ok(dir.path(), "verify src back --max-rms-error 0.05");
}

/// Elements of 4 and 6 bits are packed, and a tensor in a file has whole bytes.
#[test]
fn tensors_of_no_whole_bytes_stay() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = |n: usize| bf16s(&vec![0.5; n]);
    let tensors: Tensors = vec![
        ("a".into(), Dtype::BF16, vec![3], numbers(3)),
        ("b".into(), Dtype::BF16, vec![], numbers(1)),
        ("c".into(), Dtype::BF16, vec![3, 4], numbers(12)),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    for (to, dtype) in
        [("e2m1", Dtype::F4), ("float6_e2m3fn", Dtype::F6_E2M3), ("float6_e3m2fn", Dtype::F6_E3M2)]
    {
        let report = ok(dir.path(), &format!("convert a.safetensors {to}.safetensors --to {to} --json"));
        assert_eq!(report["tensors"]["kept"], 2, "{to}");
        ok(dir.path(), &format!("verify a.safetensors {to}.safetensors"));
        let file = fs::read(dir.path().join(format!("{to}.safetensors"))).unwrap();
        let file = safetensors::SafeTensors::deserialize(&file).unwrap();
        let found = ["a", "b", "c"].map(|name| file.tensor(name).unwrap().dtype());
        assert_eq!(found, [Dtype::BF16, Dtype::BF16, dtype], "{to}");
    }
    let out = line(dir.path(), "convert a.safetensors x.safetensors --to e2m1 --dry-run");
    assert!(String::from_utf8_lossy(&out.stdout).contains("not fill whole bytes"));
}

/// A quantised weight of no rows has no largest magnitude, and so no scale of the whole.
#[test]
fn empty_weights_become_empty_floats() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![0, 32], vec![]),
        ("up_proj.weight_scale".into(), Dtype::F32, vec![1], le(&[0.5])),
        ("down_proj.weight".into(), Dtype::F8_E4M3, vec![128, 128], Random(1).e4m3(128 * 128)),
        ("down_proj.weight_scale".into(), Dtype::F32, vec![1], le(&[0.5])),
        ("norm.weight".into(), Dtype::BF16, vec![64], bf16s(&[1.0; 64])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("config.json"), "{}").unwrap();
    for to in ["nvfp4", "int8-tensor", "modelopt-fp8", "comfy-nvfp4", "fp8-block", "int4-group", "bf16"] {
        ok(dir.path(), &format!("convert src {to} --to {to} --quiet"));
        let all = read(&dir.path().join(to).join("model.safetensors"));
        assert_eq!(all["up_proj.weight"], (Dtype::BF16, vec![0, 32], vec![]), "{to}");
        assert!(!all.contains_key("up_proj.weight_scale"), "{to}");
        ok(dir.path(), &format!("inspect {to} --json --from {}", if to == "bf16" { "auto" } else { to }));
    }
    let config = json_of(&dir.path().join("nvfp4/config.json"));
    let ignore = config["quantization_config"]["ignore"].as_array().unwrap();
    assert!(ignore.contains(&json!("up_proj")), "{config}");
    ok(dir.path(), "convert src f32 --to nvfp4 --high f32 --quiet");
    assert_eq!(read(&dir.path().join("f32/model.safetensors"))["up_proj.weight"].0, Dtype::F32);
}

/// Engines take one factor for q, k and v: a warning says where some keep theirs.
#[test]
fn several_factors_of_what_is_fused_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let floats = |name: &str, seed: u64| {
        (format!("l.{name}_proj.weight"), Dtype::BF16, vec![32, 64], bf16s(&Random(seed).floats(32 * 64)))
    };
    write(&at("q.safetensors"), &vec![floats("q", 1), floats("o", 2)], None);
    for (to, from) in [("nvfp4", "nvfp4"), ("modelopt-nvfp4", "modelopt-nvfp4"), ("nvfp4", "modelopt-nvfp4")]
    {
        ok(dir.path(), &format!("convert q.safetensors q4.safetensors --to {from} --force --quiet"));
        let mut tensors: Tensors = read(&at("q4.safetensors"))
            .into_iter()
            .map(|(name, (dtype, shape, bytes))| (name, dtype, shape, bytes))
            .collect();
        write(&at("one.safetensors"), &tensors, None);
        tensors.push(floats("k", 3));
        write(&at("two.safetensors"), &tensors, None);
        let told = |file: &str, more: &str| {
            let out = line(
                dir.path(),
                &format!(
                    "convert {file}.safetensors x.safetensors --to {to} --from {from} --force --quiet {more}"
                ),
            );
            let error = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(0), "{error}");
            error.contains("different global scales, in 1 group, such as that of l.k_proj.weight")
        };
        assert!(told("two", ""), "{to} of {from}");
        assert!(!told("two", "--fuse off") && !told("two", "--scale-rule amax"), "{to} of {from}");
        assert!(!told("one", ""), "{to} of {from}");
    }
}

/// A dry run has the shape of the values, whatever layouts they have, and what is stored where that has another.
#[test]
fn a_dry_run_has_the_shapes_of_the_values() {
    let dir = tempfile::tempdir().unwrap();
    let line_of = |words: &str, tensor: &str| {
        let out = line(dir.path(), &format!("convert {words} --dry-run"));
        let text = String::from_utf8(out.stdout).unwrap();
        let line = text.lines().find(|line| line.trim().starts_with(&format!("{tensor} ")));
        line.unwrap_or_else(|| panic!("{words}: {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let tensors: Tensors =
        vec![("l.weight".into(), Dtype::BF16, vec![96, 64], bf16s(&Random(3).floats(96 * 64)))];
    fs::create_dir(dir.path().join("src")).unwrap();
    write(&dir.path().join("src/model.safetensors"), &tensors, None);
    for (layout, codes, stored) in [
        ("int4-group", "l.weight_packed", "i32 [96, 8]"),
        ("mxfp4", "l.weight_packed", "u8 [96, 32]"),
        ("modelopt-nvfp4", "l.weight", "u8 [96, 32]"),
        ("mxfp8", "l.weight", ""),
    ] {
        let more = if layout == "int4-group" { "--group-size 32" } else { "" };
        let there = line_of(&format!("src dst --to {layout} {more}"), "l.weight");
        assert_eq!(there, format!("l.weight [96, 64] bf16 {layout} {stored}").trim_end());
        ok(dir.path(), &format!("convert src {layout} --to {layout} {more} --quiet"));
        let from = format!("--from {layout}");
        let back = line_of(&format!("{layout} dst --to bf16 {from}"), "l.weight");
        assert_eq!(back, format!("l.weight [96, 64] {layout} bf16"));
        let stays = line_of(&format!("{layout} dst --to {layout} {from}"), codes);
        let stored = if stored.is_empty() { String::new() } else { format!("{stored} ") };
        assert_eq!(stays, format!("{codes} [96, 64] {layout} {layout} {stored}it has that layout"));
    }
    // gpt-oss stores the transposed matrix.
    let tensors: Tensors =
        vec![("l.experts.x".into(), Dtype::BF16, vec![2, 64, 48], vec![0; 2 * 64 * 48 * 2])];
    write(&dir.path().join("e.safetensors"), &tensors, None);
    let there = line_of("e.safetensors g.safetensors --to gpt-oss", "l.experts.x");
    assert_eq!(there, "l.experts.x [2, 64, 48] bf16 gpt-oss u8 [2, 48, 2, 16]");
    ok(dir.path(), "convert e.safetensors g.safetensors --to gpt-oss --quiet");
    assert_eq!(
        line_of("g.safetensors x.safetensors --to f32", "l.experts.x"),
        "l.experts.x [2, 64, 48] gpt-oss f32"
    );
}

/// Scales of weights that stay get the names that the configuration of the result is read with.
#[test]
fn scales_that_stay_have_the_names_of_the_layout() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let blocks = json!({ "quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
        "group_0": { "targets": ["Linear"], "weights": { "strategy": "block", "block_structure": [128, 128] } },
    } });
    let fp8 = json!({ "quant_method": "fp8" });
    for (to, from, shape, config, last) in [
        ("fp8-block", "weight_scale", vec![2, 1], &blocks, "weight_scale_inv"),
        ("fp8-block", "scale", vec![2, 1], &fp8, "weight_scale_inv"),
        ("fp8-tensor", "weight_scale_inv", vec![1], &fp8, "weight_scale"),
    ] {
        let scales = le(&vec![0.5f32; shape[0]]);
        let tensors: Tensors = vec![
            ("up_proj.weight".into(), Dtype::F8_E4M3, vec![256, 128], Random(1).e4m3(256 * 128)),
            (format!("up_proj.{from}"), Dtype::F32, shape.clone(), scales.clone()),
        ];
        write(&src.join("model.safetensors"), &tensors, None);
        fs::write(src.join("config.json"), json!({ "quantization_config": config }).to_string()).unwrap();
        ok(dir.path(), &format!("convert src dst --to {to} --force --quiet"));
        let all = read(&dir.path().join("dst/model.safetensors"));
        assert_eq!(all.len(), 2, "{from}");
        assert_eq!(all[&format!("up_proj.{last}")], (Dtype::F32, shape, scales), "{from}");
        ok(dir.path(), "verify src dst");
        // Without another configuration, the names stay.
        ok(dir.path(), "convert src plain --to bf16 --keep * --force --quiet");
        assert!(read(&dir.path().join("plain/model.safetensors")).contains_key(&format!("up_proj.{from}")));
    }
}

/// Zero points are packed down the columns, eight rows to a number.
#[test]
fn int4_with_zero_points_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let (rows, columns, groups) = (11, 48, 3);
    let mut random = Random(5);
    let mut nibbles =
        |n: usize| -> Vec<u8> { random.floats(n).iter().map(|x| (x.to_bits() >> 3 & 0xF) as u8).collect() };
    let (codes, zeros) = (nibbles(rows * columns), nibbles(rows * groups));
    let packed: Vec<u8> = codes.as_chunks::<2>().0.iter().map(|[a, b]| a | b << 4).collect();
    let mut words = vec![0u32; 2 * groups];
    for (i, &zero) in zeros.iter().enumerate() {
        let (row, group) = (i / groups, i % groups);
        words[row / 8 * groups + group] |= u32::from(zero) << (4 * (row % 8));
    }
    let scales: Vec<f32> = (0..rows * groups).map(|i| 1.0 + i as f32 / 64.0).collect();
    let good: Tensors = vec![
        ("up_proj.weight_packed".into(), Dtype::I32, vec![rows, columns / 8], packed),
        ("up_proj.weight_scale".into(), Dtype::BF16, vec![rows, groups], bf16s(&scales)),
        ("up_proj.weight_shape".into(), Dtype::I64, vec![2], int64s([rows, columns])),
        (
            "up_proj.weight_zero_point".into(),
            Dtype::I32,
            vec![2, groups],
            words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        ),
    ];
    write(&src.join("model.safetensors"), &good, None);
    for threads in [1, 3] {
        ok(
            dir.path(),
            &format!("convert src f32-{threads} --to f32 --threads {threads} --memory 1M --quiet"),
        );
        let all = read(&dir.path().join(format!("f32-{threads}/model.safetensors")));
        assert_eq!(all.len(), 1);
        for (i, x) in f32s(&all["up_proj.weight"].2).into_iter().enumerate() {
            let group = i / columns * groups + i % columns / (columns / groups);
            let expected = f32::from(codes[i]) - f32::from(zeros[group]);
            assert_eq!(x, expected * scales[group], "{i}");
        }
    }
    ok(dir.path(), "verify src f32-1");
    // Other codes have no zero points.
    ok(dir.path(), "convert src nvfp4 --to nvfp4 --quiet");
    ok(dir.path(), "verify src nvfp4 --max-rms-error 0.15");
    ok(dir.path(), "convert src sym --to int4-group --quiet");
    assert!(!read(&dir.path().join("sym/model.safetensors")).contains_key("up_proj.weight_zero_point"));
    let error = fails(dir.path(), "convert src kept --to int4-group --keep *up*", 2);
    assert!(
        error.contains("int4-group with zero points or other groups beside the new ones in one result"),
        "{error}"
    );

    type Change = fn(&mut Tensors);
    let changes: [(&str, Change); 6] = [
        ("without up_proj.weight_shape", |it| _ = it.remove(2)),
        ("up_proj.weight_shape, which is [11, 40]", |it| it[2].3[8] = 40),
        ("up_proj.weight_shape, which is no shape", |it| it[2].3[15] = 0x80),
        ("zero points I32 [3, 2]", |it| it[3].2 = vec![3, 2]),
        ("one for each group of a row, would fit", |it| (it[1].2, it[1].3) = (vec![11, 5], vec![0; 110])),
        ("an unknown tensor, up_proj.weight_g_idx, I32 [48]", |it| {
            it.push(("up_proj.weight_g_idx".into(), Dtype::I32, vec![48], vec![0; 192]));
        }),
    ];
    for (says, change) in changes {
        let mut bad = good.clone();
        change(&mut bad);
        write(&src.join("model.safetensors"), &bad, None);
        let error = fails(dir.path(), "convert src no --to bf16", 3);
        assert!(error.contains(says) && error.contains("up_proj.weight_packed"), "{says}: {error}");
    }
}

/// A directory of float32 matrices of 128 x 128 under these names, and a configuration.
fn matrices(dir: &Path, names: &[&str], config: &str) {
    let tensors: Tensors = names
        .iter()
        .map(|name| ((*name).into(), Dtype::F32, vec![128, 128], le(&Random(9).floats(128 * 128))))
        .collect();
    fs::create_dir_all(dir).unwrap();
    write(&dir.join("model.safetensors"), &tensors, None);
    fs::write(dir.join("config.json"), config).unwrap();
}

/// Loaders make modules that are in no file, or that files call otherwise: the configuration names these, too.
#[test]
fn configurations_name_the_modules_of_loaders() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let ignore = |name: &str| {
        let config = &json_of(&at(name).join("config.json"))["quantization_config"];
        let list = config.get("ignore").unwrap_or_else(|| &config["modules_to_not_convert"]);
        list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // A head that is tied to the embedding.
    matrices(&at("tied"), &["model.embed_tokens.weight", "l.0.up_proj.weight"], r#"{"model_type":"llama"}"#);
    matrices(&at("whisper"), &["l.0.fc1.weight"], r#"{"model_type":"whisper"}"#);
    matrices(&at("biogpt"), &["l.0.fc1.weight"], r#"{"model_type":"biogpt"}"#);
    matrices(&at("bert"), &["l.0.fc1.weight", "cls.predictions.transform.dense.weight"], "{}");
    // Experts are one module. So are those that are kept; of some there is no such module.
    let experts = [
        "a.mlp.experts.0.up_proj.weight",
        "b.mlp.experts.0.up_proj.weight",
        "b.mlp.experts.1.up_proj.weight",
    ];
    matrices(&at("moe"), &[&experts[..], &["l.0.up_proj.weight"]].concat(), "{}");
    // Routers and towers have other names as modules.
    matrices(
        &at("vision"),
        &["visual.blocks.0.fc.weight", "l.0.moe.gate.weight", "l.0.gate_proj.weight", "embed_out.weight"],
        "{}",
    );
    for (name, words, expected) in [
        ("tied", "fp8-channel", &["lm_head", "model.embed_tokens", "re:.*lm_head.*"][..]),
        ("tied", "fp8-block", &["lm_head", "model.embed_tokens"]),
        ("whisper", "nvfp4", &["proj_out"]),
        ("biogpt", "nvfp4", &["output_projection"]),
        ("bert", "fp8-channel", &["cls.predictions.decoder"]),
        (
            "moe",
            "fp8-block --keep *a.mlp* --keep *b.mlp.experts.1*",
            &["a.mlp.experts", "a.mlp.experts.0.up_proj", "b.mlp.experts.1.up_proj", "lm_head"],
        ),
    ] {
        ok(dir.path(), &format!("convert {name} out --to {words} --force --quiet"));
        assert_eq!(ignore("out"), expected, "{name} {words}");
    }
    ok(dir.path(), "convert vision fp8 --to fp8-channel --quiet");
    let names = ["embed_out", "l.0.moe.gate", "lm_head", "visual.blocks.0.fc"];
    let expressions = ["re:.*lm_head.*", "re:.*router.*", "re:.*visual.*"];
    assert_eq!(ignore("fp8"), [&names[..], &expressions].concat());
    // What is quantised already stays so, and is not named.
    let whole = ["lm_head.weight", "l.0.moe.gate.weight", "l.0.gate_proj.weight"];
    matrices(&at("whole"), &whole, "{}");
    ok(
        dir.path(),
        "convert whole quantised --to fp8-channel --only *lm_head* --only *.gate.* --only *gate_proj* --quiet",
    );
    assert_eq!(ignore("quantised"), Vec::<String>::new());
    for options in ["", "--keep *lm_head*", "--only *gate_proj*"] {
        ok(dir.path(), &format!("convert quantised out --to fp8-channel --force --quiet {options}"));
        assert_eq!(ignore("out"), Vec::<String>::new(), "{options}");
        ok(dir.path(), "verify quantised out");
    }
    // Those of the source stay.
    let path = at("fp8/config.json");
    let mut config = json_of(&path);
    config["quantization_config"]["ignore"] = json!(["re:.*mine.*", "re:.*visual.*"]);
    fs::write(&path, config.to_string()).unwrap();
    ok(dir.path(), "convert fp8 out --to mxfp8 --high bf16 --force --quiet");
    assert_eq!(
        ignore("out")[names.len()..],
        ["re:.*lm_head.*", "re:.*mine.*", "re:.*router.*", "re:.*visual.*"]
    );
}

/// What stays quantised while the rest becomes floats has its configuration, which names the rest.
#[test]
fn configurations_of_what_stays_quantised_name_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    matrices(&at("src"), &["l.0.up_proj.weight", "l.0.down_proj.weight"], r#"{"dtype":"float32"}"#);
    ok(dir.path(), "convert src modelopt --to modelopt-nvfp4 --quiet");
    ok(dir.path(), "convert modelopt out --to bf16 --keep *up_proj* --quiet");
    let config = json_of(&at("out/config.json"));
    let has = |names: &Value| names.as_array().unwrap().contains(&json!("l.0.down_proj"));
    assert!(has(&config["quantization_config"]["ignore"]), "{config}");
    assert!(has(&json_of(&at("out/hf_quant_config.json"))["quantization"]["exclude_modules"]));
    ok(dir.path(), "verify modelopt out --max-abs-error 0.01");
    // That file alone says what it is.
    fs::write(at("modelopt/config.json"), r#"{"dtype":"float32"}"#).unwrap();
    ok(dir.path(), "convert modelopt out --to bf16 --keep *up_proj* --force --quiet");
    ok(dir.path(), "verify modelopt out --max-abs-error 0.01");
    ok(dir.path(), "convert modelopt out --to bf16 --force --quiet");
    assert!(!at("out/hf_quant_config.json").exists());
    // A configuration within that of the text.
    ok(dir.path(), "convert src fp8 --to fp8-block --quiet");
    let whole = json_of(&at("fp8/config.json"));
    let nested = json!({ "text_config": { "quantization_config": whole["quantization_config"] } });
    fs::write(at("fp8/config.json"), nested.to_string()).unwrap();
    ok(dir.path(), "convert fp8 out --to bf16 --keep *up_proj* --force --quiet");
    let config = json_of(&at("out/config.json"));
    assert!(has(&config["text_config"]["quantization_config"]["modules_to_not_convert"]), "{config}");
}

/// A float stays a float whatever leaves it one, and loaders have to know.
#[test]
fn configurations_name_what_any_option_leaves() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.up_proj.weight", "l.down_proj.weight", "l.embed.weight"], "{}");
    for (to, key) in [
        ("fp8-block", "modules_to_not_convert"),
        ("int8-channel", "ignore"),
        ("nvfp4", "ignore"),
        ("modelopt-fp8", "ignore"),
    ] {
        for how in ["--keep *up_proj*", "--copy *up_proj*", "--only *down_proj*", "--copy l.up_proj.weight"] {
            ok(dir.path(), &format!("convert src dst --to {to} {how} --force --quiet"));
            let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
            let names = config[key].as_array().unwrap();
            assert!(names.contains(&json!("l.up_proj")), "{to} {how}: {config}");
            assert!(!names.contains(&json!("l.down_proj")), "{to} {how}: {config}");
            // What has the layout already is none of them.
            ok(dir.path(), &format!("convert dst again --to {to} {how} --force --quiet"));
            let again = &json_of(&dir.path().join("again/config.json"))["quantization_config"];
            assert!(again == config, "{to} {how}: {again}, {config}");
        }
    }
}

/// `--only` chooses among what can be quantised, and what is kept by default has to be named.
#[test]
fn only_chooses_among_matrices() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let matrix = |name: &str| (name.to_owned(), Dtype::F32, vec![128, 128], le(&[0.5f32; 128 * 128]));
    let tensors: Tensors = vec![
        matrix("l.0.mlp.up_proj.weight"),
        matrix("l.0.mlp.gate.weight"),
        matrix("l.0.mlp.table"),
        ("l.0.norm.weight".into(), Dtype::F32, vec![128], le(&[0.5f32; 128])),
        ("l.0.mlp.up_proj.bias".into(), Dtype::F32, vec![128], le(&[0.5f32; 128])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    for (only, expected) in [
        ("*l.0*", &["l.0.mlp.up_proj.weight"][..]),
        ("*mlp.gate*", &["l.0.mlp.gate.weight"]),
        ("l.0.mlp.table", &["l.0.mlp.table"]),
    ] {
        ok(dir.path(), &format!("convert src out --to fp8-block --only {only} --force --quiet"));
        let all = read(&dir.path().join("out/model.safetensors"));
        let mut found: Vec<_> =
            all.iter().filter(|(_, (dtype, ..))| *dtype == Dtype::F8_E4M3).map(|(n, _)| &n[..]).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{only}");
    }
    let error = fails(dir.path(), "convert src no --to fp8-block --only *norm*", 3);
    assert!(error.contains("l.0.norm.weight: no matrix"), "{error}");
}

/// What loaders do not take for a linear layer is kept, by the kind of model.
#[test]
fn models_with_layers_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let up = "h.0.up_proj.weight";
    for (model, to, name, kept) in [
        ("gpt2", "fp8-channel", "h.0.attn.c_attn.weight", true),
        ("gpt_bigcode", "fp8-channel", "h.0.attn.c_attn.weight", false),
        ("t5", "fp8-block", "h.0.wo.weight", true),
        ("t5", "fp8-channel", "h.0.wo.weight", false),
        ("falcon", "fp8-channel", "h.0.dense.weight", false),
        ("dbrx", "fp8-block", "h.0.norm_attn_norm.attn.Wqkv.weight", false),
        ("lfm2", "fp8-block", "h.0.conv.in_proj.weight", false),
        ("convbert", "fp8-block", "convbert.h.0.query.weight", false),
        ("x", "fp8-block", "h.0.norm1.linear.weight", true),
        ("x", "fp8-block", "model.layers.61.eh_proj.weight", true),
        ("x", "fp8-block", "h.0.mlp.shared_expert_gate.weight", true),
        ("x", "fp8-block", "score.weight", true),
        ("x", "fp8-block", "h.0.pos_emb.weight", true),
    ] {
        matrices(&dir.path().join("src"), &[up, name], &json!({ "model_type": model }).to_string());
        ok(dir.path(), &format!("convert src out --to {to} --force --quiet"));
        let found = read(&dir.path().join("out/model.safetensors"))[name].0;
        assert_eq!(found, if kept { Dtype::F32 } else { Dtype::F8_E4M3 }, "{model} {to} {name}");
    }
    matrices(&dir.path().join("src"), &["transformer.h.0.dense.weight"], r#"{"model_type":"falcon"}"#);
    let error = fails(dir.path(), "convert src no --to fp8-block", 3);
    assert!(error.contains("transformers does not read Falcon's layers as fp8-block"), "{error}");
    let error = fails(dir.path(), "convert src no --to gpt-oss", 3);
    assert!(error.contains("--to gpt-oss, but config.json says that the model is falcon"), "{error}");
    let error = fails(dir.path(), "convert src no --to fp8-channel --scale-dtype e8m0", 2);
    assert!(
        error.contains("no loader of fp8-channel reads it") && error.contains("f32, bf16, f16"),
        "{error}"
    );
    let out = line(dir.path(), "convert src mx --to mxfp4 --quiet");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.contains("loaders dequantise mxfp4 to bfloat16, but most floats of SRC are f32: --high bf16"),
        "{text}"
    );
    // (Loaders have no models of 8 bits without scales.)
    fs::write(dir.path().join("src/config.json"), r#"{"dtype":"float32"}"#).unwrap();
    ok(dir.path(), "convert src e4m3 --to e4m3 --quiet");
    assert_eq!(json_of(&dir.path().join("e4m3/config.json"))["dtype"], "float32");
}

/// Tensors that are called as those beside codes are, where nothing is quantised.
#[test]
fn tensors_that_are_called_like_markers_stay() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = ["g_idx", "a.weight_shape", "a.input_scale"]
        .map(|name| (name.into(), Dtype::F32, vec![2], le(&[1.0, 2.0])))
        .into();
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --quiet");
    assert_eq!(read(&dir.path().join("b.safetensors")).len(), 3);
}

/// What would be read wrongly, or without its scales, is an error that names it.
#[test]
fn what_is_quantised_in_another_way_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    let codes =
        |dtype: Dtype| -> Tensors { vec![("l.q.weight".into(), dtype, vec![128, 128], vec![1; 1 << 14])] };
    let text =
        |name: &str, text: &str| (name.to_owned(), Dtype::U8, vec![text.len()], text.as_bytes().to_vec());
    let one = |name: &str| (name.to_owned(), Dtype::F32, vec![1], le(&[0.5]));
    let rotated = r#"{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":256}"#;
    let (f8, i8) = (Dtype::F8_E4M3, Dtype::I8);
    let cases: [(&str, Dtype, Tensors); 12] = [
        // Other layouts of ComfyUI.
        ("\"convrot\":true", i8, vec![one("l.q.weight_scale"), text("l.q.comfy_quant", rotated)]),
        ("mxfp9", f8, vec![one("l.q.weight_scale"), text("l.q.comfy_quant", r#"{"format":"mxfp9"}"#)]),
        ("says []", f8, vec![one("l.q.weight_scale"), text("l.q.comfy_quant", "[]")]),
        ("nvfp4", f8, vec![one("l.q.weight_scale"), text("l.q.comfy_quant", r#"{"format":"nvfp4"}"#)]),
        (
            "l.q.comfy_quant",
            i8,
            vec![one("l.q.w_scale"), text("l.q.comfy_quant", r#"{"format":"asym_w4a8_int8"}"#)],
        ),
        // Scales of other names.
        ("beside l.q.weight_scales", f8, vec![one("l.q.weight_scales")]),
        ("beside l.q.weight.scale", f8, vec![one("l.q.weight.scale")]),
        ("beside l.q.scales", f8, vec![one("l.q.scales")]),
        ("beside l.q.SCB", i8, vec![one("l.q.SCB")]),
        ("beside l.q.weight.absmax", Dtype::U8, vec![one("l.q.weight.absmax")]),
        // Scales that some codes have and others have not.
        (
            "without a scale",
            i8,
            vec![("k.weight".into(), i8, vec![128, 2], vec![1; 256]), one("k.weight_scale")],
        ),
        (
            "there is no k.weight",
            f8,
            vec![
                one("l.q.weight_scale"),
                ("k.scales".into(), Dtype::F16, vec![2, 32], vec![0; 128]),
                ("k.qzeros".into(), Dtype::I32, vec![2, 4], vec![0; 32]),
            ],
        ),
    ];
    for (says, dtype, more) in cases {
        write(&path, &[codes(dtype), more].concat(), None);
        let out = line(dir.path(), "convert a.safetensors b.safetensors --to bf16");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(matches!(out.status.code(), Some(2 | 3)) && error.contains(says), "{says}: {error}");
        assert!(error.contains("--copy"), "{error}");
    }
    // A marker in the header counts as one beside the codes: the scales are in tiles.
    let tiled: Tensors = vec![
        ("l.q.weight".into(), f8, vec![256, 128], vec![0x38; 1 << 15]),
        (
            "l.q.weight_scale".into(),
            Dtype::U8,
            vec![256, 4],
            (0..1024u32).map(|i| 120 + (i % 9) as u8).collect(),
        ),
    ];
    let marker = text("l.q.comfy_quant", r#"{"format":"mxfp8"}"#);
    write(&path, &[tiled.clone(), vec![marker]].concat(), None);
    ok(dir.path(), "convert a.safetensors beside.safetensors --to f32 --quiet");
    let layers = r#"{"format_version":"1.0","layers":{"l.q":{"format":"mxfp8"}}}"#;
    let metadata = [("_quantization_metadata".to_owned(), layers.to_owned())].into();
    write(&path, &tiled, Some(metadata));
    ok(dir.path(), "convert a.safetensors header.safetensors --to f32 --quiet");
    write(&path, &tiled, None);
    ok(dir.path(), "convert a.safetensors from.safetensors --to f32 --from comfy-mxfp8 --quiet");
    let bytes = |name: &str| read(&dir.path().join(name))["l.q.weight"].2.clone();
    assert!(bytes("header.safetensors") == bytes("beside.safetensors"));
    assert!(bytes("from.safetensors") == bytes("beside.safetensors"));
    // What stays quantised stays in the header.
    let metadata = |name: &str| {
        let raw = fs::read(dir.path().join(name)).unwrap();
        let header: Value =
            serde_json::from_slice(&raw[8..8 + raw[0] as usize + 256 * raw[1] as usize]).unwrap();
        header["__metadata__"]["_quantization_metadata"].as_str().map(|text| text.parse::<Value>().unwrap())
    };
    let two: Tensors = ["a", "b"]
        .into_iter()
        .flat_map(|module| {
            let codes = (format!("{module}.weight"), f8, vec![16, 16], vec![0x38; 256]);
            [codes, one(&format!("{module}.weight_scale"))]
        })
        .collect();
    let float8 = json!({ "format": "float8_e4m3fn" });
    let layers = json!({ "format_version": "1.0", "layers": { "a": float8, "b": float8 } }).to_string();
    write(&path, &two, Some([("_quantization_metadata".to_owned(), layers)].into()));
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --keep a* --quiet");
    assert_eq!(metadata("b.safetensors").unwrap()["layers"], json!({ "a": float8 }));
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --force --quiet");
    assert_eq!(metadata("b.safetensors"), None);
    // Integers have no scales of powers of two.
    let scales = ("l.q.weight_scale".to_owned(), Dtype::U8, vec![128, 4], vec![127; 512]);
    write(&path, &[codes(i8), vec![scales]].concat(), None);
    let error = fails(dir.path(), "convert a.safetensors no.safetensors --to bf16", 3);
    assert!(error.contains("scales U8 [128, 4]"), "{error}");
    // gpt-oss has its matrices transposed.
    write(&path, &[codes(i8), vec![one("l.q.weight_scale")]].concat(), None);
    let error = fails(dir.path(), "convert a.safetensors no.safetensors --to gpt-oss", 2);
    assert!(error.contains("int8-tensor to gpt-oss") && error.contains("convert it to bf16"), "{error}");
    // A scale of a cache is one number: these are of something else.
    let vector = ("l.q_scale".to_owned(), Dtype::F32, vec![2], le(&[1.0, 2.0]));
    write(&path, &[codes(f8), vec![one("l.q.weight_scale"), vector]].concat(), None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --force --quiet");
    assert_eq!(read(&dir.path().join("b.safetensors")).len(), 2);
}

/// A configuration of packed integers says what they have.
#[test]
fn packed_integers_are_as_their_configuration_says() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.up_proj.weight"], "{}");
    ok(dir.path(), "convert src int4 --to int4-group --group-size 32 --quiet");
    let path = dir.path().join("int4/config.json");
    let good = json_of(&path);
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 5] = [
        ("group_size is 64, but the groups have 32", |c| {
            c["config_groups"]["group_0"]["weights"]["group_size"] = json!(64)
        }),
        ("num_bits is 8, but the codes have 4", |c| {
            c["config_groups"]["group_0"]["weights"]["num_bits"] = json!(8)
        }),
        ("symmetric is false, but there is no weight_zero_point", |c| {
            c["config_groups"]["group_0"]["weights"]["symmetric"] = json!(false);
        }),
        ("transform_config", |c| {
            c["transform_config"] = json!({ "config_groups": { "R1": { "type": "hadamard" } } })
        }),
        ("", |c| c["transform_config"] = json!({ "config_groups": {} })),
    ];
    for (says, change) in cases {
        let mut config = good.clone();
        change(&mut config["quantization_config"]);
        fs::write(&path, config.to_string()).unwrap();
        let out = line(dir.path(), "convert int4 out --to bf16 --force --quiet");
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), says.is_empty(), "{error}");
        assert!(error.contains(says), "{says}: {error}");
        // Going by the tensors helps, unless they do not show what is wrong.
        let out = line(dir.path(), "convert int4 out --to bf16 --from int4-group --force --quiet");
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), says != "transform_config", "{error}");
        assert!(out.status.success() || error.contains(says), "{says}: {error}");
    }
    // What is copied is not read as numbers, and its configuration stays.
    let mut config = good.clone();
    config["quantization_config"]["transform_config"] =
        json!({ "config_groups": { "R1": { "type": "hadamard" } } });
    fs::write(&path, config.to_string()).unwrap();
    ok(dir.path(), "convert int4 copied --to bf16 --copy * --quiet");
    let copied = |name: &str| dir.path().join("copied").join(name);
    assert_eq!(json_of(&copied("config.json"))["quantization_config"], config["quantization_config"]);
    assert!(read(&copied("model.safetensors")) == read(&dir.path().join("int4/model.safetensors")));
    fails(dir.path(), "convert int4 dropped --to bf16 --copy *scale --quiet", 2);
    // Beside weights that are quantised anew it would not stay.
    fails(dir.path(), "convert int4 again --to int4-group --copy * --quiet", 2);
}

/// A destination in a directory that is not there yet may be the source all the same.
#[test]
fn sources_are_not_overwritten_by_way_of_what_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.up_proj.weight"], "{}");
    let before = listing(&dir.path().join("src"));
    for (to, code) in [("none/../src", 3), ("src/new/out", 3), ("./none/./../src/../src", 3)] {
        fails(dir.path(), &format!("convert src {to} --to bf16 --force"), code);
        assert!(listing(&dir.path().join("src")) == before, "{to}");
    }
    ok(dir.path(), "convert src none/../out --to bf16 --quiet");
}

/// Codes and values of one name are not compared one after the other.
#[test]
fn twins_are_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F32, vec![1, 32], le(&[1.0; 32])),
        ("l.weight_packed".into(), Dtype::U8, vec![1, 16], vec![0x22; 16]),
        ("l.weight_scale".into(), Dtype::U8, vec![1, 1], vec![127]),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let error = fails(dir.path(), "verify a.safetensors a.safetensors", 3);
    assert!(error.contains("l.weight: a.safetensors: it is there twice, as codes and as values"), "{error}");
}

/// Scales of activations, as transformers' own float8 has them, and of caches are no weights.
#[test]
fn scales_of_activations_and_caches_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut tensors: Tensors = vec![
        ("up_proj.weight".into(), Dtype::F8_E4M3, vec![2, 4], vec![0x38; 8]),
        ("up_proj.weight_scale_inv".into(), Dtype::F32, vec![], le(&[2.0])),
    ];
    for name in
        ["up_proj.activation_scale", "attn.kv_scale", "attn.q_scale", "attn.prob_scale", "attn.output_scale"]
    {
        tensors.push((name.into(), Dtype::F32, vec![], le(&[2.0])));
    }
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to bf16 --quiet");
    assert_eq!(read(&dir.path().join("b.safetensors")).len(), 1);
}

/// Of the numbers that 32 codes of GPTQ lie in without gaps, the `n`th, bit by bit.
fn gptq_number(bits: usize, n: usize, code: &dyn Fn(usize) -> u32) -> u32 {
    let bit = |at: usize| code(at / bits) >> (at % bits) & 1;
    (0..32).map(|i| bit(32 * n + i) << i).sum()
}

/// GPTQ has codes of 2, 3, 4 and 8 bits, which lie in numbers of 32 without gaps; with act-order inputs belong to groups that do not lie side by side, and the last may have fewer.
#[test]
fn gptq_is_read_of_every_width_and_order() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let (inputs, outputs) = (96, 64);
    let mut random = Random(12);
    for bits in [2, 3, 4, 8] {
        let most = (1 << bits) - 1;
        let mut codes =
            |n: usize| -> Vec<u32> { random.floats(n).iter().map(|x| x.to_bits() >> 3 & most).collect() };
        let side_by_side = |group: usize| (0..inputs).map(|i| (i / group) as u32).collect::<Vec<_>>();
        let mut shuffled = side_by_side(24);
        (0..inputs).for_each(|i| shuffled.swap(i, i * 29 % inputs));
        for (groups, order) in
            [(4, side_by_side(24)), (4, shuffled), (3, side_by_side(40)), (1, vec![0; inputs])]
        {
            let (codes, zeros) = (codes(inputs * outputs), codes(groups * outputs));
            let scales: Vec<f32> = (0..zeros.len()).map(|i| 0.5 + (i % 61) as f32 / 64.0).collect();
            let number = |n: usize, code: &dyn Fn(usize) -> u32| gptq_number(bits, n, code).to_le_bytes();
            let down: Vec<u8> = (0..inputs / 32 * bits * outputs)
                .flat_map(|at| {
                    let (row, column) = (at / outputs / bits * 32, at % outputs);
                    number(at / outputs % bits, &|i| codes[(row + i) * outputs + column])
                })
                .collect();
            let less: Vec<u8> = (0..zeros.len() / 32 * bits)
                .flat_map(|at| number(at % bits, &|i| zeros[at / bits * 32 + i].wrapping_sub(1) & most))
                .collect();
            let tensors: Tensors = vec![
                ("l.up_proj.qweight".into(), Dtype::I32, vec![inputs / 32 * bits, outputs], down),
                ("l.up_proj.qzeros".into(), Dtype::I32, vec![groups, outputs / 32 * bits], less),
                ("l.up_proj.scales".into(), Dtype::BF16, vec![groups, outputs], bf16s(&scales)),
                (
                    "l.up_proj.g_idx".into(),
                    Dtype::I32,
                    vec![inputs],
                    order.iter().flat_map(|group| group.to_le_bytes()).collect(),
                ),
            ];
            write(&src.join("model.safetensors"), &tensors, None);
            let config = format!(r#"{{"quantization_config":{{"quant_method":"gptq","bits":{bits}}}}}"#);
            fs::write(src.join("config.json"), config).unwrap();
            for memory in ["1M", "64M"] {
                ok(dir.path(), &format!("convert src out --to f32 --memory {memory} --force --quiet"));
                let found = read(&dir.path().join("out/model.safetensors"));
                let found = f32s(&found["l.up_proj.weight"].2);
                for (i, x) in found.into_iter().enumerate() {
                    let (output, input) = (i / inputs, i % inputs);
                    let of = order[input] as usize * outputs + output;
                    let expected = (codes[input * outputs + output] as f32 - zeros[of] as f32) * scales[of];
                    assert_eq!(x, expected, "{bits} bits, {groups} groups, {output} {input}");
                }
            }
            ok(dir.path(), "verify src out");
            ok(dir.path(), "convert src fp8 --to fp8-channel --force --quiet");
            ok(dir.path(), "verify src fp8 --max-rms-error 0.04");
            ok(dir.path(), "inspect src --stats --json");
            // The second format, which an old file says: the zero points are one more.
            let config = dir.path().join("src/config.json");
            fs::write(&config, "{}").unwrap();
            let own = dir.path().join("src/quantize_config.json");
            fs::write(&own, format!(r#"{{"bits":{bits},"checkpoint_format":"gptq_v2"}}"#)).unwrap();
            ok(dir.path(), "convert src v2 --to f32 --force --quiet");
            fs::remove_file(&own).unwrap();
            let values = |name: &str| f32s(&read(&dir.path().join(name))["l.up_proj.weight"].2);
            let (first, second) = (values("out/model.safetensors"), values("v2/model.safetensors"));
            assert!(!dir.path().join("v2/quantize_config.json").exists());
            for (i, (first, second)) in first.into_iter().zip(second).enumerate() {
                let of = order[i % inputs] as usize * outputs + i / inputs;
                let less = if zeros[of] == 0 { -(most as f32) } else { 1.0 };
                assert_eq!(second, first + less * scales[of]);
            }
        }
    }
}

/// GPTQModel subtracts one from all zero points of a number at once, so that one of 0 borrows from the next; others from each.
#[test]
fn zero_points_of_0_borrow_in_files_of_gptqmodel() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    // (Of 3 bits versions before 7 subtract what would be one in another order.)
    let ones_of_three: [u32; 3] = [
        0b00100100100100100100100100100100,
        0b10010010010010010010010010010010,
        0b01001001001001001001001001001001,
    ];
    for (bits, ones) in
        [(2, [0x5555_5555; 3]), (3, ones_of_three), (4, [0x1111_1111; 3]), (8, [0x0101_0101; 3])]
    {
        let most = (1u32 << bits) - 1;
        let zeros: Vec<u32> = (0..32).map(|i| if i % 3 == 0 { 0 } else { i & most }).collect();
        let numbers = (0..bits).map(|n| gptq_number(bits, n, &|i| zeros[i]));
        let borrowed: Vec<u32> =
            numbers.zip(ones.iter().cycle()).map(|(n, &ones)| n.wrapping_sub(ones)).collect();
        let each: Vec<u32> =
            (0..bits).map(|n| gptq_number(bits, n, &|i| zeros[i].wrapping_sub(1) & most)).collect();
        assert_ne!(borrowed, each);
        let of_late = if bits == 3 { &each } else { &borrowed };
        for (meta, stored) in [
            (r#"{"quantizer":["x:1","GPTQModel:7.7.0"]}"#, of_late),
            (r#"{"quantizer":["gptqmodel:6.0.3"]}"#, &borrowed),
            (r#"{"quantizer":"gptqmodel:0.9"}"#, &borrowed),
            (r#"{"quantizer":["gptqmodel:0.8.1"]}"#, &each),
            (r#"{"quantizer":["optimum:1.2"]}"#, &each),
            ("{}", &each),
        ] {
            let bytes = |of: &[u32]| of.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
            let tensors: Tensors = vec![
                ("l.up_proj.qweight".into(), Dtype::I32, vec![bits, 32], vec![0; bits * 128]),
                ("l.up_proj.qzeros".into(), Dtype::I32, vec![1, bits], bytes(stored)),
                ("l.up_proj.scales".into(), Dtype::BF16, vec![1, 32], bf16s(&[1.0; 32])),
            ];
            write(&src.join("model.safetensors"), &tensors, None);
            let config =
                format!(r#"{{"quantization_config":{{"quant_method":"gptq","bits":{bits},"meta":{meta}}}}}"#);
            fs::write(src.join("config.json"), config).unwrap();
            ok(dir.path(), "convert src out --to f32 --force --quiet");
            let found = f32s(&read(&dir.path().join("out/model.safetensors"))["l.up_proj.weight"].2);
            for (row, zero) in found.chunks(32).zip(&zeros) {
                assert!(row.iter().all(|&x| x == -(*zero as f32)), "{bits} {meta}: {row:?} {zero}");
            }
        }
    }
}

/// AWQ and GPTQ pack eight columns or eight rows of a transposed weight to a number; zero points are beside the scales, GPTQ's first ones less one.
#[test]
fn awq_and_gptq_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let (inputs, outputs, group) = (96, 64, 24);
    let mut random = Random(11);
    let mut nibbles =
        |n: usize| -> Vec<u32> { random.floats(n).iter().map(|x| x.to_bits() >> 3 & 0xF).collect() };
    let (codes, zeros) = (nibbles(inputs * outputs), nibbles(inputs / group * outputs));
    let scales: Vec<f32> = (0..zeros.len()).map(|i| 0.5 + (i % 61) as f32 / 64.0).collect();
    // Eight nibbles to a number, of which the one at `place[i]` is that of `each(i)`.
    let number = |place: [usize; 8], each: &dyn Fn(usize) -> u32| -> u32 {
        place.iter().enumerate().map(|(i, place)| each(i) << (4 * place)).sum()
    };
    const PLAIN: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    const AWQ: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    let along = |of: &[u32], place| -> Vec<u8> {
        of.as_chunks::<8>().0.iter().flat_map(|of| number(place, &|i| of[i]).to_le_bytes()).collect()
    };
    let down: Vec<u8> = (0..inputs / 8 * outputs)
        .flat_map(|at| {
            let (row, column) = (at / outputs * 8, at % outputs);
            number(PLAIN, &|i| codes[(row + i) * outputs + column]).to_le_bytes()
        })
        .collect();
    let less: Vec<u32> = zeros.iter().map(|zero| zero.wrapping_sub(1) & 0xF).collect();
    let order: Vec<u8> = (0..inputs).flat_map(|i| ((i / group) as i32).to_le_bytes()).collect();
    let tensors = |codes: (Vec<usize>, Vec<u8>), zeros: Vec<u8>, order: Option<&Vec<u8>>| -> Tensors {
        let mut tensors: Tensors = vec![
            ("l.up_proj.qweight".into(), Dtype::I32, codes.0, codes.1),
            ("l.up_proj.qzeros".into(), Dtype::I32, vec![inputs / group, outputs / 8], zeros),
            ("l.up_proj.scales".into(), Dtype::BF16, vec![inputs / group, outputs], bf16s(&scales)),
            ("l.up_proj.bias".into(), Dtype::F32, vec![2], le(&[1.0, 2.0])),
        ];
        tensors
            .extend(order.map(|order| ("l.up_proj.g_idx".into(), Dtype::I32, vec![inputs], order.clone())));
        tensors
    };
    let awq = tensors((vec![inputs, outputs / 8], along(&codes, AWQ)), along(&zeros, AWQ), None);
    let gptq =
        |zeros: &[u32]| tensors((vec![inputs / 8, outputs], down.clone()), along(zeros, PLAIN), Some(&order));
    let method = |text: &str| format!(r#"{{"dtype":"bfloat16","quantization_config":{{{text}}}}}"#);
    let expected = |i: usize| {
        let (output, input) = (i / inputs, i % inputs);
        let of = input / group * outputs + output;
        (codes[input * outputs + output] as f32 - zeros[of] as f32) * scales[of]
    };
    for (name, all, config) in [
        ("awq", &awq, r#""bits":4,"quant_method":"awq","version":"GEMM""#),
        ("awq", &awq, r#""quant_method":"awq","version":"gemm","format":"gemm","checkpoint_format":"gemm""#),
        ("gptq", &gptq(&less), r#""bits":4,"quant_method":"gptq""#),
        ("gptq", &gptq(&zeros), r#""bits":4,"quant_method":"gptq","checkpoint_format":"gptq_v2""#),
        ("gptq", &gptq(&zeros), r#""bits":4,"quant_method":"gptq","format":"gptq_v2","rotation":null"#),
        ("gptq", &gptq(&less), r#""bits":8,"quant_method":"gptq","dynamic":{"+:.*up_proj":{"bits":4}}"#),
    ] {
        write(&src.join("model.safetensors"), all, None);
        fs::write(src.join("config.json"), method(config)).unwrap();
        for memory in ["1M", "64M"] {
            let report =
                ok(dir.path(), &format!("convert src out --to f32 --memory {memory} --force --json"));
            assert_eq!(report["from"], name);
            let found = read(&dir.path().join("out/model.safetensors"));
            let (dtype, shape, bytes) = &found["l.up_proj.weight"];
            assert_eq!((*dtype, &shape[..], found.len()), (Dtype::F32, &[outputs, inputs][..], 2), "{name}");
            assert!(f32s(bytes).into_iter().enumerate().all(|(i, x)| x == expected(i)), "{config}");
        }
        assert_eq!(json_of(&dir.path().join("out/config.json")), json!({ "dtype": "float32" }));
        ok(dir.path(), "verify src out");
        ok(dir.path(), "convert src int4 --to int4-group --group-size 32 --force --quiet");
        ok(dir.path(), "convert src fp8 --to fp8-channel --force --quiet");
        ok(dir.path(), "verify src fp8 --max-rms-error 0.04");
        ok(dir.path(), "inspect src --stats --json");
    }
    let error = fails(dir.path(), "convert src no --to awq", 2);
    assert!(
        error.contains("--to awq: this layout is read, but not written") && error.contains("int4-group"),
        "{error}"
    );

    type Change = fn(&mut Tensors);
    let good = r#""bits":4,"quant_method":"gptq""#;
    let cases: [(&str, i32, &str, Change); 12] = [
        ("without l.up_proj.qzeros", 3, good, |it| _ = it.remove(1)),
        ("g_idx, I32 [96], does not assign each of 96 inputs to one of 4 groups", 3, good, |it| {
            it[4].3[0] = 4
        }),
        ("g_idx, I32 [95], does not assign each of 96 inputs to one of 4 groups", 3, good, |it| {
            it[4].2 = vec![95];
            it[4].3.truncate(4 * 95);
        }),
        ("codes (of 4 bits, as config.json says) I32 [24, 32]", 3, good, |it| it[0].2 = vec![24, 32]),
        ("scales BF16 [2, 128]", 3, good, |it| it[2].2 = vec![2, 128]),
        (
            "config.json says checkpoint_format marlin",
            3,
            r#""bits":4,"quant_method":"gptq","checkpoint_format":"marlin""#,
            |_| (),
        ),
        (
            "codes (of 8 bits, as config.json says) I32 [12, 64]",
            3,
            r#""quant_method":"gptq","bits":8"#,
            |_| (),
        ),
        ("config.json says codes of 5 bits", 3, r#""quant_method":"gptq","bits":5"#, |_| ()),
        ("codes I32 [11, 64], scales BF16 [4, 64] and zero points I32 [4, 6] do not fit", 3, "", |it| {
            // 11 numbers are not those of whole codes of 3 bits.
            (it[0].2, it[1].2) = (vec![11, 64], vec![4, 6]);
            it[0].3.truncate(11 * 64 * 4);
            it[1].3.truncate(4 * 6 * 4);
        }),
        ("config.json says format gptq_p", 3, r#""quant_method":"gptq","format":"gptq_p""#, |_| ()),
        (
            "config.json says that weights are rotated (rotation): not supported yet",
            2,
            r#""quant_method":"gptq","rotation":"hadamard""#,
            |_| (),
        ),
        (
            "config.json says desc_act, but l.up_proj.g_idx is not there",
            3,
            r#""bits":4,"quant_method":"gptq","desc_act":true"#,
            |it| _ = it.pop(),
        ),
    ];
    for (says, code, config, change) in cases {
        let mut bad = gptq(&less);
        change(&mut bad);
        write(&src.join("model.safetensors"), &bad, None);
        fs::write(src.join("config.json"), method(config)).unwrap();
        let error = fails(dir.path(), "convert src no --to bf16", code);
        assert!(error.contains(says) && error.contains("l.up_proj.qweight"), "{says}: {error}");
        // It names the file that says so.
        fs::write(src.join("config.json"), "{}").unwrap();
        for own in ["quantize_config.json", "quant_config.json"] {
            fs::write(src.join(own), format!("{{{config}}}")).unwrap();
            let error = fails(dir.path(), "convert src no --to bf16", code);
            assert!(error.contains(&says.replace("config.json", own)), "{says}: {error}");
            fs::remove_file(src.join(own)).unwrap();
        }
    }
    // The file of AWQ says nothing of GPTQ.
    write(&src.join("model.safetensors"), &gptq(&less), None);
    fs::write(src.join("config.json"), method(r#""bits":4,"quant_method":"gptq""#)).unwrap();
    fs::write(src.join("quant_config.json"), r#"{"version":"GEMV"}"#).unwrap();
    ok(dir.path(), "convert src fine --to bf16 --quiet");
    fs::remove_file(src.join("quant_config.json")).unwrap();
    fs::write(src.join("config.json"), "{}").unwrap();
    // GPTQModel packs embeddings without turning them.
    let mut embedding = gptq(&less);
    embedding.iter_mut().for_each(|it| it.0 = it.0.replace("up_proj", "embed_tokens"));
    write(&src.join("model.safetensors"), &embedding, None);
    let error = fails(dir.path(), "convert src no --to bf16", 2);
    assert!(error.contains("codes of an embedding") && error.contains("l.embed_tokens.qweight"), "{error}");
    ok(dir.path(), "convert src copied --to bf16 --copy 'l.embed_tokens.*' --quiet");
}

/// `--copy` of everything settles what config.json says, but not a layout that the command line names and no tensor has.
#[test]
fn a_layout_that_no_tensor_has_is_refused_whatever_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.up_proj.weight"], "{}");
    ok(dir.path(), "convert src fp8 --to fp8-block --quiet");
    let error = fails(dir.path(), "convert fp8 dst --to bf16 --from awq --copy *", 3);
    assert!(error.contains("--from awq: the tensors are fp8-block"), "{error}");
    ok(dir.path(), "convert fp8 dst --to bf16 --from fp8-block --copy * --quiet");
}

/// A configuration that is not read is settled by `--copy` of the weights that are, but not what is wrong with the others.
#[test]
fn a_quantisation_that_is_not_read_hides_no_weight() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let matrix = |name: &str, rows: usize| -> Tensors {
        vec![
            (format!("{name}.weight"), Dtype::F8_E4M3, vec![4, 4], vec![0x38; 16]),
            (format!("{name}.weight_scale"), Dtype::F32, vec![rows, 1], le(&vec![1.0; rows])),
        ]
    };
    write(&src.join("model.safetensors"), &[matrix("a", 4), matrix("b", 3)].concat(), None);
    fs::write(src.join("config.json"), r#"{"quantization_config":{"quant_method":"other"}}"#).unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16", 3);
    assert!(error.contains("(other), in a way that is not read"), "{error}");
    let error = fails(dir.path(), "convert src dst --to bf16 --copy a.*", 3);
    assert!(error.contains("b.weight") && error.contains("do not fit"), "{error}");
    ok(dir.path(), "convert src dst --to bf16 --copy a.* --copy b.* --quiet");
}

/// Two layouts lie in one result only if something becomes the second.
#[test]
fn what_is_all_copied_lies_beside_nothing() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.0.up_proj.weight", "l.1.up_proj.weight"], "{}");
    ok(dir.path(), "convert src fp8 --to fp8-block --quiet");
    let error = fails(dir.path(), "convert fp8 dst --to int8-channel --copy *", 3);
    assert!(error.contains("no tensor would become int8-channel"), "{error}");
    assert!(error.contains("without --copy, ") && !error.contains("in one result"), "{error}");
    let error = fails(dir.path(), "convert fp8 dst --to int8-channel --copy l.0.* --copy no", 2);
    assert!(error.contains("fp8-block beside int8-channel in one result"), "{error}");
    assert!(error.contains("--copy 'no' matches no tensor"), "{error}");
}

/// Small layers of GPTQ, of 4 bits.
fn gptq_layers(names: &[&str]) -> Tensors {
    let layer = |name: &&str| {
        [
            (format!("{name}.qweight"), Dtype::I32, vec![4, 32], vec![0x21; 512]),
            (format!("{name}.qzeros"), Dtype::I32, vec![1, 4], vec![0x77; 16]),
            (format!("{name}.scales"), Dtype::F32, vec![1, 32], le(&[1.0; 32])),
        ]
    };
    names.iter().flat_map(layer).collect()
}

/// What is no longer quantised beside experts or layers that are: as loaders look for it (in `dynamic`: GPTQModel and vLLM).
#[test]
fn configurations_of_gpt_oss_and_gptq_name_what_becomes_a_float() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let mut tensors: Tensors = Vec::new();
    for name in ["l.0.experts.down_proj", "l.1.experts.down_proj", "l.1.experts.gate_up_proj"] {
        tensors.push((format!("{name}_blocks"), Dtype::U8, vec![2, 4, 1, 16], vec![0x21; 128]));
        tensors.push((format!("{name}_scales"), Dtype::U8, vec![2, 4, 1], vec![127; 8]));
    }
    write(&src.join("model.safetensors"), &tensors, None);
    let config =
        json!({ "quantization_config": { "quant_method": "mxfp4", "modules_to_not_convert": ["x"] } });
    fs::write(src.join("config.json"), config.to_string()).unwrap();
    ok(dir.path(), "convert src dst --to bf16 --copy l.0.* --quiet");
    let config = json_of(&dir.path().join("dst/config.json"));
    assert_eq!(config["quantization_config"]["modules_to_not_convert"], json!(["x", "l.1.experts"]));

    write(&src.join("model.safetensors"), &gptq_layers(&["l.0.up_proj", "l.1.up_proj"]), None);
    let rule = json!({ "+:.*": { "bits": 4 } });
    let config = json!({ "quantization_config": { "quant_method": "gptq", "bits": 4, "dynamic": rule } });
    fs::write(src.join("config.json"), config.to_string()).unwrap();
    ok(dir.path(), "convert src dst --to f32 --copy l.0.* --force --quiet");
    let config = &json_of(&dir.path().join("dst/config.json"))["quantization_config"];
    let rules: Vec<_> = config["dynamic"].as_object().unwrap().keys().collect();
    // The first rule that fits decides.
    assert_eq!(rules, [r"-:^l\.1\.up_proj$", "+:.*"], "{config}");
    assert!(config.get("modules_to_not_convert").is_none(), "{config}");
    ok(dir.path(), "verify src dst");
}

/// A result has one configuration of its quantisation, wherever the source had its own.
#[test]
fn no_older_configuration_stays_beside_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    matrices(&dir.path().join("src"), &["l.0.up_proj.weight", "l.0.down_proj.weight"], "{}");
    ok(dir.path(), "convert src fp8 --to fp8-channel --only *up_proj* --quiet");
    let own = json_of(&dir.path().join("fp8/config.json"))["quantization_config"].take();
    for old in
        [json!({ "compression_config": own }), json!({ "text_config": { "quantization_config": own } })]
    {
        fs::write(dir.path().join("fp8/config.json"), old.to_string()).unwrap();
        for more in ["--from fp8-channel", ""] {
            ok(dir.path(), &format!("convert fp8 dst --to fp8-channel {more} --force --quiet"));
            let config = json_of(&dir.path().join("dst/config.json"));
            assert!(config["quantization_config"].is_object(), "{config}");
            assert!(config.get("compression_config").is_none(), "{config}");
            assert!(config["text_config"].get("quantization_config").is_none(), "{config}");
        }
    }
}

/// A key with null says nothing: what does say something is read.
#[test]
fn a_configuration_of_null_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("l.qweight".into(), Dtype::I32, vec![4, 32], vec![0x88; 512]),
        ("l.qzeros".into(), Dtype::I32, vec![1, 4], vec![0x77; 16]),
        ("l.scales".into(), Dtype::F32, vec![1, 32], le(&[1.0; 32])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("quantize_config.json"), r#"{"bits":4,"checkpoint_format":"gptq_v2"}"#).unwrap();
    for config in [
        "{}",
        r#"{"quantization_config":null}"#,
        r#"{"text_config":{"quantization_config":null}}"#,
        r#"{"quantization_config":{}}"#,
        r#"{"quantization_config":{"quant_method":"gptq","checkpoint_format":null}}"#,
    ] {
        fs::write(src.join("config.json"), config).unwrap();
        ok(dir.path(), "convert src dst --to f32 --force --quiet");
        let found = read(&dir.path().join("dst/model.safetensors"));
        assert!(f32s(&found["l.weight"].2).iter().all(|&x| x == 1.0), "{config}");
    }
}

/// The blocks of compressed-tensors are those of its configuration: other blocks may need as many scales.
#[test]
fn blocks_of_compressed_tensors_are_those_of_its_groups() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![192, 96], vec![0x38; 192 * 96]),
        ("l.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[1.0, 2.0])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    let group = |targets: &str, size: Value| {
        json!({ "targets": [targets], "format": "float-quantized",
            "weights": { "num_bits": 8, "type": "float", "strategy": "block", "block_structure": size } })
    };
    let set = |groups: &[Value]| {
        let groups: serde_json::Map<_, _> =
            groups.iter().enumerate().map(|(i, group)| (format!("group_{i}"), group.clone())).collect();
        let config = json!({ "quantization_config": { "quant_method": "compressed-tensors",
            "format": "float-quantized", "weight_block_size": null, "config_groups": groups } });
        fs::write(src.join("config.json"), config.to_string()).unwrap();
    };
    let expected = |i: usize| if i / 96 < 96 { 1.0 } else { 2.0 };
    for (groups, from) in [
        (&[group("Linear", json!([96, 96]))][..], ""),
        (&[group("Linear", json!("96x96"))], ""),
        (&[group("l", json!([96, 96])), group("z", json!([64, 64]))], ""),
        (&[group("Linear", json!([64, 64])), group("re:l", json!([96, 96]))], ""),
        (&[group("other", json!([96, 96]))], "--from fp8-block"),
    ] {
        set(groups);
        ok(dir.path(), &format!("convert src dst --to f32 --force --quiet {from}"));
        let found = f32s(&read(&dir.path().join("dst/model.safetensors"))["l.weight"].2);
        assert!(found.iter().enumerate().all(|(i, &x)| x == expected(i)), "{groups:?}");
    }
    // What cannot be read, or has two readings, is no size of its own.
    for groups in [
        &[group("Linear", json!([96, -1]))][..],
        &[group("Linear", json!([96, 96, 1]))],
        &[group("Linear", json!("96"))],
        &[group("Linear", json!([96, 96])), group("Conv1d", json!([64, 64]))],
    ] {
        set(groups);
        let error = fails(dir.path(), "convert src no --to f32", 3);
        assert!(error.contains("l.weight: config.json says b"), "{error}");
        assert!(error.contains("--copy 'l.*' to leave"), "{error}");
    }
}

/// A group for each weight takes no longer than one for all.
#[test]
fn many_groups_are_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let (mut tensors, mut groups) = (Tensors::new(), serde_json::Map::new());
    for i in 0..8000 {
        tensors.push((format!("l.{i}.weight"), Dtype::F8_E4M3, vec![2, 2], vec![0x38; 4]));
        tensors.push((format!("l.{i}.weight_scale"), Dtype::F32, vec![2, 1], le(&[1.0; 2])));
        let group = json!({ "targets": [format!("l.{i}")],
            "weights": { "strategy": "channel", "block_structure": [128, 128] } });
        groups.insert(format!("group_{i}"), group);
    }
    write(&src.join("model.safetensors"), &tensors, None);
    let config = json!({ "quantization_config": { "quant_method": "compressed-tensors",
        "format": "float-quantized", "config_groups": groups } });
    fs::write(src.join("config.json"), config.to_string()).unwrap();
    let start = std::time::Instant::now();
    ok(dir.path(), "convert src dst --to bf16 --dry-run");
    assert!(start.elapsed().as_secs() < 8, "{:?}", start.elapsed());
}

/// Each problem is told once for a weight, and the time grows with their number, not with its square.
#[test]
fn many_weights_that_do_not_fit_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut tensors: Tensors = Vec::new();
    for i in 0..40_000 {
        tensors.push((format!("model.layers.{i}.up_proj.weight"), Dtype::F8_E4M3, vec![2, 2], vec![0x38; 4]));
        tensors.push((format!("model.layers.{i}.up_proj.weight_scale"), Dtype::F32, vec![3], le(&[1.0; 3])));
    }
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let start = std::time::Instant::now();
    let error = fails(dir.path(), "convert a.safetensors b.safetensors --to bf16", 3);
    assert!(error.contains("model.layers.0.up_proj.weight") && error.contains("do not fit"), "{error}");
    assert!(start.elapsed().as_secs() < 8, "{:?}", start.elapsed());
    let report = ok(dir.path(), "inspect a.safetensors --json");
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(40_000));
}

/// The files of GPTQ and AWQ beside config.json say the same, and no configuration speaks of scales of caches that are not there.
#[test]
fn other_configurations_follow_what_becomes_a_float() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    write(&src.join("model.safetensors"), &gptq_layers(&["l.0.up_proj", "l.1.up_proj"]), None);
    fs::write(src.join("config.json"), "{}").unwrap();
    let text = r#"{"bits":4}"#;
    fs::write(src.join("quantize_config.json"), text).unwrap();
    ok(dir.path(), "convert src dst --to f32 --copy l.0.* --quiet");
    let config = json_of(&dir.path().join("dst/quantize_config.json"));
    assert_eq!(config, json!({ "bits": 4, "dynamic": { r"-:^l\.1\.up_proj$": {} } }));
    ok(dir.path(), "verify src dst");
    // So does the other file, if both are there. What it says of a method does not count.
    fs::write(src.join("quant_config.json"), r#"{"bits":4,"method":"awq"}"#).unwrap();
    ok(dir.path(), "convert src dst --to f32 --copy l.0.* --force --quiet");
    for name in ["quant_config.json", "quantize_config.json"] {
        let config = json_of(&dir.path().join("dst").join(name));
        assert_eq!(config["dynamic"], json!({ r"-:^l\.1\.up_proj$": {} }), "{name}");
    }
    fs::remove_file(src.join("quant_config.json")).unwrap();
    // Where nothing becomes a float, it is copied.
    ok(dir.path(), "convert src dst --to f32 --copy * --force --quiet");
    assert_eq!(fs::read_to_string(dir.path().join("dst/quantize_config.json")).unwrap(), text);
    // Where all do, none is left of an earlier conversion.
    ok(dir.path(), "convert src dst --to f32 --force --quiet");
    assert!(!dir.path().join("dst/quantize_config.json").exists());

    matrices(&dir.path().join("plain"), &["l.0.up_proj.weight", "l.1.up_proj.weight"], "{}");
    ok(dir.path(), "convert plain fp8 --to fp8-channel --quiet");
    let file = dir.path().join("fp8/model.safetensors");
    let mut tensors: Tensors =
        read(&file).into_iter().map(|(name, (dtype, shape, bytes))| (name, dtype, shape, bytes)).collect();
    tensors.push(("l.0.attn.k_scale".into(), Dtype::F32, vec![1], le(&[0.5])));
    write(&file, &tensors, None);
    let mut config = json_of(&dir.path().join("fp8/config.json"));
    config["quantization_config"]["kv_cache_scheme"] = json!({ "num_bits": 8 });
    fs::write(dir.path().join("fp8/config.json"), config.to_string()).unwrap();
    ok(dir.path(), "convert fp8 out --to bf16 --copy l.0.up_proj.* --quiet");
    let config = json_of(&dir.path().join("out/config.json"));
    assert!(config["quantization_config"]["kv_cache_scheme"].is_null(), "{config}");
    ok(dir.path(), "convert fp8 out --to bf16 --copy l.0.* --force --quiet");
    let config = json_of(&dir.path().join("out/config.json"));
    assert!(config["quantization_config"]["kv_cache_scheme"].is_object(), "{config}");
}

/// The experts of a layer are one module for loaders, and layers that are fused one for some: configurations name these, too.
#[test]
fn configurations_name_what_loaders_make_of_several() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let names = ["l.0.mlp.experts.0", "l.0.mlp.experts.1", "l.1.mlp.experts.0", "l.1.mlp.experts.1"];
    let weights: Vec<String> = names.iter().map(|name| format!("{name}.up_proj.weight")).collect();
    matrices(&at("src"), &weights.iter().map(|name| &name[..]).collect::<Vec<_>>(), "{}");
    for (to, key) in [("fp8-block", "modules_to_not_convert"), ("fp8-channel", "ignore")] {
        ok(dir.path(), &format!("convert src quantised --to {to} --force --quiet"));
        for (copy, has) in [("l.0.*", true), ("*experts.0.*", false)] {
            ok(dir.path(), &format!("convert quantised out --to bf16 --copy {copy} --force --quiet"));
            let config = &json_of(&at("out/config.json"))["quantization_config"];
            let list = config[key].as_array().unwrap();
            assert_eq!(list.contains(&json!("l.1.mlp.experts")), has, "{to} {copy}: {config}");
            assert!(list.contains(&json!("l.1.mlp.experts.1.up_proj")), "{to} {copy}: {config}");
            assert!(!list.contains(&json!("l.0.mlp.experts")), "{to} {copy}: {config}");
        }
    }

    let mut names = names.map(|name| format!("{name}.up_proj")).to_vec();
    for layer in ["l.0.attn", "l.1.attn"] {
        names.extend(["q_proj", "k_proj", "v_proj"].map(|name| format!("{layer}.{name}")));
    }
    fs::create_dir(at("gptq")).unwrap();
    let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
    write(&at("gptq/model.safetensors"), &gptq_layers(&names), None);
    // The tensors say what they are, even if the configuration does not.
    for method in [json!("gptq"), Value::Null] {
        let config = json!({ "quantization_config": { "quant_method": method, "bits": 4 } });
        fs::write(at("gptq/config.json"), config.to_string()).unwrap();
        ok(dir.path(), "convert gptq out --to f32 --copy l.0.* --force --quiet");
        let config = &json_of(&at("out/config.json"))["quantization_config"];
        for rule in [r"-:^l\.1\.mlp\.experts$", r"-:^l\.1\.attn\.qkv_proj$", r"-:^l\.1\.attn\.k_proj$"] {
            assert!(config["dynamic"][rule].is_object(), "{config}");
        }
        assert!(config.get("modules_to_not_convert").is_none(), "{config}");
        // Where a part stays quantised, the whole is no float.
        let error =
            line(dir.path(), "convert gptq out --to f32 --copy l.0.* --copy *1.attn.k_proj* --force").stderr;
        let error = String::from_utf8_lossy(&error);
        assert!(error.contains("2 weights such as l.1.attn.q_proj.weight: floats, while"), "{error}");
        let config = &json_of(&at("out/config.json"))["quantization_config"];
        assert!(config["dynamic"].get(r"-:^l\.1\.attn\.qkv_proj$").is_none(), "{config}");
    }
}

/// A configuration can name only whole modules: what parts one is refused.
#[test]
fn modules_are_quantised_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path().join("src");
    fs::create_dir(&src).unwrap();
    let mut tensors: Tensors = Vec::new();
    for name in ["l.experts.down_proj", "l.experts.gate_up_proj"] {
        tensors.push((format!("{name}_blocks"), Dtype::U8, vec![2, 4, 1, 16], vec![0x21; 128]));
        tensors.push((format!("{name}_scales"), Dtype::U8, vec![2, 4, 1], vec![127; 8]));
    }
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("config.json"), r#"{"quantization_config":{"quant_method":"mxfp4"}}"#).unwrap();
    let error = fails(dir.path(), "convert src dst --to bf16 --copy *down_proj*", 2);
    assert!(
        error.contains("l.experts.gate_up_proj") && error.contains("with l.experts.down_proj"),
        "{error}"
    );
    assert!(error.contains("--copy must match both"), "{error}");
    ok(dir.path(), "convert src dst --to bf16 --copy *down_proj* --copy *gate_up_proj* --quiet");

    // What only lies beside the layers of an expert is no part of their module.
    let mut beside: Tensors = vec![
        ("l.experts.0.pos".into(), Dtype::BF16, vec![1, 4, 32], vec![0; 256]),
        ("l.experts.gate_up_proj".into(), Dtype::BF16, vec![2, 4, 32], vec![0; 512]),
    ];
    for name in ["l.experts.0.fc1.weight", "l.experts.shared.up.weight"] {
        beside.push((name.into(), Dtype::BF16, vec![32, 32], vec![0; 2048]));
    }
    fs::create_dir(dir.path().join("beside")).unwrap();
    write(&dir.path().join("beside/model.safetensors"), &beside, None);
    fs::write(dir.path().join("beside/config.json"), "{}").unwrap();
    ok(dir.path(), "convert beside whole --to fp8-channel --only *.weight --quiet");

    // A configuration that says nothing names none.
    fs::write(src.join("config.json"), "{}").unwrap();
    ok(dir.path(), "convert src dst --to bf16 --copy *down_proj* --force --quiet");

    let tensors: Tensors = vec![
        ("a.in_proj_weight".into(), Dtype::F8_E4M3, vec![4, 4], vec![0x38; 16]),
        ("a.in_proj_weight_scale_inv".into(), Dtype::F32, vec![1, 1], le(&[1.0])),
        ("a.out_proj.weight".into(), Dtype::F8_E4M3, vec![4, 4], vec![0x38; 16]),
        ("a.out_proj.weight_scale_inv".into(), Dtype::F32, vec![1, 1], le(&[1.0])),
    ];
    write(&src.join("model.safetensors"), &tensors, None);
    fs::write(src.join("config.json"), r#"{"quantization_config":{"quant_method":"fp8"}}"#).unwrap();
    let error = fails(dir.path(), "convert src no --to bf16 --keep *out_proj*", 2);
    assert!(error.contains("a.in_proj_weight") && error.contains("with a.out_proj.weight"), "{error}");
    ok(dir.path(), "convert src dst --to bf16 --keep *in_proj* --force --quiet");
    let config = json_of(&dir.path().join("dst/config.json"));
    assert_eq!(config["quantization_config"]["modules_to_not_convert"], json!(["a.out_proj"]), "{config}");
}

/// A checkpoint of some fp8-channel weights and scales of caches, with a configuration that is changed by `change`.
fn with_caches(dir: &Path, names: &[&str], caches: &[&str], change: &dyn Fn(&mut Value)) {
    let weights: Vec<String> = names.iter().map(|name| format!("{name}.weight")).collect();
    matrices(&dir.join("plain"), &weights.iter().map(|name| &name[..]).collect::<Vec<_>>(), "{}");
    ok(dir, "convert plain src --to fp8-channel --force --quiet");
    let file = dir.join("src/model.safetensors");
    let mut tensors: Tensors =
        read(&file).into_iter().map(|(name, (dtype, shape, bytes))| (name, dtype, shape, bytes)).collect();
    tensors.extend(caches.iter().map(|name| ((*name).into(), Dtype::F32, vec![1], le(&[0.5]))));
    write(&file, &tensors, None);
    let mut config = json_of(&dir.join("src/config.json"));
    config["quantization_config"]["kv_cache_scheme"] = json!({ "num_bits": 8 });
    change(&mut config);
    fs::write(dir.join("src/config.json"), config.to_string()).unwrap();
}

/// Configurations follow what is dropped where everything else is copied, too.
#[test]
fn configurations_follow_what_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let config = || json_of(&dir.path().join("out/config.json"));
    let caches = ["a.attn.k_scale", "a.attn.v_scale"];
    with_caches(dir.path(), &["a.up_proj"], &caches, &|_| ());
    for how in ["--keep a.up*", "--copy *up_proj*", "--drop *k_scale --copy *"] {
        ok(dir.path(), &format!("convert src out --to bf16 {how} --force --quiet"));
        let claim = &config()["quantization_config"];
        let has_caches = how.ends_with("--copy *");
        assert_eq!(claim["kv_cache_scheme"].is_object(), has_caches, "{how}: {claim}");
        assert!(claim["config_groups"].is_object(), "{how}: {claim}");
    }
    ok(
        dir.path(),
        "convert src out --to bf16 --drop *k_scale --copy *v_scale --copy *up_proj* --force --quiet",
    );
    assert!(config()["quantization_config"]["kv_cache_scheme"].is_null());
    // The only quantised weight is gone.
    ok(
        dir.path(),
        "convert src out --to bf16 --drop *up_proj* --copy *k_scale --copy *v_scale --force --quiet",
    );
    assert!(config().get("quantization_config").is_none(), "{}", config());
    assert_eq!(ok(dir.path(), "inspect out --json")["problems"], json!([]));
    // Scales of what an attention puts out are those of no cache; those of keys and values are.
    for (other, is_cache) in [("a.attn.output_scale", false), ("a.attn.k_proj.output_scale", true)] {
        with_caches(dir.path(), &["a.up_proj", "b.up_proj"], &[&caches[..], &[other]].concat(), &|_| ());
        let copy = "--copy a.up_proj* --copy *k_scale --copy *v_scale";
        ok(dir.path(), &format!("convert src out --to bf16 {copy} --force --quiet"));
        let claim = &config()["quantization_config"];
        assert_eq!(claim["kv_cache_scheme"].is_null(), is_cache, "{other}: {claim}");
    }
    // One configuration is left of several.
    with_caches(dir.path(), &["a.up_proj", "b.up_proj"], &[], &|config| {
        config["compression_config"] = config["quantization_config"].clone();
    });
    ok(dir.path(), "convert src out --to bf16 --copy a.* --force --quiet");
    assert_eq!(config()["quantization_config"]["ignore"], json!(["lm_head", "re:.*lm_head.*", "b.up_proj"]));
    assert!(config().get("compression_config").is_none(), "{}", config());
    // A file of GPTQ that is about other weights stays as it is, and so does one of ModelOpt that says nothing.
    fs::write(dir.path().join("src/quantize_config.json"), "{}").unwrap();
    ok(dir.path(), "convert src out --to bf16 --copy a.* --force --quiet");
    assert_eq!(fs::read_to_string(dir.path().join("out/quantize_config.json")).unwrap(), "{}");
    let config = json!({ "quantization_config": { "quant_method": "modelopt", "exclude_modules": ["x"] } });
    ok(dir.path(), "convert plain src --to modelopt-fp8 --force --quiet");
    fs::write(dir.path().join("src/config.json"), config.to_string()).unwrap();
    fs::write(dir.path().join("src/hf_quant_config.json"), r#"{"producer":{}}"#).unwrap();
    ok(dir.path(), "convert src out --to bf16 --copy a.* --force --quiet");
    assert_eq!(json_of(&dir.path().join("out/hf_quant_config.json")), json!({ "producer": {} }));
    let claim = &json_of(&dir.path().join("out/config.json"))["quantization_config"];
    assert_eq!(
        [&claim["ignore"], &claim["exclude_modules"]],
        [&json!(["x", "b.up_proj"]), &json!(["x", "b.up_proj"])]
    );
    // Of the lists that versions of vLLM read, each that is there says it.
    ok(dir.path(), "convert plain src --to fp8-block --force --quiet");
    let config = json!({ "quantization_config": { "quant_method": "fp8", "ignored_layers": ["x"] } });
    fs::write(dir.path().join("src/config.json"), config.to_string()).unwrap();
    ok(dir.path(), "convert src out --to bf16 --copy a.* --force --quiet");
    let claim = &json_of(&dir.path().join("out/config.json"))["quantization_config"];
    assert_eq!(claim["ignored_layers"], json!(["x", "b.up_proj"]));
    assert_eq!(claim["modules_to_not_convert"], json!(["x", "b.up_proj"]));
}
