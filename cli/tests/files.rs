//! `cast`, `verify`, `inspect`, `info`.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Random, Tensors, bf16s, f32s, fails, from_e4m3, le, line, ok, read, write};
use safetensors::Dtype;
use serde_json::json;

/// The bytes of a .npy file, as NumPy writes them.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn arrays_are_cast() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let x = [1.0, -2.5, 65504.0, 1e-8, 0.1, f32::INFINITY];
    fs::write(at("emb.npy"), npy("<f4", false, "(2, 3)", &le(&x))).unwrap();
    ok(dir.path(), "cast emb.npy emb16.npy --to f16 --quiet");
    let halves = [0x3C00u16, 0xC100, 0x7BFF, 0, 0x2E66, 0x7C00].map(u16::to_le_bytes).concat();
    assert_eq!(fs::read(at("emb16.npy")).unwrap(), npy("<f2", false, "(2, 3)", &halves));
    fails(dir.path(), "cast emb.npy emb16.npy --to f16", 3);
    ok(dir.path(), "cast emb.npy emb16.npy --to f16 --force --quiet");
    // Big-endian, and columns first: the numbers stay where they are.
    let big: Vec<u8> = x.iter().flat_map(|x| x.to_be_bytes()).collect();
    fs::write(at("big.npy"), npy(">f4", true, "(2, 3)", &big)).unwrap();
    ok(dir.path(), "cast big.npy big16.npy --to f16 --quiet");
    assert_eq!(fs::read(at("big16.npy")).unwrap(), npy("<f2", true, "(2, 3)", &halves));
    // bfloat16 has no name in NumPy.
    ok(dir.path(), "cast emb.npy b.npy --to bf16 --quiet");
    assert!(
        fs::read(at("b.npy")).unwrap().ends_with(&bf16s(&x[..5])[8..])
            || fs::read(at("b.npy")).unwrap().len() == 140
    );
    assert!(fails(dir.path(), "cast b.npy c.npy --to f32", 2).contains("--from bf16"));
    ok(dir.path(), "cast b.npy c.npy --to f32 --from bf16 --quiet");
    assert_eq!(f32s(&fs::read(at("c.npy")).unwrap()[128..])[..2], [1.0, -2.5]);
    // float8_e5m2 of ml_dtypes; its other dtypes are bytes.
    fs::write(at("e5m2.npy"), npy("<f1", false, "(2,)", &[0x3C, 0xC1])).unwrap();
    assert!(fails(dir.path(), "cast e5m2.npy e.npy --to f32", 2).contains("--from e5m2"));
    ok(dir.path(), "cast e5m2.npy e.npy --to f32 --from e5m2 --quiet");
    assert_eq!(fs::read(at("e.npy")).unwrap(), npy("<f4", false, "(2,)", &le(&[1.0, -2.5])));
    for (name, bytes) in [
        ("short.npy", npy("<f4", false, "(2, 3)", &le(&x[..5]))),
        ("text.npy", b"no array at all".to_vec()),
        ("huge.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()),
        ("overflow.npy", npy("<f4", false, "(18446744073709551615, 18446744073709551615)", &[])),
    ] {
        fs::write(at(name), bytes).unwrap();
        fails(dir.path(), &format!("cast {name} out.npy --to f16"), 3);
        assert!(!at("out.npy").exists());
    }
}

#[test]
fn rows_have_scales() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let x = [[1.27f32, -0.635, 0.0], [0.0, 0.0, 0.0], [-254.0, 2.0, 127.0]];
    fs::write(at("emb.npy"), npy("<f4", false, "(3, 3)", &le(x.as_flattened()))).unwrap();
    ok(dir.path(), "cast emb.npy emb8.npy --to int8 --scale row --quiet");
    let codes: Vec<i8> = fs::read(at("emb8.npy")).unwrap()[128..].iter().map(|&x| x as i8).collect();
    let scales = fs::read(at("emb8.scale.npy")).unwrap();
    assert_eq!(scales, npy("<f4", false, "(3,)", &le(&[1.27 / 127.0, 1.0, 2.0])));
    assert_eq!((codes[0], &codes[2..]), (127, &[0, 0, 0, 0, -127, 1, 64][..]));
    ok(dir.path(), "cast emb.npy t.npy --to int8 --scale tensor --quiet");
    assert_eq!(fs::read(at("t.scale.npy")).unwrap(), npy("<f4", false, "()", &le(&[2.0])));
}

/// Numbers in Fortran order have the codes and the scales of the same numbers in C's order, and both files that order.
#[test]
fn columns_first_is_scaled_as_rows_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // Long lines of memory are read in parts: 1,100,000 elements are more than a piece.
    for [a, b, c] in [[3usize, 5, 70], [1, 1, 7], [2, 550_000, 2]] {
        let mut x = Random(4).floats(a * b * c);
        (x[0], x[1]) = (0.0, -0.0);
        if c == 70 {
            x[70..140].fill(0.0);
            (x[150], x[151], x[300]) = (f32::NAN, 1e9, f32::INFINITY);
        }
        // [i, j, k] lies at i + a (j + b k).
        let turned = |width: usize, bytes: &[u8]| -> Vec<u8> {
            let mut out = Vec::new();
            let c = bytes.len() / width / (a * b);
            for (k, j, i) in (0..c).flat_map(|k| (0..b).flat_map(move |j| (0..a).map(move |i| (k, j, i)))) {
                out.extend(&bytes[((i * b + j) * c + k) * width..][..width]);
            }
            out
        };
        let (shape, scales) = (format!("({a}, {b}, {c})"), format!("({a}, {b})"));
        fs::write(at("c.npy"), npy("<f4", false, &shape, &le(&x))).unwrap();
        fs::write(at("f.npy"), npy("<f4", true, &shape, &turned(4, &le(&x)))).unwrap();
        for (to, descr) in [("int8", "|i1"), ("e4m3", "|V1")] {
            for scale in ["row", "tensor"] {
                for order in ["c", "f"] {
                    ok(
                        dir.path(),
                        &format!("cast {order}.npy {order}8.npy --to {to} --scale {scale} --force --quiet"),
                    );
                }
                let codes = fs::read(at("c8.npy")).unwrap();
                let codes = turned(1, &codes[codes.len() - x.len()..]);
                assert!(
                    fs::read(at("f8.npy")).unwrap() == npy(descr, true, &shape, &codes),
                    "{shape} {to} {scale}"
                );
                let found = fs::read(at("c8.scale.npy")).unwrap();
                let expected = match scale {
                    "row" => npy("<f4", true, &scales, &turned(4, &found[found.len() - a * b * 4..])),
                    _ => found,
                };
                // The one scale of an array has no order.
                let has = fs::read(at("f8.scale.npy")).unwrap();
                let of =
                    |bytes: &[u8]| bytes[bytes.len() - if scale == "row" { a * b * 4 } else { 4 }..].to_vec();
                assert!(of(&has) == of(&expected), "{shape} {to} {scale}");
                assert!(scale == "tensor" || has == expected, "{shape} {to}");
            }
        }
    }
    fs::write(at("none.npy"), npy("<f4", true, "(4, 0)", &[])).unwrap();
    assert!(fails(dir.path(), "cast none.npy n8.npy --to int8 --scale row", 3).contains("[4, 0]"));
}

