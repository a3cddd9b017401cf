"""lanecast.convert, and the same on a Dask cluster: what comes back, what is raised, and that the bytes are those of one process."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast._convert import _as_keywords, _words

safetensors = pytest.importorskip("safetensors.numpy")


def checkpoint(at: Path, files: int, rows: int = 64) -> None:
    at.mkdir()
    random = np.random.default_rng(1)
    places = {}
    for i in range(1, files + 1):
        file = f"model-{i:05}-of-{files:05}.safetensors"
        name = f"layers.{i}.up_proj.weight"
        safetensors.save_file({name: random.standard_normal((rows, 512), dtype=np.float32)}, at / file)
        places[name] = file
    (at / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (at / "config.json").write_text('{"torch_dtype": "float32"}')


def contents(at: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in at.iterdir()}


def test_modules_of_the_working_directory_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path / "-src", 1)
    (tmp_path / "numpy.py").write_text("raise SystemExit('numpy.py was run')")
    monkeypatch.chdir(tmp_path)
    assert len(lanecast.inspect("-src")["tensors"]) == 1


def test_convert_reports_and_raises(tmp_path: Path) -> None:
    checkpoint(tmp_path / "src", 2, rows=128)
    seen: list[tuple[int, int, str]] = []
    report = lanecast.convert(tmp_path / "src", tmp_path / "dst", to="bf16", progress=lambda *now: seen.append(now))
    assert (report.src_layout, report.dst_layout, report.tensors["converted"]) == ("f32", "bf16", 2)
    assert 2**-10 < report.max_rel_error <= 2**-8
    assert [file["sha256"] for file in report.files] == [
        hashlib.sha256((tmp_path / "dst" / file["name"]).read_bytes()).hexdigest() for file in report.files
    ]
    assert len(seen) == 2 and seen[-1][0] <= seen[-1][1] and seen[-1][2].endswith(".safetensors")
    for called, raised in [(lambda *_: 1 / 0, ZeroDivisionError), (lambda *_: False, lanecast.Cancelled)]:
        with pytest.raises(raised):
            lanecast.convert(tmp_path / "src", tmp_path / "stopped", to="bf16", force=True, progress=called)
    # A dtype may be NumPy's. A file that is complete is not stopped.
    one = next((tmp_path / "src").glob("*.safetensors"))
    lanecast.convert(one, tmp_path / "one.safetensors", to=np.float16, progress=lambda *_: False)
    assert lanecast.inspect(tmp_path / "one.safetensors")["layout"] == "f16"
    assert lanecast.ConvertError.__module__ == "lanecast"
    place: Any
    for place in (os.fsencode(tmp_path / "src"), None, 3):
        for call in (lambda: lanecast.convert(place, tmp_path / "other", to="bf16"), lambda: lanecast.inspect(place)):
            with pytest.raises(TypeError, match="it must be a str or a path, such as a pathlib.Path"):
                call()
    for wrong in ({"progress": 3}, {"keep": b"*norm*"}, {"keep": memoryview(b"*norm*")}):
        with pytest.raises(TypeError, match="^(progress is 3|keep is (b'\\*norm\\*'|<memory at 0x.*>)); it must be "):
            lanecast.convert(tmp_path / "src", tmp_path / "other", to="bf16", **wrong)
    assert not (tmp_path / "other").exists()
    with pytest.raises(lanecast.ConvertError, match="exists") as refused:
        lanecast.convert(tmp_path / "src", tmp_path / "dst", to="bf16")
    assert refused.value.kind == "refused" and "force=True" in str(refused.value.help)
    with pytest.raises(lanecast.ConvertError, match="did you mean"):
        lanecast.convert(tmp_path / "src", tmp_path / "other", to="fp8-blok")
    with pytest.raises(lanecast.ConvertError, match="unexpected argument 'no_such_option=' found$"):
        lanecast.convert(tmp_path / "src", tmp_path / "other", to="bf16", no_such_option=1)
    with pytest.raises(lanecast.ConvertError) as limit:
        lanecast.convert(tmp_path / "src", tmp_path / "fp8", to="fp8-block", max_rel_error=1e-3, keep={"*layers.2*"})
    assert limit.value.kind == "limit" and limit.value.report is not None
    assert limit.value.report.tensors["converted"] == 1
    assert lanecast.inspect(tmp_path / "fp8")["layout"] == "fp8-block"
    assert lanecast.verify(tmp_path / "src", tmp_path / "dst", as_="bf16")["equal"]
    assert not lanecast.verify(tmp_path / "src", tmp_path / "dst")["equal"]


def test_errors_name_options_as_they_are_given(tmp_path: Path) -> None:
    checkpoint(tmp_path / "src", 1)
    assert _words({"fuse": np.False_, "force": False, "dry_run": True}) == ["--fuse=off", "--dry-run"]
    for options, said in [
        ({"from_": "comfy-fp8"}, r"^from_='comfy-fp8': the tensors are f32 \(leave from_= out, or name a layout that the tensors have\)$"),
        ({"group_size": 32}, r"^group_size=32: to='bf16' has no groups of a chosen size \(only int4-group and int8-group have: to='int4-group'\)$"),
        ({"drop": ["*"]}, "or drop= matches all of them"),
        ({"kep": ["x"]}, r"^unexpected argument 'kep=' found \(a similar argument exists: 'keep='\)$"),
        ({"group_size": "x"}, "^group_size is 'x'; it must be an integer, 0 or more$"),
        ({"threads": -1}, "^threads is '-1'; it must be an integer, 0 or more$"),
        ({"fuse": "perhaps"}, "^fuse is 'perhaps'; it must be one of on, off$"),
        ({"resume": "x"}, "^resume is 'x'; it must be True or one of "),
        ({"to": "awq"}, "^to='awq': this layout is read, but not written"),
        ({"to": "bool"}, "^to='bool': not a float"),
        ({"memory": "many"}, "^memory='many': not a size"),
        ({"max_rel_error": -1}, "^max_rel_error is '-1'; "),
        ({"force": 1}, "^force is '1'; it must be True or False$"),
        ({"group_size": True}, "^a value is required for 'group_size=' but none was supplied$"),
        ({"memory": "1G", "rank": 3, "of": 2}, "^rank=3: ranks count from 0, and are less than of=2$"),
    ]:
        with pytest.raises(lanecast.ConvertError, match=said):
            lanecast.convert(tmp_path / "src", tmp_path / "dst", **{"to": "bf16", **options})


def test_errors_name_places_as_they_are_given(tmp_path: Path) -> None:
    checkpoint(tmp_path / "SRC", 1)
    checkpoint(tmp_path / "DST", 1)
    file = next((tmp_path / "SRC").glob("*.safetensors"))
    for src, options, said in [
        (file, {}, rf"^src {re.escape(str(file))} is a file, but dst {re.escape(str(tmp_path / 'DST'))} is a directory \("),
        (file, {"shard_size": "1G"}, "^shard_size=: src is a single file "),
        (tmp_path / "SRC", {"drop": ["*"]}, "^no tensor would be written: src has none, or drop= matches all of them "),
    ]:
        with pytest.raises(lanecast.ConvertError, match=said):
            lanecast.convert(src, tmp_path / ("b.safetensors" if options else "DST"), to="bf16", **options)
    for text in ("/a/SRC/b", "DST.safetensors", "the tensor 'SRC'", "SRC-1", "a.DST"):
        assert _as_keywords(text) == text
    assert _as_keywords("writes beside DST. It reads SRC, twice") == "writes beside dst. It reads src, twice"


def test_problems_name_options_as_they_are_given(tmp_path: Path) -> None:
    tensors = {"a.weight": np.zeros((2, 4), np.uint8), "a.weight_scale": np.ones((2, 1), np.float32)}
    safetensors.save_file({**tensors, "b.weight": np.zeros((2, 4), np.uint8)}, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b'"U8"', b'"F8_E4M3"').rstrip()
    header += b" " * (-len(header) % 8)
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    problems = lanecast.inspect(tmp_path / "a.safetensors")["problems"]
    assert [problem["tensor"] for problem in problems] == ["b.weight"] and problems[0]["message"]
    assert "copy='b.weight'" in problems[0]["help"] and "--" not in problems[0]["help"]


def test_nan_among_weights_is_a_warning_or_an_error(tmp_path: Path) -> None:
    weights = np.ones((128, 128), np.float32)
    weights[3, 5] = np.nan
    safetensors.save_file({"layers.0.up_proj.weight": weights}, tmp_path / "a.safetensors")
    with pytest.warns(UserWarning, match=r"^NaN or Inf among the weights: .*\(fail_on='nan,inf,saturated' makes that an error\)$"):
        lanecast.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", to="fp8-block")
    with pytest.warns(UserWarning, match="NaN or Inf"), pytest.raises(lanecast.ConvertError) as caught:
        lanecast.convert(tmp_path / "a.safetensors", tmp_path / "c.safetensors", to="fp8-block", fail_on="nan,inf,saturated")
    assert caught.value.kind == "limit" and caught.value.report is not None


def test_bools_of_numpy_are_bools(tmp_path: Path) -> None:
    checkpoint(tmp_path / "src", 1)
    plan: dict[str, Any] = {"to": "bf16", "dry_run": np.True_, "force": np.False_}
    assert lanecast.convert(tmp_path / "src", tmp_path / "dst", **plan).tensors["converted"] == 1
    assert not (tmp_path / "dst").exists()
    stopped: Any = lambda *_: np.False_  # noqa: E731
    with pytest.raises(lanecast.Cancelled, match="progress returned False after"):
        lanecast.convert(tmp_path / "src", tmp_path / "dst", to="bf16", progress=stopped)


def test_errors_are_pickled() -> None:
    with pytest.raises(lanecast.ConvertError) as caught:
        lanecast.inspect("no such file.safetensors")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (lanecast.ConvertError, str(caught.value))
    assert (again.kind, again.help) == ("refused", caught.value.help) and again.help


def test_warnings_of_the_program_are_pythons(tmp_path: Path) -> None:
    checkpoint(tmp_path / "src", 1)
    with pytest.warns(UserWarning, match="keep='nothing' matches no tensor"):
        lanecast.convert(tmp_path / "src", tmp_path / "dst", to="bf16", keep=["nothing"])
    with pytest.warns(UserWarning, match="matches no tensor"), pytest.raises(lanecast.ConvertError, match="beyond the limit: a rel"):
        lanecast.convert(tmp_path / "src", tmp_path / "limit", to="bf16", keep=["nothing"], max_rel_error=1e-9)


def test_a_damaged_file_names_its_tensor(tmp_path: Path) -> None:
    tensors = {"l.weight": np.zeros((2, 4), np.uint8), "l.weight_scale": np.ones(4, np.float32)}
    safetensors.save_file(tensors, tmp_path / "a.safetensors")
    # NumPy has no float8 of safetensors: the header says so, and has the same length.
    data = (tmp_path / "a.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b'"U8"', b'"F8_E4M3"').rstrip()
    header += b" " * (-len(header) % 8)
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    with pytest.raises(lanecast.ConvertError) as error:
        lanecast.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", to="bf16")
    assert error.value.tensor == "l.weight" and error.value.help


def test_the_program_is_there(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("lanecast")
    done = subprocess.run([script, "info", "--json"], capture_output=True, text=True, check=True)
    assert "fp8-block" in json.loads(done.stdout)["layouts"]


def test_ctrl_c_ends_the_program() -> None:
    script = Path(sys.executable).with_name("lanecast")
    with subprocess.Popen([script, "bench"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert running.wait(60) == -signal.SIGINT and time.monotonic() - began < 2


@pytest.mark.filterwarnings("ignore")  # of distributed, about workers that are gone
def test_a_cluster_makes_the_bytes_of_one_process(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import lanecast.dask

    checkpoint(tmp_path / "src", 9, rows=2048)
    one = lanecast.convert(tmp_path / "src", tmp_path / "one", to="fp8-block", threads=1)
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            killed: list[int] = []

            def progress(done: int, files: int) -> None:
                # One worker is lost, with the process that is in the middle of a file for it.
                if not killed:
                    busy = [address for address, keys in client.processing().items() if keys]
                    pids = {address: info["pid"] for address, info in client.run(lambda: {"pid": os.getpid()}).items()}
                    pid = pids[(busy or list(pids))[0]]
                    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if sys.platform == "linux" else []
                    tasks = Path(f"/proc/{pid}/task").iterdir() if sys.platform == "linux" else []
                    children += [child for task in tasks for child in (task / "children").read_text().split()]
                    for victim in [*map(int, children), pid]:
                        try:
                            os.kill(victim, signal.SIGKILL)
                        except ProcessLookupError:
                            pass
                    killed.append(pid)

            made = lanecast.dask.convert(
                tmp_path / "src", tmp_path / "many", to="fp8-block", client=client, progress=progress, threads=1
            )
            assert killed
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
    assert made.files == one.files and made.max_rel_error == one.max_rel_error


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_takes_the_options_of_one_process(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import lanecast.dask

    checkpoint(tmp_path / "src", 3, rows=64)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:

            def convert(src: str, dst: str, **options: Any) -> Any:
                return lanecast.dask.convert(tmp_path / src, tmp_path / dst, client=client, **options)

            file = sorted((tmp_path / "src").glob("*.safetensors"))[0].name
            for options in ({}, {"force": True}):
                made = convert(f"src/{file}", "one.safetensors", to="bf16", **options)
                assert len(made.files) == 1 and (tmp_path / "one.safetensors").exists()
            for options in ({}, {}, {"resume": True}, {"dry_run": True}):
                assert len(convert("src", "dst", to="bf16", **options).files) == 3
            with pytest.raises(lanecast.ConvertError, match="made by another conversion") as caught:
                convert("src", "dst", to="f16")
            assert caught.value.kind == "refused"
            convert("src", "dst", to="f16", force=True)
            lanecast.convert(tmp_path / "src", tmp_path / "alone", to="f16")
            assert contents(tmp_path / "dst") == contents(tmp_path / "alone")
            with pytest.raises(lanecast.Cancelled, match="after 1 of 3 files"):
                convert("src", "stopped", to="f16", progress=lambda done, files: False)
            convert("src", "stopped", to="f16", resume=True)
            assert contents(tmp_path / "stopped") == contents(tmp_path / "alone")
            # What a run by another plan has left in part.
            lanecast.convert(tmp_path / "src", tmp_path / "part", to="bf16", rank=0, of=2)
            convert("src", "part", to="f16", force=True)
            assert contents(tmp_path / "part") == contents(tmp_path / "alone")
            with pytest.raises(lanecast.ConvertError, match="one.safetensors exists"):
                convert(f"src/{file}", "one.safetensors", to="bf16")

            class Twice:
                """Runs each task again, as if its worker had been lost at its end."""

                def submit(self, *call: Any, **options: Any) -> Any:
                    client.submit(*call, **options).result()
                    return client.submit(*call, **options)

            made = lanecast.dask.convert(tmp_path / "src" / file, tmp_path / "two.safetensors", to="bf16", client=Twice())
            assert len(made.files) == 1


def test_without_a_python_there_is_no_program(tmp_path: Path) -> None:
    """The program runs in a process of its own, by the Python of this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", "")
        with pytest.raises(lanecast.ConvertError, match="with the Python at sys.executable, which is ''"):
            lanecast.inspect(tmp_path)
