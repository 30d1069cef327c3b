"""What a tangent kernel refuses to choose from, the arrays that it returns, and its reprs."""

import re
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from momentron.errors import InputError  # noqa: E402
from momentron.ntk import EmpiricalNTK, KernelTracker  # noqa: E402
from tests.architectures import one_torch_thread  # noqa: E402, F401

K = 3


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, K)).double()


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(7, 4))


@pytest.mark.parametrize("outputs", [K, -K - 1, [0, K], 1.5, [0, 1.0], True, [True], ["0"]])
def test_outputs_that_are_none(model, X, outputs):
    with pytest.raises(InputError, match="must be whole numbers; the model has 3 outputs, from 0"):
        EmpiricalNTK(model, outputs=outputs)(X)


@pytest.mark.parametrize("outputs", [[], [0, 0], [0, -K], slice(K, None), slice(2, 1)])
def test_outputs_chosen_never_or_twice(model, X, outputs):
    with pytest.raises(InputError, match="must choose at least 1 of 3 outputs, each once"):
        EmpiricalNTK(model, outputs=outputs).per_output(X)


def test_outputs_in_any_form_are_alike(model, X):
    whole = EmpiricalNTK(model).per_output(X)
    for outputs in (slice(1, None), [1, 2], (1, -1), range(1, 3), np.array([1, 2])):
        found = EmpiricalNTK(model, outputs=outputs).per_output(X)
        assert np.allclose(found, whole[:, :, 1:, 1:], rtol=1e-13)
    once = EmpiricalNTK(model, outputs=iter([1, 2]), parameters=iter(["0", "2"]))
    for _ in range(2):  # what can be read once only is kept
        assert np.allclose(once.per_output(X), whole[:, :, 1:, 1:], rtol=1e-13)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("3", "parameters='3' matches none of the trained parameters"),
        (["0.weight", "1.weight"], "parameters='1.weight' matches none"),
        ([], "parameters is empty; a kernel needs at least 1, or None for all"),
        ([0], "parameters has 0; pass names, patterns or a function"),
        (lambda name, p: False, "chose none of the trained parameters"),
    ],
)
def test_parameters_that_are_none(model, X, parameters, words):
    with pytest.raises(InputError, match=re.escape(words)):
        EmpiricalNTK(model, parameters=parameters)(X)


def test_frozen_parameters_are_refused_by_name(model, X):
    model[0].requires_grad_(False)
    with pytest.raises(InputError, match="'0' matches frozen parameters only"):
        EmpiricalNTK(model, parameters="0")(X)
    only = EmpiricalNTK(model, parameters=["0", "2"])
    with pytest.raises(InputError, match="frozen parameters only"):
        only.matvec(X, X[:, 0])


@pytest.mark.parametrize(
    "dtype", [np.float16, np.int64, "complex128", torch.bfloat16, torch.int64, "fast", 3]
)
def test_types_that_no_result_has(model, dtype):
    with pytest.raises(InputError, match="must be float64 or float32, from numpy or torch"):
        EmpiricalNTK(model, dtype=dtype)