/// Raw numbers have no order but C's. A .npy file keeps Fortran's, in which a lost element is counted.
#[test]
fn columns_first_is_kept_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("f.npy"), npy("<f4", true, "(2, 3)", &le(&[1.0, 2.0, 1e9, 3.0, 4.0, 5.0]))).unwrap();
    for dst in ["y.bin", "-"] {
        let text = fails(dir.path(), &format!("cast f.npy {dst} --to f16"), 3);
        assert!(
            text.contains("is in Fortran order")
                && text.contains("write a .npy file, which records the order"),
            "{text}"
        );
    }
    assert!(!at("y.bin").exists());
    let out = line(dir.path(), "cast f.npy y.npy --to int8");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("the first is element 2 in the order of the file (Fortran) (--strict"), "{text}");
    let text = fails(dir.path(), "cast f.npy z.npy --to int8 --strict", 1);
    assert!(text.contains("element 2, 1000000000.0, is above"), "{text}");
    assert!(text.contains("; elements are counted in the order of the file (Fortran)"), "{text}");
    // A line has one order.
    fs::write(at("line.npy"), npy("<f4", true, "(1, 3)", &le(&[1.0, 2.0, 3.0]))).unwrap();
    ok(dir.path(), "cast line.npy y.bin --to f32 --quiet");
    assert_eq!(fs::read(at("y.bin")).unwrap(), le(&[1.0, 2.0, 3.0]));
}

#[test]
fn a_dtype_that_takes_no_scales_is_told_with_that_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.npy"), npy("<f4", false, "(2, 4)", &le(&[1.0; 8]))).unwrap();
    for scale in ["row", "tensor"] {
        let error = fails(dir.path(), &format!("cast x.npy y.npy --to bool --scale {scale}"), 2);
        assert!(error.contains("float32") && !error.contains("float64"), "{scale}: {error}");
    }
}

#[test]
fn raw_numbers_are_cast() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.bin"), le(&[1.0, 1e9, -0.5])).unwrap();
    ok(dir.path(), "cast x.bin y.bin --from f32 --to e4m3 --saturate off --quiet");
    assert_eq!(fs::read(dir.path().join("y.bin")).unwrap(), [0x38, 0x7F, 0xB0]);
    ok(dir.path(), "cast x.bin z.bin --from f32 --to e4m3 --quiet");
    assert_eq!(fs::read(dir.path().join("z.bin")).unwrap(), [0x38, 0x7E, 0xB0]);
    assert!(fails(dir.path(), "cast x.bin w.bin --to e4m3", 2).contains("--from"));
    fs::write(dir.path().join("x.bin"), [0; 7]).unwrap();
    fails(dir.path(), "cast x.bin w.bin --from f32 --to e4m3", 3);
}

/// A rounding that is given holds for every dtype that rounds; without one, integers are truncated, and nearest under scales.
#[test]
fn rounding_is_that_of_integers_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("x.bin"), le(&[2.5, -2.5, 1.75, 127.0])).unwrap();
    for (to, options, codes) in [
        ("int8", "", [2i8, -2, 1, 127]),
        ("int8", "--rounding nearest-even", [2, -2, 2, 127]),
        ("int8", "--rounding nearest-away", [3, -3, 2, 127]),
        ("int8", "--rounding zero", [2, -2, 1, 127]),
        ("int8", "--rounding up", [3, -2, 2, 127]),
        ("int8", "--rounding down", [2, -3, 1, 127]),
        ("int8", "--scale tensor", [2, -2, 2, 127]),
        ("int8", "--scale tensor --rounding up", [3, -2, 2, 127]),
        ("int8", "--scale row --rounding down", [2, -3, 1, 127]),
        // As numbers: 2^2, none, 2^1, 2^7.
        ("e8m0", "", [127 + 2u8, 0, 127 + 1, 127 + 7].map(|code| code as i8)),
        ("e8m0", "--rounding zero", [127 + 1u8, 0, 127, 127 + 6].map(|code| code as i8)),
    ] {
        ok(dir.path(), &format!("cast x.bin y.bin --from f32 --to {to} --force --quiet {options}"));
        let found: Vec<i8> = fs::read(at("y.bin")).unwrap().iter().map(|&code| code as i8).collect();
        assert_eq!(found, codes, "{to} {options}");
    }
    // What --saturate says matters to floats of 8 bits alone.
    fs::write(at("big.bin"), le(&[1e9])).unwrap();
    fs::write(at("wide.bin"), 200i16.to_le_bytes()).unwrap();
    for switch in ["on", "off"] {
        ok(dir.path(), &format!("cast big.bin h.bin --from f32 --to f16 --force --saturate {switch}"));
        ok(dir.path(), &format!("cast big.bin i.bin --from f32 --to int8 --force --saturate {switch}"));
        ok(dir.path(), &format!("cast wide.bin w.bin --from int16 --to int8 --force --saturate {switch}"));
        let made = ["h.bin", "i.bin", "w.bin"].map(|name| fs::read(at(name)).unwrap());
        assert_eq!(made, [vec![0, 0x7C], vec![127], vec![0xC8]], "{switch}");
    }
}

