//! Layouts and configurations: what stays, what is renamed, and what has odd names or shapes.

mod common;

use std::fs;
use std::path::Path;

use common::{Random, Tensors, bf16s, le, ok, read, write};
use safetensors::Dtype;
use serde_json::{Value, json};

/// A directory with these tensors and this configuration.
fn checkpoint(dir: &Path, tensors: &Tensors, config: &Value) {
    fs::create_dir_all(dir).unwrap();
    write(&dir.join("model.safetensors"), tensors, None);
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
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