LABELS = np.array([0, 1, 2, 0, 1, 2, 0])
FORMS = {
    "kernel": lambda ntk, X: ntk(X),
    "rectangular": lambda ntk, X: ntk(X[:2], X[2:]),
    "normalised": lambda ntk, X: ntk(X, normalize=True),
    "per output": lambda ntk, X: ntk.per_output(X),
    "same output": lambda ntk, X: ntk.same_output(X),
    "pairs": lambda ntk, X: ntk.pairs(X, LABELS),
    "diagonal": lambda ntk, X: ntk.diagonal(X),
    "product": lambda ntk, X: ntk.matvec(X, X[:, 0]),
    "forwards": lambda ntk, X: ntk.jvp(X, {"2.bias": np.ones(K)}),
    "backwards": lambda ntk, X: ntk.vjp(X, X[:, :K])["0.weight"],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_result_in_every_type(model, X, form):
    compute = FORMS[form]
    expected = compute(EmpiricalNTK(model), X)
    assert type(expected) is np.ndarray and expected.dtype == np.float64
    scale = np.abs(expected).max()
    for dtype in (np.float32, "float64", torch.float32, torch.float64):
        found = compute(EmpiricalNTK(model, dtype=dtype), X)
        if isinstance(dtype, torch.dtype):
            assert isinstance(found, torch.Tensor) and found.dtype is dtype
            assert found.device == next(model.parameters()).device
            assert not found.requires_grad
            found = found.numpy()
        else:
            assert type(found) is np.ndarray and found.dtype == np.dtype(dtype)
        limit = 1e-12 if found.dtype == np.float64 else 1e-6
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= limit * scale


def test_labels_that_are_no_outputs(model, X):
    ntk = EmpiricalNTK(model)
    with pytest.raises(InputError, match="y has label 3; labels are numbers of outputs"):
        ntk.pairs(X, np.full(7, 3))
    with pytest.raises(InputError, match=r"y1 has shape \(6,\); it must be \(7,\)"):
        ntk.pairs(X, LABELS[:6])
    with pytest.raises(InputError, match="y1 has dtype float64"):
        ntk.pairs(X, LABELS.astype(float))
    with pytest.raises(InputError, match="X2 and y2 go together"):
        ntk.pairs(X, LABELS, X)
    with pytest.raises(InputError, match="1 output is chosen"):
        EmpiricalNTK(model, outputs=0).pairs(X, np.zeros(7, int))


def test_differences_keep_their_digits_in_single_precision(X):
    class Shared(nn.Module):
        """Three outputs with a large part in common, which drops out of their differences."""

        def __init__(self):
            super().__init__()
            self.common, self.own = nn.Linear(4, 1), nn.Linear(4, K)

        def forward(self, x):
            return 1e3 * self.common(x) + self.own(x)

    model = Shared()
    single = EmpiricalNTK(model).pairs(X, LABELS)
    double = EmpiricalNTK(model.double()).pairs(X, LABELS)
    assert np.abs(single - double).max() <= 1e-6 * np.abs(double).max()


def test_directions_and_weights_that_do_not_fit(model, X):
    ntk = EmpiricalNTK(model)
    with pytest.raises(InputError, match="direction is ndarray; pass a mapping"):
        ntk.jvp(X, np.ones(3))
    with pytest.raises(InputError, match="direction names 'head'"):
        ntk.jvp(X, {"head": np.ones(3)})
    with pytest.raises(InputError, match=r"direction\['2.bias'\] has shape \(4,\)"):
        ntk.jvp(X, {"2.bias": np.ones(4)})
    with pytest.raises(InputError, match=r"weights has shape \(7, 4\); it must be \(7, 3\)"):
        ntk.vjp(X, X)
    with pytest.raises(InputError, match=r"v has shape \(6,\); its first axis must be 7"):
        ntk.matvec(X, np.ones(6))
    with pytest.raises(InputError, match="v has dtype <U1; it must be real numbers"):
        ntk.matvec(X, list("abcdefg"))


def test_progress_as_a_line(model, X, capsys):
    ntk = EmpiricalNTK(model)
    ntk(X, progress=True)
    ntk.matvec(X, X[:, 0], progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.findall(r"^(.+?): 100%, \d+ s$", err, re.M) == ["tangent kernel", "kernel product"]
    ntk(X, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="progress='yes' must be True, False, None or a function"):
        ntk(X, progress="yes")


def test_a_progress_that_raises_ends_the_work(model, X):
    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EmpiricalNTK(model)(X, progress=stop)
    assert not any(module._forward_hooks for module in model.modules())


def test_reprs_are_short(model, X):
    assert repr(EmpiricalNTK(model)) == "EmpiricalNTK(<Sequential, 51 trained parameters>)"
    chosen = EmpiricalNTK(model, outputs=[0, 2], parameters="0", dtype=np.float32, normalize=True)
    for word in ("outputs=[0, 2]", "parameters='0'", "float32", "normalize=True"):
        assert word in repr(chosen)
    tracker = KernelTracker((X, LABELS), (X[:2], LABELS[:2]))
    snapshot = tracker.look(model, 1.5)
    assert re.fullmatch(
        r"Snapshot\(epoch 1\.5, kernel 7 × 7, cross 2 × 7, margin in \[\S+, \S+\]\)", repr(snapshot)
    )
    assert repr(tracker) == "KernelTracker(1 looks, at epochs [1.5])"


@pytest.mark.slow
def test_error_without_torch_names_the_extra():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import momentron.ntk\n"
        "try:\n    momentron.ntk.EmpiricalNTK\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'EmpiricalNTK needs torch: pip install "momentron[ntk]"'


def test_unknown_names_are_attribute_errors():
    import momentron.ntk

    with pytest.raises(AttributeError, match="no attribute 'NTK'"):
        momentron.ntk.NTK  # noqa: B018
    assert set(momentron.ntk.__all__) <= set(dir(momentron.ntk))