/// A .npy file is one by its beginning, too; what is written, by its name.
#[test]
fn npy_files_may_have_other_names() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = npy("<f4", false, "(2,)", &le(&[1.0, -2.5]));
    let halves = npy("<f2", false, "(2,)", &[0, 0x3C, 0, 0xC1]);
    for name in ["UP.NPY", "array", "array.bin"] {
        fs::write(at(name), &file).unwrap();
        for from in ["", "--from f32"] {
            ok(dir.path(), &format!("cast {name} OUT.NPY --to f16 --quiet --force {from}"));
            assert_eq!(fs::read(at("OUT.NPY")).unwrap(), halves, "{name}");
        }
        fails(dir.path(), &format!("cast {name} y.npy --to f16 --from bf16"), 2);
    }
    fs::write(at("x.bin"), le(&[1.0])).unwrap();
    for name in ["out.npz", "out.safetensors", "out.SafeTensors"] {
        let text = fails(dir.path(), &format!("cast x.bin {name} --from f32 --to f16"), 2);
        assert!(text.contains("does not write .") && text.contains("x.npy"), "{text}");
        assert!(!at(name).exists());
    }
}

/// What a cast loses is said, and refused by `--strict`.
#[test]
fn what_is_lost_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("x.bin"), le(&[1.0, 1e9, f32::NAN, -0.5, -300.0, f32::INFINITY])).unwrap();
    let out = line(dir.path(), "cast x.bin y.bin --from f32 --to int8");
    let text = String::from_utf8_lossy(&out.stderr);
    let said = "warning: 4 elements are lost in int8: 1 above the range, 1 below the range, 1 NaN, 1 Inf; the first is element 1 (--strict";
    assert!(out.status.success() && text.contains(said), "{text}");
    assert_eq!(fs::read(at("y.bin")).unwrap(), [1, 127, 0, 0, 0x80, 127]);
    let report = ok(dir.path(), "cast x.bin z.bin --from f32 --to int8 --json");
    let lost = json!({ "above": 1, "below": 1, "nan": 1, "inf": 1, "imaginary": 0, "first": 1 });
    assert_eq!((&report["lost"], &report["shape"]), (&lost, &json!([6])));
    let text = fails(dir.path(), "cast x.bin w.bin --from f32 --to int8 --strict", 1);
    assert!(text.contains("element 1, 1000000000.0, is above the range of int8"), "{text}");
    assert!(text.contains("nothing was written"), "{text}");
    assert!(!at("w.bin").exists());
    let out = line(dir.path(), "cast x.bin w.bin --from f32 --to int8 --strict --json");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &report["lost"], &report["bytes_out"]), (Some(1), &lost, &json!(0)));
    assert!(!at("w.bin").exists());
    // Nothing is lost of what float16 can hold, and nothing is said.
    fs::write(at("x.bin"), le(&[1.0, 0.1, f32::NAN, f32::INFINITY])).unwrap();
    let out = line(dir.path(), "cast x.bin h.bin --from f32 --to f16 --strict");
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    // In a second piece, too.
    let mut long = vec![0.0f32; (4 << 20) / 4 + 10];
    long[(4 << 20) / 4 + 3] = 1e9;
    fs::write(at("long.npy"), npy("<f4", false, &format!("({},)", long.len()), &le(&long))).unwrap();
    let text = fails(dir.path(), "cast long.npy l.npy --to int16 --strict", 1);
    assert!(text.contains("element 1048579, 1000000000.0, is above the range of int16"), "{text}");
    let out = line(dir.path(), "cast long.npy l.npy --to int16");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.contains("1 element is lost in int16: 1 above the range; the first is element 1048579"),
        "{text}"
    );
    let out = line(dir.path(), "cast long.npy m.npy --to int16 --strict --json");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&report["lost"]["above"], &report["lost"]["first"]), (&json!(1), &json!(1_048_579)));
    // A row of which an element is NaN has no scale.
    fs::write(at("rows.npy"), npy("<f4", false, "(2, 2)", &le(&[1.0, f32::NAN, 2.0, 3.0]))).unwrap();
    let out = line(dir.path(), "cast rows.npy r.npy --to int8 --scale row");
    assert!(String::from_utf8_lossy(&out.stderr).contains("warning: 1 scale computed from NaN or Inf"));
    let out = line(dir.path(), "cast rows.npy s.npy --to int8 --scale row --strict --json");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &report["lost"]["scales"]), (Some(1), &json!(1)));
    assert!(!at("s.npy").exists() && !at("s.scale.npy").exists());
}

/// Found scales are positive: negative numbers are below what has no sign.
#[test]
fn negatives_under_scales_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let x = [[1.0f32, -1.0, 2.0], [4.0, -0.001, -0.0], [f32::NAN, -1.0, 0.0], [-3.0, 0.0, 1.0]];
    let turned: Vec<f32> = (0..12).map(|i| x[i % 4][i / 4]).collect();
    fs::write(at("c.npy"), npy("<f4", false, "(4, 3)", &le(x.as_flattened()))).unwrap();
    fs::write(at("f.npy"), npy("<f4", true, "(4, 3)", &le(&turned))).unwrap();
    let finite: Vec<f32> = x.into_iter().flatten().map(|x| if x.is_nan() { 0.0 } else { x }).collect();
    fs::write(at("t.npy"), npy("<f4", false, "(4, 3)", &le(&finite))).unwrap();
    for (name, scale, scales, below, first) in
        [("c", "row", 1, 2, 1), ("f", "row", 1, 2, 3), ("t", "tensor", 0, 3, 1)]
    {
        for to in ["uint8", "uint4"] {
            let words = format!("cast {name}.npy {name}8.npy --to {to} --scale {scale}");
            let out = line(dir.path(), &format!("{words} --force"));
            let text = String::from_utf8_lossy(&out.stderr);
            let said = format!("{below} elements are lost in {to}: {below} below the range; the first is ");
            assert!(out.status.success() && text.contains(&said), "{words}: {text}");
            let lost = &ok(dir.path(), &format!("{words} --force --json"))["lost"];
            assert_eq!(*lost, json!({ "scales": scales, "below": below, "first": first }), "{words}");
            let text =
                fails(dir.path(), &format!("cast {name}.npy no.npy --to {to} --scale {scale} --strict"), 1);
            assert!(text.contains(&said) && !at("no.npy").exists() && !at("no.scale.npy").exists(), "{text}");
        }
    }
    // What rounds to 0 is in range, and int8 has a sign.
    ok(dir.path(), "cast t.npy t8.npy --to int8 --scale tensor --strict --force");
    fs::write(at("small.npy"), npy("<f4", false, "(3,)", &le(&[1.0, -0.001, -0.0]))).unwrap();
    ok(dir.path(), "cast small.npy s8.npy --to uint8 --scale row --strict");
}

