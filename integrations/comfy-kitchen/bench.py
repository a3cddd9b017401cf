"""Times of comfy-kitchen's own functions on the CPU (eager) and of lanecast.comfy, in turns, on one thread: theirs by ours."""

import time

import comfy_kitchen as kitchen
import torch

import lanecast.comfy as ours

torch.set_num_threads(1)
theirs = kitchen.backends.eager


def ratio(name, *arguments):
    """How many times as fast ours is: the least times of interleaved runs, by the clock of the thread."""
    functions = [getattr(theirs, name), getattr(ours, name)]
    best, count = [float("inf")] * 2, 1
    for turn in range(12):
        for i, function in enumerate(functions):
            start = time.thread_time()
            for _ in range(count):
                function(*arguments)
            taken = (time.thread_time() - start) / count
            best[i] = min(best[i], taken) if turn else taken
        count = max(1, min(100, int(2e-3 / max(*best, 1e-6))))
    return best[0] / best[1]


shapes = ((64, 64), (128, 256), (256, 256), (1024, 1024))
print("| function | floats | " + " | ".join(f"{rows * columns:,} elements" for rows, columns in shapes) + " |")
print("| --- | --- |" + " ---: |" * len(shapes))
scale = torch.tensor(0.37)
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    rows = {name: [] for name in ours.FUNCTIONS}
    for shape in shapes:
        x = torch.randn(shape).to(dtype)
        eights = theirs.quantize_per_tensor_fp8(x, scale)
        rows["quantize_per_tensor_fp8"].append(ratio("quantize_per_tensor_fp8", x, scale))
        rows["quantize_mxfp8"].append(ratio("quantize_mxfp8", x))
        rows["dequantize_per_tensor_fp8"].append(ratio("dequantize_per_tensor_fp8", eights, scale, dtype))
        rows["quantize_nvfp4"].append(ratio("quantize_nvfp4", x, scale))
        packed, scales = theirs.quantize_nvfp4(x, scale)
        rows["dequantize_nvfp4"].append(ratio("dequantize_nvfp4", packed, scale, scales, dtype))
        packed, scales = theirs.quantize_mxfp8(x)
        rows["dequantize_mxfp8"].append(ratio("dequantize_mxfp8", packed, scales, dtype))
    for name, found in rows.items():
        print(f"| `{name}` | {str(dtype).removeprefix('torch.')} | " + " | ".join(f"{value:.2f}" for value in found) + " |", flush=True)
