"""What `lanecast` writes, loaded by the packages whose layouts these are, and what they write, read by `lanecast`.

    python tests/packages.py target/debug/lanecast

Loaded by: transformers (float8 of blocks, gpt-oss), compressed-tensors by way of transformers, comfy-kitchen, torchao, ModelOpt. Read from: the same,
GPTQModel, and the layers of AutoGPTQ and AutoAWQ, the rest of which needs an older transformers. Models are tiny and random. A package that is not there is skipped, and said so; one that is there and disagrees fails.
"""

import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

PROGRAM = Path(sys.argv[1]).resolve()
skipped = []


@contextlib.contextmanager
def quiet():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def package(name, bare=False):
    """A module, or None. `bare`: without what its package does when it is imported."""
    try:
        first = name.split(".")[0]
        found = importlib.util.find_spec(first) if bare else None
        if found and first not in sys.modules:
            sys.modules[first] = types.ModuleType(first)
            sys.modules[first].__path__ = list(found.submodule_search_locations)
        with quiet():
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


def codes(bits, inputs, outputs, group, least=0):
    """Codes, zero points and scales as AutoGPTQ and AutoAWQ take them, with the layer that has these values."""
    random = lambda least, *shape: torch.randint(least, 2**bits, shape).float()
    codes, zeros = random(0, inputs, outputs), random(least, inputs // group, outputs)
    scales = (torch.rand(inputs // group, outputs) / 10 + 0.01).half().float()
    return codes, zeros, scales


def layer(codes, zeros, scales, order):
    linear = torch.nn.Linear(*codes.shape, bias=False)
    linear.weight.data = ((codes - zeros[order]) * scales[order]).T.contiguous()
    return linear


def converted(at, tensors, config, name="model.layers.0.mlp.up_proj"):
    """What `convert` makes of a layer, in float16, and in float32, which holds the products exactly."""
    src, dst = at / "layer", at / "layer-plain"
    src.mkdir(exist_ok=True)
    save_file({f"{name}.{part}": t.contiguous() for part, t in tensors.items()}, src / "model.safetensors")
    (src / "config.json").write_text(json.dumps({"quantization_config": config}))
    both = []
    for to in ("f16", "f32"):
        run("convert", src, dst, "--to", to, "--quiet", "--force")
        both.append(all_tensors(dst)[f"{name}.weight"])
    return both


def auto_awq(at):
    """What AutoAWQ packs is read to the bits that it dequantises to."""
    it = package("awq.modules.linear.gemm", bare=True)
    if not it:
        return
    from awq.utils.packing_utils import dequantize_gemm

    torch.manual_seed(0)
    for inputs, outputs, group in ((256, 64, 128), (512, 96, 64), (128, 4096, 32), (1024, 160, 1024)):
        parts = codes(4, inputs, outputs, group)
        linear = layer(*parts, torch.arange(inputs) // group)
        made = it.WQLinear_GEMM.from_linear(linear, 4, group, scales=parts[2], zeros=parts[1])
        theirs = dequantize_gemm(made.qweight, made.qzeros, made.scales, 4, group).T.contiguous()
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
        ours, exact = converted(at, made.state_dict(), config)
        same(ours, theirs, f"AutoAWQ: {inputs} inputs")
        same(exact, linear.weight, f"AutoAWQ: {inputs} inputs, exact")
    print("equal: awq: 4 layers of AutoAWQ")


def auto_gptq(at):
    """What AutoGPTQ packs is read to the bits that it multiplies by. (Where a zero point is 0, it packs all that follow wrong.)"""
    it = package("auto_gptq.nn_modules.qlinear.qlinear_cuda", bare=True)
    if not it:
        return
    torch.manual_seed(0)
    n = 0
    for bits, group, symmetric, sorted_ in itertools.product((2, 3, 4, 8), (32, 128, -1), (True, False), (True, False)):
        inputs, outputs = 384, 160
        length = inputs if group == -1 else group
        values, zeros, scales = codes(bits, inputs, outputs, length, least=1)
        if symmetric:
            zeros = torch.full_like(zeros, 2 ** (bits - 1))
        order = (torch.arange(inputs) // length).to(torch.int32)
        if not sorted_:
            order = order[torch.randperm(inputs)]
        linear = layer(values, zeros, scales, order.long())
        made = it.QuantLinear(bits, group, inputs, outputs, bias=False)
        made.pack(linear, scales.T.clone(), zeros.T.clone(), order)
        made.scales = made.scales.half()
        theirs = made(torch.eye(inputs, dtype=torch.float16)).T.contiguous()
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "desc_act": not sorted_}
        what = f"AutoGPTQ: {bits} bits of {group}"
        ours, exact = converted(at, made.state_dict(), config)
        same(ours, theirs, what)
        same(exact, linear.weight, f"{what}, exact")
        n += 1
    print(f"equal: gptq: {n} layers of AutoGPTQ")


def gptqmodel(at):
    """What GPTQModel quantises and saves is read to the bits that it multiplies by when it has loaded that, in float16. Where no zero point
    borrows, that is what its dequantize_model makes of it, too, in every dtype."""
    # (Of two cores it would take one, and then want two.)
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
    it = package("gptqmodel")
    if not it:
        return
    from gptqmodel.utils.model_dequant import dequantize_model
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(6)
    source = at / "gptqmodel-source"
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        head_dim=32, vocab_size=320, max_position_embeddings=512, tie_word_embeddings=False,
    ))
    for name, weight in model.named_parameters():
        if "proj" in name:
            # Weights of one sign have the least and the largest zero point.
            weight.data[5].abs_()
            weight.data[9].abs_().neg_()
            weight.data[16].abs_()
    with quiet():
        model.half().save_pretrained(source)
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(320)}, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", pad_token="t1", eos_token="t2", bos_token="t3").save_pretrained(source)
    tokens = [{"input_ids": torch.randint(0, 320, (256,)).tolist(), "attention_mask": [1] * 256} for _ in range(4)]

    def make(saved, backend, **options):
        with quiet():
            quantised = it.GPTQModel.load(str(source), it.QuantizeConfig(device="cpu", offload_to_disk=False, **options))
            quantised.quantize(tokens, batch_size=1, backend=backend)
            quantised.save(str(saved))

    def compare(saved, backend, borrows=False, whole=True):
        with quiet():
            loaded = it.GPTQModel.load(str(saved), backend=backend, device="cpu", dtype=torch.float16)
        theirs = {f"{name}.weight": m for name, m in loaded.model.named_modules() if hasattr(m, "qweight")}
        ours, different = {}, 0
        for to, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
            run("convert", saved, at / "ours", "--to", to, "--quiet", "--force")
            ours[to] = all_tensors(at / "ours")
            if not whole:
                continue
            with quiet():
                dequantize_model(str(saved), str(at / f"{saved.name}-{to}"), target_dtype=dtype)
            of_model = all_tensors(at / f"{saved.name}-{to}")
            assert sorted(ours[to]) == sorted(of_model), (saved.name, set(ours[to]) ^ set(of_model))
            for name, value in ours[to].items():
                if name in theirs and borrows:
                    different += (value != of_model[name]).sum().item()
                else:
                    same(value, of_model[name], f"{saved.name}, {to}: {name}")
        for name, module in theirs.items():
            with torch.no_grad():
                served = module(torch.eye(module.in_features, dtype=torch.float16)).T.contiguous()
            same(ours["f16"][name], served, f"{saved.name}: {name}")
            for to in ("f16", "bf16"):
                same(ours[to][name], ours["f32"][name].to(ours[to][name].dtype), f"{saved.name}: {name}, rounded once")
        return len(theirs), different

    torch_, awq_ = it.BACKEND.GPTQ_TORCH, it.BACKEND.AWQ_TORCH
    n, borrowed, orders = 0, 0, 0
    for bits, symmetric, form in itertools.product((2, 3, 4, 8), (True, False), ("gptq", "gptq_v2")):
        for group, order in ((32, "act"), (128, "groups"), (-1, None)):
            saved = at / f"gptqmodel-{bits}-{symmetric}-{form}-{group}-{order}"
            # (One of these alone may be set.)
            orders_by = {"desc_act": True} if order == "act" else {"desc_act": False, "act_group_aware": order == "groups"}
            make(saved, torch_, bits=bits, sym=symmetric, format=form, group_size=group, **orders_by)
            borrows = not symmetric and form == "gptq" and bits != 3
            layers, different = compare(saved, torch_, borrows)
            n, borrowed = n + layers, borrowed + different
            groups = [t for name, t in all_tensors(saved).items() if name.endswith("g_idx")]
            orders += any((t.diff() < 0).any().item() for t in groups)
    assert borrowed and orders >= 16, (borrowed, orders)
    # Configured by the file of its own alone, and with other bits in some layers.
    saved = at / "gptqmodel-dynamic"
    make(saved, torch_, bits=4, group_size=32, dynamic={"+:.*up_proj": {"bits": 8}, "-:.*down_proj": {}})
    # (Its dequantize_model takes all layers for those of the same bits.)
    n += compare(saved, torch_, whole=False)[0]
    config = json.loads((saved / "config.json").read_text())
    own = json.loads((saved / "quantize_config.json").read_text())
    assert config.pop("quantization_config")["bits"] == own["bits"] == 4
    before = all_tensors(at / "ours")
    (saved / "config.json").write_text(json.dumps(config))
    run("convert", saved, at / "ours", "--to", "bf16", "--quiet", "--force")
    for name, value in all_tensors(at / "ours").items():
        same(value, before[name], f"by quantize_config.json: {name}")
    print(f"equal: gptq: {n} layers of GPTQModel; where zero points borrow, its dequantize_model differs from its loader")
    saved = at / "gptqmodel-awq"
    make(saved, awq_, bits=4, group_size=32, quant_method="awq", format="gemm", sym=False)
    # (Its dequantize_model leaves columns in the order in which AWQ packs them.)
    print(f"equal: awq: {compare(saved, awq_, whole=False)[0]} layers of GPTQModel")


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


def experts(at):
    """A model of experts, which files have one by one and transformers as one module: what it makes of each layout, beside `convert --to bf16`. The
    program warns of those that do not load, or for other numbers (plan.rs); where this changes, so must the warning."""
    from transformers import CompressedTensorsConfig, FineGrainedFP8Config, Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(6)
    source = at / "experts"
    config = Qwen3MoeConfig(
        hidden_size=256, intermediate_size=256, moe_intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=64, vocab_size=320, num_experts=4, num_experts_per_tok=2, max_position_embeddings=64, tie_word_embeddings=False,
    )
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(source)
    fp8 = FineGrainedFP8Config(dequantize=True)
    cases = [("fp8-block", fp8)]
    if package("compressed_tensors"):
        ct = CompressedTensorsConfig(dequantize=True)
        cases += [(to, ct) for to in ["fp8-channel", "fp8-tensor", "mxfp4", "int4-group", "nvfp4", "mxfp8", "int8-channel"]]
    for to, how in cases:
        at_to, profile = at / f"experts-{to}", "f32" if to in ["fp8-block", "nvfp4"] else "compressed-tensors"
        done = subprocess.run([PROGRAM, "convert", source, at_to, "--to", to, "--quiet"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        run("convert", at_to, at / f"{at_to.name}-bf16", "--to", "bf16", "--profile", profile, "--quiet")
        ours = dict(load(at / f"{at_to.name}-bf16").named_parameters())
        loads, others = True, []
        try:
            with quiet():
                theirs = dict(load(at_to, quantization_config=how).named_parameters())
            assert sorted(ours) == sorted(theirs), (to, set(ours) ^ set(theirs))
            others = [name for name, value in ours.items() if not torch.equal(value, theirs[name].to(torch.bfloat16))]
        except RuntimeError as error:
            assert "conversion of the weights" in str(error), (to, error)
            loads = False
        is_right = loads and not others
        assert is_right == ("experts of" not in done.stderr), (to, loads, others, done.stderr)
        assert loads == ("does not load" not in done.stderr), (to, done.stderr)
        assert all("experts" in name for name in others), (to, others)
        print(f"experts: {to}: {'equal' if is_right else 'other numbers' if loads else 'not loaded'}, as the program says")


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
        experts(place)
    packed(place)
    awq(place)
    auto_awq(place)
    auto_gptq(place)
    comfy(place)
    ao(place)
    modelopt(place)
    # (Last, for it replaces functions of others.)
    gptqmodel(place)
print("NOT RUN:", *skipped, sep="\n    ") if skipped else print("all packages were there")