/// `-` is standard input, and standard output.
#[test]
fn numbers_go_through_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let piped = |words: &str, input: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanecast"));
        command.current_dir(dir.path()).args(words.split(' '));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        // (It may end before it has read everything.)
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap();
        (out.status.code(), out.stdout, String::from_utf8(out.stderr).unwrap())
    };
    let x = Random(2).floats(3 * (4 << 20) / 4 + 5);
    let (code, made, text) = piped("cast - - --from f32 --to bf16", &le(&x));
    assert!(code == Some(0) && made == bf16s(&x), "{text}");
    assert!(text.contains(&format!("float32 -> bfloat16   {} elements", "3,145,733")), "{text}");
    let (code, made, _) = piped("cast - y.bin --from f32 --to bf16 --quiet", &le(&x));
    assert!(code == Some(0) && made.is_empty() && fs::read(at("y.bin")).unwrap() == bf16s(&x));
    fs::write(at("x.npy"), npy("<f4", false, "(5,)", &le(&x[..5]))).unwrap();
    let (code, made, _) = piped("cast x.npy - --to bf16 --quiet", &[]);
    assert!(code == Some(0) && made == bf16s(&x[..5]));
    // A pipe has had what came before the element that is refused.
    let mut y = x.clone();
    y[3 << 19] = f32::INFINITY;
    let (code, made, text) = piped("cast - - --from f32 --to bf16 --strict --quiet", &le(&y));
    assert_eq!((code, made), (Some(0), bf16s(&y)), "{text}");
    let (code, made, text) = piped("cast - - --from f32 --to e4m3 --strict --quiet", &le(&y));
    assert!(code == Some(1) && text.contains("element 1572864, inf, is not preserved"), "{code:?} {text}");
    assert!(made.len() == 1 << 20 && !text.contains("nothing was written"), "{} {text}", made.len());
    // Packed elements: two of float4, and one, in bytes.
    assert_eq!(piped("cast - - --from f32 --to e2m1 --quiet", &le(&[1.0, -6.0, 0.5])).1, [0xF2, 0x01]);
    assert_eq!(piped("cast - - --from e2m1 --to f32 --quiet", &[0xF2]).1, le(&[1.0, -6.0]));
    assert_eq!(piped("cast - - --from f32 --to f16", &[]).0, Some(0));
    for (words, input, code, says) in [
        (
            "cast - - --from f32 --to f16",
            &[0; 7][..],
            3,
            "7 bytes are not a whole number of float32 elements",
        ),
        ("cast - - --to f16", &[], 2, "need --from"),
        ("cast - - --from u8 --to f16", b"\x93NUMPY\x01\x00..", 3, "name the file instead of -"),
        ("cast - y.npy --from f32 --to f16", &[], 2, "begins with its shape"),
        ("cast - z.bin --from f32 --to int8 --scale row", &[], 2, "--scale needs files"),
        ("cast x.npy - --to f16 --json", &[], 2, "standard output"),
        (
            "cast - - --from f32 --to int8 --strict",
            &[0, 0, 0x80, 0x7F],
            1,
            "element 0, inf, is not preserved in int8",
        ),
    ] {
        let (found, _, text) = piped(words, input);
        assert!(found == Some(code) && text.contains(says), "{words}: {found:?} {text}");
    }
}

#[test]
fn a_single_flipped_bit_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(9);
    let codes = random.e4m3(300 * 260);
    let scales: Vec<f32> = random.floats(9).iter().map(|x| x.abs() + 0.01).collect();
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![300, 260], codes),
        ("l.weight_scale_inv".into(), Dtype::F32, vec![3, 3], le(&scales)),
        ("n".into(), Dtype::BF16, vec![1000], bf16s(&random.floats(1000))),
        ("ids".into(), Dtype::I64, vec![10], vec![3; 80]),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors b.safetensors --to f64 --quiet");
    let report = ok(dir.path(), "verify a.safetensors b.safetensors --as f64 --json");
    assert_eq!(report, json!({ "equal": true, "compared": 3, "differ": [], "only_a": [], "only_b": [] }));
    ok(dir.path(), "verify a.safetensors b.safetensors");
    let good = fs::read(dir.path().join("b.safetensors")).unwrap();
    let data =
        good.len() - read(&dir.path().join("b.safetensors")).values().map(|(_, _, b)| b.len()).sum::<usize>();
    for _ in 0..40 {
        let (byte, bit) = (data + random.next() as usize % (good.len() - data), random.next() % 8);
        let mut bad = good.clone();
        bad[byte] ^= 1 << bit;
        fs::write(dir.path().join("b.safetensors"), &bad).unwrap();
        fails(dir.path(), "verify a.safetensors b.safetensors --as f64", 1);
    }
    fs::write(dir.path().join("b.safetensors"), &good).unwrap();
    ok(dir.path(), "convert a.safetensors c.safetensors --to fp8-channel --only l.* --quiet");
    fails(dir.path(), "verify a.safetensors c.safetensors", 1);
    ok(dir.path(), "verify a.safetensors c.safetensors --max-abs-error 40");
    ok(dir.path(), "convert a.safetensors d.safetensors --to f32 --drop n --quiet");
    let out = line(dir.path(), "verify a.safetensors d.safetensors --json");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &report["only_a"]), (Some(1), &json!(["n"])));
}

/// Of a whole file: of the length of its header, of the header, of what it pads, of the data.
#[test]
fn every_single_bit_of_a_file_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![2, 4], Random(3).e4m3(8)),
        ("l.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[0.5, 3.0])),
        ("n".into(), Dtype::I16, vec![2], vec![1, 2, 3, 4]),
    ];
    let (a, b) = (dir.path().join("a.safetensors"), dir.path().join("b.safetensors"));
    write(&a, &tensors, None);
    let good = fs::read(&a).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&b, &bad).unwrap();
        let out = line(dir.path(), "verify a.safetensors b.safetensors");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(matches!(out.status.code(), Some(1 | 3)), "bit {} of byte {}: {text}", bit % 8, bit / 8);
    }
}

