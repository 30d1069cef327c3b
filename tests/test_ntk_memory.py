"""Blocks, plans and the memory that they may take."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from momentron.data.arguments import parse_size  # noqa: E402
from momentron.errors import InputError  # noqa: E402
from momentron.ntk import EmpiricalNTK  # noqa: E402
from momentron.ntk.memory_plan import KernelShape, format_memory, make_plan  # noqa: E402
from momentron.ntk.model_structure import examine  # noqa: E402
from paper.networks import alexnet  # noqa: E402
from tests.architectures import cut_plans, one_torch_thread  # noqa: E402, F401


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Linear(20, 3)).double()


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(12, 8))


def least_memory(ntk, X):
    with pytest.raises(InputError, match="one pair of examples takes; pass a larger") as error:
        ntk(X, max_memory="1KB")
    return re.search(r"below the (\S+) that", str(error.value))[1]


@pytest.mark.parametrize("max_memory", ["1.05MB", "1.2MB", "2MB", 10**9])
def test_any_memory_gives_the_same(model, X, max_memory):
    ntk = EmpiricalNTK(model)
    expected = ntk(X)
    assert np.allclose(ntk(X, max_memory=max_memory), expected, rtol=1e-12)
    assert np.allclose(ntk(X[:5], X[5:], max_memory=max_memory), expected[:5, 5:], rtol=1e-12)
    assert np.allclose(ntk.diagonal(X, max_memory=max_memory), np.diag(expected), rtol=1e-12)


@pytest.mark.parametrize("factored", [True, False])
def test_outputs_that_do_not_divide_into_equal_chunks(model, X, factored, monkeypatch):
    ntk = EmpiricalNTK(model)
    expected = ntk.per_output(X)
    cut_plans(monkeypatch, 5, 2, 2, factored)  # 2 of 3 outputs, then 1
    assert np.allclose(ntk.per_output(X), expected, rtol=1e-12)
    assert np.allclose(ntk.per_output(X[:5], X[5:]), expected[:5, 5:], rtol=1e-12)


def test_less_memory_means_more_blocks(model, X):
    few, many = [], []
    ntk = EmpiricalNTK(model)
    ntk(X, progress=few.append)
    ntk(X, max_memory=least_memory(ntk, X), progress=many.append)
    assert few == [1.0]
    assert len(many) > 3
    assert many == pytest.approx([(i + 1) / len(many) for i in range(len(many))])


def test_progress_of_every_sweep_ends_at_its_total(model, X):
    ntk = EmpiricalNTK(model)
    ntk.max_memory = least_memory(ntk, X)
    for sweep in (
        ntk,
        lambda X, **kw: ntk(X[:4], X[4:], **kw),
        ntk.diagonal,
        ntk.per_output,
        ntk.same_output,
        lambda X, **kw: ntk.matvec(X, X[:, 0], max_memory="2MB", **kw),
    ):
        steps = []
        sweep(X, progress=steps.append)
        assert steps == sorted(set(steps))
        assert steps[-1] == 1.0


def test_too_little_memory_is_refused_with_the_least(model, X):
    ntk = EmpiricalNTK(model)
    least = parse_size(least_memory(ntk, X))
    assert ntk(X, max_memory=least).shape == (12, 12)
    with pytest.raises(InputError, match="is below the"):
        ntk(X, max_memory=int(0.98 * least))


def test_plans_keep_to_the_memory_and_use_it():
    model = alexnet(10, width=8)
    anatomy = examine(model, torch.randn(4, 3, 32, 32))
    for limit in (10**7, 10**8, 10**9):
        for shape in (
            KernelShape(128, 128, symmetric=True),
            KernelShape(1000, 128),
            KernelShape(500, 0),
        ):
            plan = make_plan(anatomy, shape, 4, limit)
            assert plan.n_bytes <= 0.85 * limit
    costs = [
        make_plan(anatomy, KernelShape(1000, 128), 4, limit).cost for limit in (10**7, 10**8, 10**9)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


def test_forms_follow_the_cost():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.AdaptiveAvgPool2d(2))
    model = nn.Sequential(*layers, nn.Conv2d(8, 256, 2), nn.Flatten(), nn.Linear(256, 5))
    anatomy = examine(model, torch.randn(4, 3, 16, 16))
    plan = make_plan(anatomy, KernelShape(100, 100, symmetric=True), 4, 10**9)
    assert plan.factored == (False, True, True)  # 256 positions, 1, and 1


PEAK = """
import json, os, sys, torch
from tests.counters import peak_resident
from tests.networks import GPT
from momentron.ntk import EmpiricalNTK
from paper.networks import alexnet
torch.set_num_threads(1)
images = EmpiricalNTK(alexnet(width=32)), torch.randn(48, 3, 32, 32)
texts = EmpiricalNTK(GPT(layers=2).eval()), torch.randint(0, 64, (90, 32))
ways = {
    "kernel": lambda ntk, X, limit: ntk(X[:16], X[16:], max_memory=limit),
    "per output": lambda ntk, X, limit: ntk.per_output(X[:16], X[16:], max_memory=limit),
    "product": lambda ntk, X, limit: ntk.matvec(X, X[:, 0, 0, 0], max_memory=limit),
    "example by example": lambda ntk, X, limit: ntk(X, max_memory=limit),
}
for way, limit in json.loads(sys.argv[1]):
    ntk, X = texts if way == "example by example" else images
    if not os.fork():  # a process of its own, whose counters begin anew
        ntk(X[:2])  # what is loaded on first use
        before = peak_resident(reset=True)
        ways[way](ntk, X, limit)
        print(way, limit, peak_resident() - before, sep=",", flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, way
"""
LIMITED = [
    ("kernel", 30_000_000),
    ("kernel", 80_000_000),
    ("per output", 40_000_000),
    ("per output", 120_000_000),
    ("product", 100_000_000),
    ("product", 200_000_000),
    ("example by example", 60_000_000),
    ("example by example", 200_000_000),
]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's counters")
def test_peak_memory_is_within_the_limit():
    """The network has 5 million parameters, and all its gradients of 48 images take 10 GB."""
    command = [sys.executable, "-c", PEAK, json.dumps(LIMITED)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert [(way, int(limit)) for way, limit, _ in lines] == LIMITED
    for way, limit, peak in lines:
        result = 8 * 16 * 32 * 100 if way == "per output" else 0
        assert 0.2 * int(limit) < int(peak) <= 1.2 * int(limit) + result, (way, limit, peak)


@pytest.mark.parametrize(
    ("size", "n_bytes"),
    [("256MB", 256_000_000), ("2 gb", 2 * 10**9), ("1.5KiB", 1536), ("17", 17), (np.int64(5), 5)],
)
def test_sizes_of_memory(size, n_bytes):
    assert parse_size(size) == n_bytes


@pytest.mark.parametrize("size", ["lots", "-1GB", "", "GB", "1.2.3MB", "5 XB", 1.5, True, None])
def test_what_is_no_size_of_memory(size):
    with pytest.raises(InputError, match="must be a positive number of bytes, or a text like"):
        parse_size(size)


@pytest.mark.parametrize("size", [0, -5, "0MB", "0.1B"])
def test_memory_below_one_byte(size):
    with pytest.raises(InputError, match="must be a positive number of bytes"):
        parse_size(size)


def test_bad_memory_is_refused_at_once(model):
    with pytest.raises(InputError, match="max_memory='some'"):
        EmpiricalNTK(model, max_memory="some")


@pytest.mark.parametrize("n_bytes", [1, 999, 1001, 256_000_000, 1_234_567_891])
def test_memory_is_printed_as_no_less(n_bytes):
    assert n_bytes <= parse_size(format_memory(n_bytes)) <= 1.01 * n_bytes
