"""What `lanecast` writes, loaded by the packages whose layouts these are, and what they write, read by `lanecast`.

    python tests/packages.py target/debug/lanecast

Loaded by: transformers (float8 of blocks, gpt-oss), compressed-tensors by way of transformers, comfy-kitchen, torchao, ModelOpt. Models are tiny
and random. A package that is not there is skipped, and said so; one that is there and disagrees fails.
"""

import importlib
import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

PROGRAM = Path(sys.argv[1]).resolve()
skipped = []


def package(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        skipped.append(f"{name}: {error}")
        print(f"SKIPPED: {name} cannot be imported: {error}")
        return None


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def bits(x):
    x = x.detach().contiguous()
    return x if x.dtype.itemsize == 1 and not x.dtype.is_floating_point else x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[x.dtype.itemsize])


def same(a, b, what):
    assert a.dtype == b.dtype and a.shape == b.shape, (what, a.dtype, b.dtype, a.shape, b.shape)
    different = (bits(a) != bits(b)).sum().item()
    assert different == 0, f"{what}: {different} of {a.numel()} differ"


def all_tensors(directory):
    return {name: t for file in sorted(directory.glob("*.safetensors")) for name, t in load_file(file).items()}


def llama(at):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=64, vocab_size=320, max_position_embeddings=64, tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(at)


def load(at, **options):
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(at, dtype=torch.bfloat16, output_loading_info=True, **options)
    wrong = {key: names for key, names in info.items() if names}
    assert not wrong, wrong
    return model


def runs(model):
    with torch.no_grad():
        logits = model(torch.arange(16)[None]).logits
    assert torch.isfinite(logits).all()
    return logits


def models(at):
    """Each layout: transformers loads it without a name that is missing, extra or mismatched; dequantises it to the bits of
    `convert --to bf16` under the package's profile; and runs it."""
    from transformers import CompressedTensorsConfig, FineGrainedFP8Config
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()

    source = at / "llama"
    llama(source)
    plain = runs(load(source))
    weights = all_tensors(source)
    fp8 = FineGrainedFP8Config(dequantize=True)
    cases = [("fp8-block", ["--to", "fp8-block"], fp8, "f32"), ("fp8-block-e8m0", ["--to", "fp8-block", "--scale-dtype", "e8m0"], fp8, "f32")]
    if package("compressed_tensors"):
        ct = CompressedTensorsConfig(dequantize=True)
        cases.append(("int4-group-32", ["--to", "int4-group", "--group-size", "32"], ct, "compressed-tensors"))
        for to in ["fp8-channel", "fp8-tensor", "int8-channel", "int8-tensor", "int4-group", "int8-group", "mxfp8", "mxfp4", "nvfp4"]:
            # Its NVFP4 is multiplied in float32 when transformers calls it.
            profile = "f32" if to == "nvfp4" else "compressed-tensors"
            cases.append((to, ["--to", to], ct, profile))
            if to in ["fp8-channel", "nvfp4"]:
                cases.append((f"{to}-kept", ["--to", to, "--keep", "*layers.1.mlp*"], ct, profile))
    for name, options, config, profile in cases:
        to = at / name
        run("convert", source, to, *options, "--quiet")
        run("convert", to, at / f"{name}-bf16", "--to", "bf16", "--profile", profile, "--quiet")
        ours = all_tensors(at / f"{name}-bf16")
        model = load(to, quantization_config=config)
        theirs = dict(model.named_parameters())
        assert sorted(ours) == sorted(theirs), (name, set(ours) ^ set(theirs))
        changed = 0
        for tensor, value in theirs.items():
            same(ours[tensor], value.to(torch.bfloat16), f"{name}: {tensor}")
            changed += not torch.equal(value, weights[tensor])
        kept = "kept" in name
        assert changed == (11 if kept else 14), (name, changed)
        difference = (runs(model) - plain).abs().max().item() / plain.abs().max().item()
        assert difference < 0.5, (name, difference)
        if config is not fp8:
            # As it is served: codes and scales, and activations quantised where the layout says so.
            logits = runs(load(to))
            beside = (logits - plain).abs().max().item() / plain.abs().max().item()
            assert beside < 0.5, (name, beside)
        print(f"equal: {name}: {len(theirs)} tensors of transformers; logits differ by {difference:.3f} of the largest")
    # What the default of the program is: one rounding, never farther from the exact product than what the package does.
    run("verify", at / "fp8-block", at / "fp8-block-bf16", "--max-rel-error", "0.0040")