#[test]
fn bench_compares_casts_with_memcpy() {
    let dir = tempfile::tempdir().unwrap();
    let found = ok(dir.path(), "bench --json");
    let all = found["of_memcpy"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|one| one["cast"].as_str().unwrap()).collect();
    assert!(names.contains(&"f32 -> bf16") && names.contains(&"fp8-block -> bf16"), "{names:?}");
    for one in all {
        for place in ["l2", "memory"] {
            let ratio = one[place].as_f64().unwrap();
            assert!(ratio > 0.0 && ratio < 100.0, "{one}");
        }
    }
}

#[test]
fn inspect_says_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let codes = Random(2).e4m3(8);
    let tensors: Tensors = vec![
        ("l.weight".into(), Dtype::F8_E4M3, vec![2, 4], codes.clone()),
        ("l.weight_scale".into(), Dtype::F32, vec![1], le(&[2.0])),
        ("l.input_scale".into(), Dtype::F32, vec![1], le(&[2.0])),
        ("l.bias".into(), Dtype::F32, vec![2], le(&[2.0, 3.0])),
    ];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    let found = ok(dir.path(), "inspect a.safetensors --json");
    assert_eq!(found["layout"], "fp8-tensor");
    let roles: Vec<_> =
        found["tensors"].as_array().unwrap().iter().map(|t| (&t["name"], &t["role"], &t["of"])).collect();
    let null = serde_json::Value::Null;
    let (bias, input, weight, scale) =
        (json!("l.bias"), json!("l.input_scale"), json!("l.weight"), json!("l.weight_scale"));
    assert_eq!(
        roles,
        [
            (&bias, &json!("plain"), &null),
            (&input, &json!("activation_scale"), &weight),
            (&weight, &json!("weight"), &null),
            (&scale, &json!("scale"), &weight),
        ]
    );
    let text = String::from_utf8(line(dir.path(), "inspect a.safetensors").stdout).unwrap();
    assert!(text.starts_with("fp8-tensor"), "{text}");
    let stats = &ok(dir.path(), "inspect a.safetensors --stats --json")["tensors"][0]["stats"];
    assert_eq!(
        *stats,
        json!({ "min": 2.0, "max": 3.0, "nan": 0, "inf": 0, "zero": 0, "exponents": { "1": 2 } })
    );
    assert!(line(dir.path(), "inspect a.safetensors --stats").status.success());

    ok(dir.path(), "convert a.safetensors b.safetensors --to f32 --quiet");
    let all = read(&dir.path().join("b.safetensors"));
    assert_eq!(f32s(&all["l.weight"].2), codes.iter().map(|&c| from_e4m3(c) * 2.0).collect::<Vec<_>>());
    assert!(!all.contains_key("l.input_scale"));
}

#[test]
fn damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.safetensors");
    let tensors: Tensors = vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))];
    write(&path, &tensors, None);
    let good = fs::read(&path).unwrap();
    // Any damage of the header is an error, or another valid header: never a panic.
    let mut random = Random(11);
    for _ in 0..60 {
        let mut bad = good.clone();
        let at = random.next() as usize % (good.len() - 8);
        bad[at] = random.next() as u8;
        fs::write(&path, &bad).unwrap();
        let out = line(dir.path(), "inspect a.safetensors --json");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(matches!(out.status.code(), Some(0 | 3)), "{text}");
    }
    for n in [0, 7, 8, 9, good.len() - 1] {
        fs::write(&path, &good[..n]).unwrap();
        fails(dir.path(), "inspect a.safetensors", 3);
    }
    fs::write(&path, [u64::MAX.to_le_bytes().as_slice(), &good[8..]].concat()).unwrap();
    fails(dir.path(), "inspect a.safetensors", 3);
}

#[test]
fn info_names_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let info = ok(dir.path(), "info --json");
    assert!(info["isas"].as_array().unwrap().iter().any(|isa| isa == "scalar"));
    assert!(info["memcpy_gbps"].as_f64().unwrap() > 0.0);
    assert!(line(dir.path(), "man").stdout.starts_with(b".ie"));
    assert!(!line(dir.path(), "completions bash").stdout.is_empty());
}

#[test]
fn info_says_what_the_environment_chooses() {
    let info = |isa: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lanecast"));
        let out = command.arg("info").args(more).env("LANECAST_ISA", isa).output().unwrap();
        (out.status.code(), out.stdout, String::from_utf8(out.stderr).unwrap())
    };
    let (code, text, _) = info("scalar", &[]);
    assert!(code == Some(0) && String::from_utf8(text).unwrap().contains("; casts run on scalar\n"));
    let (_, text, _) = info("scalar", &["--json"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).unwrap()["isa"], "scalar");
    let (code, _, text) = info("bogus", &[]);
    assert!(code == Some(2) && text.contains("LANECAST_ISA is \"bogus\""), "{text}");
}

/// A picture of a tensor, in a.safetensors, and of what mxfp4 makes of it, in b.safetensors.
fn draw(dir: &Path, picture: &str) {
    let tensors: Tensors =
        vec![("a<b>.weight".into(), Dtype::BF16, vec![64, 128], bf16s(&Random(2).floats(64 * 128)))];
    write(&dir.join("a.safetensors"), &tensors, None);
    ok(dir, "convert a.safetensors b.safetensors --to mxfp4 --quiet");
    ok(dir, &format!("inspect a.safetensors --beside b.safetensors --plot {picture} --json"));
}

#[test]
fn a_tensor_is_drawn_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    draw(dir.path(), "p.svg");
    let drawn = fs::read_to_string(dir.path().join("p.svg")).unwrap();
    assert!(
        drawn.starts_with("<svg") && drawn.contains("mxfp4, b.safetensors") && drawn.contains("a&lt;b&gt;")
    );
    // Bars of both: float4 has few exponents in each scale's reach, and bfloat16 more.
    assert!(drawn.matches("#5B8FC7").count() > 8 && drawn.matches("#D96C2C").count() > 4);
    // Of two layouts that fit, codes without what they mean are not drawn.
    let tensors: Tensors = vec![
        ("a.weight".into(), Dtype::U8, vec![128, 64], vec![0x35; 8192]),
        ("a.weight_scale".into(), Dtype::F8_E4M3, vec![128, 8], vec![0x38; 1024]),
        ("a.weight_scale_2".into(), Dtype::F32, vec![], le(&[0.5])),
    ];
    write(&dir.path().join("two.safetensors"), &tensors, None);
    write(
        &dir.path().join("one.safetensors"),
        &vec![("a.weight".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))],
        None,
    );
    let text = fails(dir.path(), "inspect one.safetensors --beside two.safetensors --plot q.svg", 3);
    assert!(text.contains("--from-beside comfy-nvfp4") && !dir.path().join("q.svg").exists(), "{text}");
    let more = "--from-beside modelopt-nvfp4 --plot q.svg";
    ok(dir.path(), &format!("inspect one.safetensors --beside two.safetensors {more}"));
    let text = fails(dir.path(), "inspect two.safetensors --plot r.svg", 3);
    assert!(text.contains("--from comfy-nvfp4"), "{text}");
    // What a picture is, is known before anything is read.
    for name in ["p.jpg", "p"] {
        let text = fails(dir.path(), &format!("inspect no.safetensors --plot {name}"), 2);
        assert!(text.contains("--plot p.svg, or --plot p.png"), "{text}");
    }
    assert!(
        fails(dir.path(), "inspect a.safetensors --plot t.svg --tensor a<b>.weigth", 3)
            .contains("did you mean")
    );
}

/// The texts of an SVG, and where they are.
fn texts(svg: &str) -> Vec<(f64, String)> {
    let all = svg.split("<text ").skip(1).map(|text| {
        let x = text.split("x=\"").nth(1).unwrap().split('"').next().unwrap();
        let words = text.split_once('>').unwrap().1.split("</text>").next().unwrap().trim();
        (x.parse().unwrap(), words.to_owned())
    });
    all.collect()
}

#[test]
fn ticks_are_under_their_bars() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![("a.weight".into(), Dtype::F32, vec![3], le(&[1.0, 2.0, 2.5]))];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "inspect a.safetensors --plot p.svg");
    let drawn = fs::read_to_string(dir.path().join("p.svg")).unwrap();
    let ticks: Vec<_> = texts(&drawn).into_iter().filter(|(_, text)| text.starts_with("2^")).collect();
    assert_eq!(ticks.iter().map(|(_, text)| &text[..]).collect::<Vec<_>>(), ["2^-1", "2^0", "2^1", "2^2"]);
    // Of the bars, without the square of the legend.
    let number = |rect: &str, name: &str| -> f64 {
        rect.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let bars = drawn.split("<rect").filter(|rect| rect.contains("#5B8FC7"));
    let mut bars: Vec<_> = bars.map(|rect| (number(rect, "x"), number(rect, "width"))).collect();
    bars.retain(|(_, width)| *width > 20.0);
    let centres: Vec<_> = bars.iter().map(|(x, width)| x + width / 2.0).collect();
    assert_eq!(centres.len(), 2);
    for (centre, (x, tick)) in centres.iter().zip(&ticks[1..]) {
        assert!((centre - x).abs() < 3.0, "a bar at {centre}, {tick} at {x}");
    }
    // Many exponents: ticks at whole ones, and not more than there is room for.
    let wide: Vec<f32> = (-120..120).map(|e| 2f32.powi(e)).collect();
    write(
        &dir.path().join("b.safetensors"),
        &vec![("b.weight".into(), Dtype::F32, vec![240], le(&wide))],
        None,
    );
    ok(dir.path(), "inspect b.safetensors --plot q.svg");
    let drawn = fs::read_to_string(dir.path().join("q.svg")).unwrap();
    let ticks: Vec<_> = texts(&drawn).into_iter().filter(|(_, text)| text.starts_with("2^")).collect();
    assert!((5..=13).contains(&ticks.len()) && ticks.iter().any(|(_, text)| text == "2^-100"), "{ticks:?}");
}

/// SVG has no control characters, not escaped either.
#[test]
#[cfg(unix)]
fn names_of_files_do_not_break_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors = vec![("a.weight".into(), Dtype::F32, vec![1], le(&[1.0]))];
    write(&dir.path().join("a\u{1}\u{1b}<.safetensors"), &tensors, None);
    ok(dir.path(), "inspect a\u{1}\u{1b}<.safetensors --plot p.svg");
    let drawn = fs::read_to_string(dir.path().join("p.svg")).unwrap();
    assert!(!drawn.contains(|c: char| c.is_control() && c != '\n'), "{drawn:?}");
    assert!(drawn.contains("a\\u{1}\\u{1b}&lt;.safetensors"), "{drawn}");
}

/// A picture replaces nothing but another, by `--force`, and never a source.
#[test]
fn a_picture_destroys_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tensors: Tensors = vec![("a.weight".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))];
    write(&at("a.safetensors"), &tensors, None);
    let source = fs::read(at("a.safetensors")).unwrap();
    let inspect = "inspect a.safetensors --plot";
    ok(dir.path(), &format!("{inspect} p.svg"));
    fs::write(at("p.svg"), "else").unwrap();
    assert!(fails(dir.path(), &format!("{inspect} p.svg"), 3).contains("--force replaces it"));
    assert_eq!(fs::read(at("p.svg")).unwrap(), b"else");
    ok(dir.path(), &format!("{inspect} p.svg --force"));
    assert!(fs::read(at("p.svg")).unwrap().starts_with(b"<svg"));
    fs::copy(at("a.safetensors"), at("s.png")).unwrap();
    fs::hard_link(at("a.safetensors"), at("hard.svg")).unwrap();
    for words in ["inspect s.png --plot s.png", "inspect a.safetensors --beside s.png --plot s.png"] {
        let text = fails(dir.path(), &format!("{words} --force"), 3);
        assert!(text.contains("s.png is the source"), "{text}");
    }
    ok(dir.path(), &format!("{inspect} hard.svg --force"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.safetensors", at("link.svg")).unwrap();
        std::os::unix::fs::symlink("s.png", at("other.svg")).unwrap();
        assert!(fails(dir.path(), &format!("{inspect} link.svg --force"), 3).contains("is the source"));
        assert!(fails(dir.path(), &format!("{inspect} other.svg --force"), 3).contains("is a link"));
    }
    for name in ["a.safetensors", "s.png"] {
        assert_eq!(fs::read(at(name)).unwrap(), source, "{name}");
    }
    assert!(fails(dir.path(), &format!("{inspect} no/p.svg"), 3).contains("there is no directory no"));
    let left = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_png_has_the_bars_and_the_texts() {
    let dir = tempfile::tempdir().unwrap();
    draw(dir.path(), "p.PNG");
    let file = fs::File::open(dir.path().join("p.PNG")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height, info.color_type), (1800, 960, png::ColorType::Rgb));
    let pixels = pixels.as_chunks::<3>().0;
    let many = |colour: [u8; 3]| pixels.iter().filter(|&&pixel| pixel == colour).count();
    assert!(many([0x5B, 0x8F, 0xC7]) > 10_000 && many([0xD9, 0x6C, 0x2C]) > 10_000);
    // The title on top, the names of the axes on the left and below.
    let dark = |columns: std::ops::Range<usize>, rows: std::ops::Range<usize>| {
        rows.flat_map(|row| &pixels[row * 1800..][columns.clone()]).filter(|pixel| pixel[0] < 128).count()
    };
    assert!(dark(0..1800, 0..80) > 200 && dark(0..60, 200..800) > 200 && dark(400..1400, 900..960) > 200);
}