def packed(at):
    """What compressed-tensors packs, symmetric or with zero points, is read to the bits that it dequantises to."""
    if not package("compressed_tensors"):
        return
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor as Compressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    torch.manual_seed(0)
    for bits, group, symmetric in itertools.product((4, 8), (32, 128, None), (True, False)):
        # (Of 8 rows or fewer its own zero points cannot be unpacked by 0.20.)
        for rows, dtype in ((13, torch.bfloat16), (256, torch.float16)):
            x = torch.randn(rows, 384).to(dtype)
            of = x.reshape(rows, -1, group or 384).float()
            tensors = {"weight": x, "weight_scale": (of.abs().amax(-1) / (2**bits - 1) * 2).to(dtype)}
            if not symmetric:
                low, high = of.amin(-1).clamp(max=0), of.amax(-1).clamp(min=0)
                scales = ((high - low) / (2**bits - 1)).to(dtype)
                zeros = torch.clamp(-(2 ** (bits - 1)) - torch.round(low / scales.float()), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).to(torch.int8)
                tensors |= {"weight_scale": scales, "weight_zero_point": zeros}
            strategy = "group" if group else "channel"
            args = QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, group_size=group)
            scheme = QuantizationScheme(targets=["Linear"], weights=args)
            packed = Compressor.compress(tensors, scheme)
            theirs = Compressor.decompress(dict(packed), scheme)["weight"]
            src, dst = (at / f"int{bits}-{group}-{symmetric}-{rows}-{of}" for of in ("packed", "plain"))
            src.mkdir()
            save_file({f"m.up_proj.{name}": t.contiguous() for name, t in packed.items()}, src / "model.safetensors")
            groups = {"group_0": {"targets": ["Linear"], "weights": json.loads(args.model_dump_json())}}
            config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
            (src / "config.json").write_text(json.dumps({"quantization_config": config}))
            to = str(dtype).removeprefix("torch.")
            run("convert", src, dst, "--to", to, "--profile", "compressed-tensors", "--quiet")
            ours = all_tensors(dst)
            assert list(ours) == ["m.up_proj.weight"], list(ours)
            same(ours["m.up_proj.weight"], theirs, src.name)
    print("equal: int4-group and int8-group: 24 weights of compressed-tensors")