/// Without what chooses it, every cast would run the reference, in silence.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_instruction_set_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let isas = ok(dir.path(), "info --json")["isas"].clone();
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c") {
        assert!(isas.as_array().unwrap().iter().any(|isa| isa == "avx2"), "{isas}");
    }
}

/// A flipped sign of a zero is a flipped bit; with a limit of 0 values are compared.
#[test]
fn zeros_of_two_signs_differ_without_limits() {
    let dir = tempfile::tempdir().unwrap();
    for (name, zero) in [("a.safetensors", 0.0), ("b.safetensors", -0.0)] {
        let tensors: Tensors = vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, zero]))];
        write(&dir.path().join(name), &tensors, None);
    }
    let out = line(dir.path(), "verify a.safetensors b.safetensors");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(1) && text.starts_with("x: 0 and -0, at [1]"), "{text}");
    ok(dir.path(), "verify a.safetensors b.safetensors --max-abs-error 0");
    // What has an error has these keys and no others.
    let tensors: Tensors = vec![("x".into(), Dtype::F32, vec![2], le(&[1.5, 0.0]))];
    write(&dir.path().join("b.safetensors"), &tensors, None);
    let out = line(dir.path(), "verify a.safetensors b.safetensors --json");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let one = json!({ "name": "x", "max_abs_error": 0.5, "max_rel_error": 0.5, "index": [0] });
    assert_eq!(report["differ"], json!([one]));
}

/// The largest relative error of what was quantised is 1, that of a value that became 0: how far a tensor is off is another number.
#[test]
fn verify_says_how_far_a_tensor_is_off_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let nan = f32::NAN;
    for (name, x, y) in [
        ("a.safetensors", [3.0, -4.0, 0.01, nan], [1.0, 1.0]),
        ("b.safetensors", [3.0, -4.5, 0.0, nan], [1.0, 1.125]),
    ] {
        let tensors: Tensors =
            vec![("x".into(), Dtype::F32, vec![4], le(&x)), ("y".into(), Dtype::F32, vec![2], le(&y))];
        write(&dir.path().join(name), &tensors, None);
    }
    let (x, y) = ([0.25 + 0.0001, 25.0 + 0.0001], [0.015625, 2.0]);
    let close = |found: &serde_json::Value, [errors, values]: [f64; 2]| {
        let (found, wanted) = (found.as_f64().unwrap(), f64::sqrt(errors / values));
        assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
    };
    let verify = "verify a.safetensors b.safetensors";
    let out = line(dir.path(), &format!("{verify} --json"));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    close(&report["rms_errors"]["x"], x);
    close(&report["rms_errors"]["y"], y);
    close(&report["rms_error"], [x[0] + y[0], x[1] + y[1]]);

    // Of x it is 0.100, of y 0.088.
    ok(dir.path(), &format!("{verify} --max-rms-error 0.11"));
    let out = line(dir.path(), &format!("{verify} --max-rms-error 0.09"));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.starts_with("x: largest error 5.000e-1, relative 1.000e0 at [2]; rms 1.0e-1\n2 tensors"),
        "{text}"
    );
    assert!(text.ends_with("compared as float32, rms 9.9e-2 of 2 with errors\n"), "{text}");
    assert_eq!(out.status.code(), Some(1));
    // Where it cannot be computed, no limit is kept.
    for (name, x) in [("c.safetensors", 1e200f64), ("d.safetensors", 0.5e200)] {
        let tensors: Tensors = vec![("x".into(), Dtype::F64, vec![1], x.to_le_bytes().to_vec())];
        write(&dir.path().join(name), &tensors, None);
    }
    fails(dir.path(), "verify c.safetensors d.safetensors --max-rms-error 9", 1);
    let out = line(dir.path(), "verify a.safetensors a.safetensors --max-rms-error 0");
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(text, "2 tensors compared as float32: all are within the limits\n");
}

/// What became NaN or Inf, and what was 0 and is not, is off by more than any number of times its value, and is named.
#[test]
fn verify_names_what_no_limit_allows_for() {
    let dir = tempfile::tempdir().unwrap();
    let to = |name: &str, values: [f32; 4]| {
        let tensors: Tensors = vec![("x".into(), Dtype::F32, vec![4], le(&values))];
        write(&dir.path().join(name), &tensors, None);
    };
    to("a.safetensors", [1.0, 0.0, 2.0, -0.0]);
    let said = |options: &str| {
        let out = line(dir.path(), &format!("verify a.safetensors b.safetensors {options}"));
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    for (values, options, start) in [
        ([1.001, 1e30, 2.0, 0.0], "--max-rel-error 0.01", "x: 0 and 1e30, at [1]"),
        ([1.001, 0.0, 2.0, 1e-30], "--max-rel-error 0.01", "x: -0 and 1e-30, at [3]"),
        ([1.001, 0.0, f32::NAN, 0.0], "--max-rel-error 0.01", "x: 2 and NaN, at [2]"),
        ([1.001, 0.0, f32::INFINITY, 0.0], "--max-abs-error 0.01", "x: 2 and inf, at [2]"),
        ([1.001, 0.0, f32::NAN, 0.0], "--max-rms-error 0.01", "x: 2 and NaN, at [2]"),
        ([1.001, 0.0, f32::NAN, 0.0], "", "x: 2 and NaN, at [2]"),
        ([1.001, 0.5, 2.0, 0.0], "", "x: largest error 5.000e-1, relative"),
    ] {
        to("b.safetensors", values);
        let (code, text) = said(options);
        assert!(code == Some(1) && text.starts_with(start), "{values:?}: {text}");
    }
    // Errors that float32 does not hold, such as those of a flipped bit of the exponent, are errors.
    for (one, other) in [(0.01f32, 0.01 * 2f32.powi(127)), (1e-30, 1e30), (2e38, -2e38)] {
        to("a.safetensors", [1.0, one, 0.0, 0.0]);
        to("b.safetensors", [1.0, other, 0.0, 0.0]);
        for options in ["--max-rel-error 0.01", "--max-abs-error 0.01", ""] {
            let (code, text) = said(options);
            assert!(code == Some(1) && text.contains("largest error"), "{one} {other} {options}: {text}");
        }
    }
    to("a.safetensors", [1.0, 0.0, 2.0, -0.0]);
    // A small number is near enough to 0 where errors are limited, and zeros are equal.
    to("b.safetensors", [1.0, 0.001, 2.0, 0.0]);
    assert_eq!(said("--max-abs-error 0.01").0, Some(0));
    to("b.safetensors", [1.001, -0.0, 2.0, 0.0]);
    assert_eq!(said("--max-rel-error 0.01").0, Some(0));
}

/// Codes that have lost their scales are not those that have them.
#[test]
fn verify_sees_that_scales_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut tensors: Tensors = vec![("x.weight".into(), Dtype::I8, vec![2, 4], (1..9).collect())];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    tensors.push(("x.weight_scale".into(), Dtype::F32, vec![2, 1], le(&[0.5, 0.25])));
    write(&dir.path().join("b.safetensors"), &tensors, None);
    for text in ["verify a.safetensors b.safetensors", "verify b.safetensors a.safetensors"] {
        let out = line(dir.path(), text);
        assert_eq!(out.status.code(), Some(1), "{text}");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.starts_with("x.weight: ") && text.contains("I8 with scales"), "{text}");
    }
    ok(dir.path(), "verify b.safetensors b.safetensors");
}

/// An error says on which side it is, and a file that was not compared is named.
#[test]
fn verify_says_of_which_side_it_speaks() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tensors: Tensors = vec![("x".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))];
    for side in ["a", "b"] {
        fs::create_dir(at(side)).unwrap();
        write(&at(side).join("model.safetensors"), &tensors, None);
        let index = json!({ "weight_map": { "x": "model.safetensors" } }).to_string();
        fs::write(at(side).join("model.safetensors.index.json"), index).unwrap();
    }
    write(&at("b/extra.safetensors"), &vec![("y".into(), Dtype::F32, vec![2], le(&[1.0, 2.0]))], None);
    let out = line(dir.path(), "verify a b");
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(
        out.status.success() && text.contains("not compared") && text.contains("extra.safetensors"),
        "{text}"
    );
    fs::remove_file(at("b/model.safetensors")).unwrap();
    let place = Path::new("b").join("model.safetensors.index.json").display().to_string();
    assert!(fails(dir.path(), "verify a b", 3).contains(&place));
    // Codes without their scale.
    let tensors: Tensors = vec![("x.weight_scale".into(), Dtype::F32, vec![1], le(&[1.0]))];
    write(&at("c.safetensors"), &tensors, None);
    let error = fails(dir.path(), "verify a c.safetensors", 3);
    assert!(error.contains("c.safetensors: "), "{error}");
}

#[test]
fn each_side_of_a_comparison_can_be_told_its_layout() {
    let dir = tempfile::tempdir().unwrap();
    let tensors: Tensors =
        vec![("l.weight".into(), Dtype::F32, vec![128, 64], le(&Random(4).floats(128 * 64)))];
    write(&dir.path().join("a.safetensors"), &tensors, None);
    ok(dir.path(), "convert a.safetensors m.safetensors --to modelopt-nvfp4 --quiet");
    // ComfyUI's has these names and shapes, too.
    let text = fails(dir.path(), "verify a.safetensors m.safetensors --max-rel-error 1", 3);
    assert!(text.contains("--from-b modelopt-nvfp4"), "{text}");
    let text = fails(dir.path(), "verify m.safetensors a.safetensors", 3);
    assert!(text.contains("--from-a modelopt-nvfp4"), "{text}");
    ok(dir.path(), "verify a.safetensors m.safetensors --max-rel-error 1 --from-b modelopt-nvfp4");
    ok(dir.path(), "verify m.safetensors a.safetensors --max-abs-error 1 --from-a modelopt-nvfp4");
    fails(dir.path(), "verify a.safetensors m.safetensors --max-rel-error 1 --from-b comfy-nvfp4", 1);
    assert!(
        fails(dir.path(), "verify a.safetensors m.safetensors --from-b nvfp5", 2).contains("did you mean")
    );
}

/// Scales of activations that both sides have are compared; those that a conversion has dropped are not missed.
#[test]
fn verify_compares_scales_of_activations() {
    let dir = tempfile::tempdir().unwrap();
    for (name, scale) in [("a", Some(2.0f32)), ("b", Some(3.0)), ("c", None)] {
        let mut tensors: Tensors = vec![
            ("x.weight".into(), Dtype::F8_E4M3, vec![2, 4], vec![0x38; 8]),
            ("x.weight_scale".into(), Dtype::F32, vec![1], le(&[2.0])),
        ];
        tensors.extend(scale.map(|scale| ("x.input_scale".into(), Dtype::F32, vec![1], le(&[scale]))));
        write(&dir.path().join(format!("{name}.safetensors")), &tensors, None);
    }
    let out = line(dir.path(), "verify a.safetensors b.safetensors");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(1) && text.contains("x.input_scale: largest error 1.000e0"), "{text}");
    ok(dir.path(), "verify a.safetensors a.safetensors");
    ok(dir.path(), "verify a.safetensors c.safetensors");
}