def awq(at):
    """AWQ's weights become what compressed-tensors' converter makes of them."""
    if not package("compressed_tensors.entrypoints.convert.converters.autoawq"):
        return
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32 as unpack
    from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter

    torch.manual_seed(0)
    for inputs, outputs, group in ((256, 64, 128), (512, 96, 64), (128, 4096, 32), (1024, 160, 1024)):
        words = lambda *shape: torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int64).to(torch.int32)
        tensors = {
            "m.q_proj.qweight": words(inputs, outputs // 8),
            "m.q_proj.qzeros": words(inputs // group, outputs // 8),
            "m.q_proj.scales": (torch.rand(inputs // group, outputs) / 10 + 0.01).half(),
        }
        made = AutoAWQConverter(group_size=group).process(dict(tensors))
        codes = unpack(made["m.q_proj.weight_packed"], 4, (outputs, inputs)).double()
        zeros = unpack(made["m.q_proj.weight_zero_point"], 4, (outputs, inputs // group), packed_dim=0).double()
        scales = made["m.q_proj.weight_scale"].double()
        theirs = ((codes - zeros.repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)).half()
        src, dst = (at / f"awq-{inputs}-{of}" for of in ("src", "dst"))
        src.mkdir()
        save_file(tensors, src / "model.safetensors")
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
        (src / "config.json").write_text(json.dumps({"quantization_config": config}))
        run("convert", src, dst, "--to", "f16", "--quiet")
        same(all_tensors(dst)["m.q_proj.weight"], theirs, src.name)
    print("equal: awq: 4 weights")


def gpt_oss(at):
    from transformers import GptOssConfig, GptOssForCausalLM, Mxfp4Config

    torch.manual_seed(2)
    config = GptOssConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        num_local_experts=4, num_experts_per_tok=2, vocab_size=128, max_position_embeddings=64, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
    )
    source = at / "gpt-oss-plain"
    GptOssForCausalLM(config).to(torch.bfloat16).save_pretrained(source)
    run("convert", source, at / "gpt-oss", "--to", "gpt-oss", "--quiet")
    run("convert", at / "gpt-oss", at / "gpt-oss-bf16", "--to", "bf16", "--quiet")
    ours = all_tensors(at / "gpt-oss-bf16")
    model = load(at / "gpt-oss", quantization_config=Mxfp4Config(dequantize=True))
    theirs = dict(model.named_parameters())
    assert sorted(ours) == sorted(theirs), set(ours) ^ set(theirs)
    for tensor, value in theirs.items():
        same(ours[tensor], value.to(torch.bfloat16), f"gpt-oss: {tensor}")
    plain, logits = runs(load(source)), runs(model)
    assert not torch.equal(plain, logits)
    runs(load(at / "gpt-oss-bf16"))
    print(f"equal: gpt-oss: {len(theirs)} tensors of transformers")


def comfy(at):
    if not package("comfy_kitchen"):
        return
    from comfy_kitchen.tensor import TensorCoreFP8Layout, TensorCoreMXFP8Layout, TensorCoreNVFP4Layout

    torch.manual_seed(3)
    x = {"a.weight": torch.randn(160, 192, dtype=torch.bfloat16), "b.weight": torch.randn(128, 64, dtype=torch.bfloat16) * 0.01}
    save_file(x, at / "flux.safetensors")
    for to, layout in [("comfy-fp8", TensorCoreFP8Layout), ("comfy-nvfp4", TensorCoreNVFP4Layout), ("comfy-mxfp8", TensorCoreMXFP8Layout)]:
        path = at / f"{to}.safetensors"
        run("convert", at / "flux.safetensors", path, "--to", to, "--quiet")
        # Ours, dequantised by them, beside ours dequantised by us with their steps.
        run("convert", path, at / "back.safetensors", "--to", "bf16", "--profile", "output" if to == "comfy-fp8" else "comfy", "--quiet", "--force")
        made, back = load_file(path), load_file(at / "back.safetensors")
        theirs_made = {}
        for name, value in x.items():
            module = name.removesuffix("weight")
            marker = json.loads(bytes(made[f"{module}comfy_quant"].tolist()))
            scale = made[f"{name}_scale"]
            common = {"orig_dtype": torch.bfloat16, "orig_shape": tuple(value.shape)}
            if to == "comfy-nvfp4":
                params = layout.Params(scale=made[f"{name}_scale_2"], block_scale=scale, **common)
            elif to == "comfy-mxfp8":
                params = layout.Params(scale=scale.view(torch.float8_e8m0fnu), **common)
            else:
                params = layout.Params(scale=scale, **common)
            same(layout.dequantize(made[name], params), back[name], f"{to}: {name}, dequantised")
            # Theirs, read by us.
            codes, params = layout.quantize(value)
            theirs_made[name] = codes
            theirs_made[f"{module}comfy_quant"] = made[f"{module}comfy_quant"]
            if to == "comfy-nvfp4":
                theirs_made[f"{name}_scale"], theirs_made[f"{name}_scale_2"] = params.block_scale, params.scale
            else:
                stored = params.scale.view(torch.uint8) if to == "comfy-mxfp8" else params.scale
                theirs_made[f"{name}_scale"] = stored
            for part in [name, f"{name}_scale"]:
                assert theirs_made[part].shape == made[part].shape, (part, theirs_made[part].shape, made[part].shape)
            x[name] = value
        save_file({k: v.contiguous() for k, v in theirs_made.items()}, at / "theirs.safetensors")
        run("convert", at / "theirs.safetensors", at / "read.safetensors", "--to", "bf16", "--profile", "output" if to == "comfy-fp8" else "comfy", "--quiet", "--force")
        read = load_file(at / "read.safetensors")
        for name, value in x.items():
            _, params = layout.quantize(value)
            same(layout.dequantize(theirs_made[name], params), read[name], f"{to}: {name}, of theirs")
        print(f"equal: {to}: {marker['format']}, both ways")


def ao(at):
    if not package("torchao"):
        return
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    torch.manual_seed(4)
    x = torch.randn(96, 128, dtype=torch.bfloat16)
    save_file({"l.weight": x}, at / "x.safetensors")
    for to, element, codes in [("mxfp8", torch.float8_e4m3fn, "l.weight"), ("mxfp4", torch.float4_e2m1fn_x2, "l.weight_packed")]:
        run("convert", at / "x.safetensors", at / "ao.safetensors", "--to", to, "--profile", "torchao", "--quiet", "--force")
        ours = load_file(at / "ao.safetensors")
        theirs = MXTensor.to_mx(x, element, 32)
        same(ours[codes].view(torch.uint8), theirs.qdata.view(torch.uint8), f"torchao {to}: codes")
        same(ours["l.weight_scale"], theirs.scale.view(torch.uint8), f"torchao {to}: scales")
        print(f"equal: {to} of torchao")


def modelopt(at):
    """Its quantised tensors: what we write, dequantised by it; the scales that it finds, found by us (and its codes of NVFP4); and what it writes, read by us."""
    if not package("modelopt.torch.quantization.qtensor"):
        return
    from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor

    torch.manual_seed(5)
    x = torch.randn(96, 128, dtype=torch.bfloat16) * 0.02
    save_file({"l.weight": x}, at / "x.safetensors")
    # No profile has the steps by which it quantises with one scale per tensor: those codes are ours, rounded once.
    for to, making, profile in [("modelopt-nvfp4", "modelopt", "modelopt"), ("modelopt-fp8", "lanecast", "f32")]:
        made, back = at / f"{to}.safetensors", at / f"{to}.back.safetensors"
        # In one file float8 has the names of another layout, and the same meaning.
        source = ["--from", to] if to == "modelopt-nvfp4" else []
        run("convert", at / "x.safetensors", made, "--to", to, "--profile", making, "--quiet")
        run("convert", made, back, *source, "--to", "f32", "--profile", profile, "--quiet")
        ours = load_file(made)
        codes, scale = ours["l.weight"], ours["l.weight_scale"]
        if to == "modelopt-nvfp4":
            factor = ours["l.weight_scale_2"]
            how = {"block_sizes": {-1: 16}}
            theirs = NVFP4QTensor(x.shape, x.dtype, codes).dequantize(torch.float32, scale=scale, double_scale=factor, **how)
            found, scales, factors = NVFP4QTensor.quantize(x, 16)
            same(scales, scale, f"{to}: scales of theirs")
            same(factors.reshape(factor.shape), factor, f"{to}: factors of theirs")
            same(found._quantized_data, codes, f"{to}: codes of theirs")
            written = {"l.weight": found._quantized_data, "l.weight_scale": scales, "l.weight_scale_2": factors}
            read = found.dequantize(torch.float32, scale=scales, double_scale=factors, **how)
        else:
            theirs = FP8QTensor(x.shape, x.dtype, codes).dequantize(torch.float32, scale=scale)
            found, scales = FP8QTensor.quantize(x.float())
            same(scales.reshape(scale.shape), scale, f"{to}: scales of theirs")
            written = {"l.weight": found._quantized_data, "l.weight_scale": scales}
            read = found.dequantize(torch.float32, scale=scales)
        same(theirs, load_file(back)["l.weight"], f"{to}: dequantised")
        save_file({k: v.contiguous() for k, v in written.items()}, at / "theirs.safetensors")
        run("convert", at / "theirs.safetensors", at / "read.safetensors", *source, "--to", "f32", "--profile", profile, "--quiet", "--force")
        same(read, load_file(at / "read.safetensors")["l.weight"], f"{to}: of theirs")
        print(f"equal: {to}: scales, and both ways")


with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
    warnings.simplefilter("ignore")
    place = Path(place)
    if package("transformers"):
        models(place)
        gpt_oss(place)
    packed(place)
    awq(place)
    comfy(place)
    ao(place)
    modelopt(place)
print("NOT RUN:", *skipped, sep="\n    ") if skipped else print("all packages were there")
