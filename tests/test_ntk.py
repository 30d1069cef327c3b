"""The tangent kernel of torch models: values, inputs, refusals."""

import doctest

import numpy as np
import pytest
from sklearn.svm import SVC

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import momentron.ntk.empirical  # noqa: E402
import momentron.ntk.memory_plan  # noqa: E402
from momentron.errors import InputError  # noqa: E402
from momentron.ntk import EmpiricalNTK  # noqa: E402
from momentron.ntk.jacobian import ExampleGradients  # noqa: E402
from momentron.ntk.selection import Readout  # noqa: E402
from paper.networks import alexnet  # noqa: E402
from tests.architectures import one_torch_thread  # noqa: E402, F401


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Linear(20, 3)).double()


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(12, 8))


@pytest.fixture
def no_dropout():
    return nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5), nn.Linear(4, 2)).double()


# values


def test_normalised(model, X):
    ntk = EmpiricalNTK(model)
    K = ntk(X)
    root = np.sqrt(np.diag(K))
    expected = K / np.outer(root, root)
    normal = ntk(X, normalize=True)
    assert np.allclose(normal, expected, rtol=1e-13)
    assert np.array_equal(normal, normal.T)
    assert np.array_equal(np.diag(normal), np.ones(12))
    cross = EmpiricalNTK(model, normalize=True, max_memory="1.05MB")(X[:3], X[3:])
    assert np.allclose(cross, expected[:3, 3:], rtol=1e-12)
    assert np.array_equal(ntk.diagonal(X, normalize=True), np.ones(12))


def test_example_without_derivative_keeps_zeros_when_normalised():
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 1, bias=False))
    X = np.array([[1.0, 2.0], [0.0, 0.0]])
    K = EmpiricalNTK(model)(X, normalize=True)
    assert np.array_equal(K, [[1.0, 0.0], [0.0, 0.0]])
    assert np.array_equal(EmpiricalNTK(model, normalize=True).diagonal(X), [1.0, 0.0])


def test_single_precision_is_close_to_double(X):
    torch.manual_seed(0)
    model = alexnet(5, width=4)
    images = np.random.default_rng(1).normal(size=(6, 3, 32, 32))
    single = EmpiricalNTK(model)(images)
    double = EmpiricalNTK(model.double())(images)
    assert single.dtype == np.float64
    assert np.abs(single - double).max() <= 1e-5 * np.abs(double).max()


def test_half_precision_models_are_multiplied_in_single():
    model = nn.Linear(4, 2).to(torch.bfloat16)
    X = np.eye(4)
    K = EmpiricalNTK(model)(X)
    assert np.array_equal(K, 2.0 * np.eye(4) + 2.0)  # Σ_o (x·x' + 1)


def test_model_and_random_state_are_left_alone(no_dropout, X):
    model = no_dropout.eval()
    state = torch.get_rng_state()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    EmpiricalNTK(model)(X)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert all(not module._forward_hooks for module in model.modules())
    assert torch.equal(state, torch.get_rng_state())


def test_examples_are_left_alone(X):
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 2)).double()
    tensor = torch.tensor(X)
    EmpiricalNTK(model)(tensor)
    assert np.array_equal(tensor.numpy(), X)
    EmpiricalNTK(model)(X)
    assert np.array_equal(tensor.numpy(), X)


def test_hooks_are_gone_after_an_error(model):
    with pytest.raises(RuntimeError):
        EmpiricalNTK(model)(np.ones((3, 5)))
    assert all(not module._forward_hooks for module in model.modules())


def test_works_without_gradient_mode(model, X):
    expected = EmpiricalNTK(model)(X)
    with torch.no_grad():
        assert np.array_equal(EmpiricalNTK(model)(X), expected)


# inputs


def test_arrays_lists_and_tensors_are_alike(model, X):
    ntk = EmpiricalNTK(model)
    expected = ntk(X)
    for same in (X.tolist(), torch.tensor(X), np.asfortranarray(X), X[::-1][::-1]):
        assert np.array_equal(ntk(same), expected)
    X.setflags(write=False)
    assert np.array_equal(ntk(X, X), expected)
    assert np.allclose(ntk(X.astype(np.longdouble), X), expected, rtol=1e-13)
    whole = (10 * X).astype(np.int32)
    assert np.allclose(ntk(whole), ntk(whole.astype(float)), rtol=1e-15)


def test_more_columns_than_rows(model, X):
    ntk = EmpiricalNTK(model)
    K = ntk(X[:2], X)
    assert K.shape == (2, 12)
    assert np.allclose(K, ntk(X)[:2], rtol=1e-13)


def test_one_row(model, X):
    ntk = EmpiricalNTK(model)
    assert ntk(X[:1]) == pytest.approx(ntk(X)[0, 0])


def test_kernel_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2 * 4 * 4))
    y = (X[:, 0] > 0.0).astype(int)
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)).double()
    kernel = EmpiricalNTK(body, input_shape=(2, 4, 4), normalize=True)
    svc = SVC(kernel=kernel, C=1e6).fit(X, y)
    assert svc.score(X, y) == 1.0
    assert np.array_equal(kernel(X), kernel(X.reshape(30, 2, 4, 4)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((0, 8)), r"X1 has shape \(0, 8\); the kernel needs at least 1 row"),
        (3.0, r"X1 has shape \(\)"),
        (np.ones((2, 8), complex), "X1 has dtype complex128"),
        (np.array([["a"] * 8]), "X1 has dtype <U1"),
    ],
)
def test_bad_examples(model, X, message):
    with pytest.raises(InputError, match=message):
        EmpiricalNTK(model)(X)


def test_examples_of_other_shapes(model, X):
    with pytest.raises(InputError, match=r"examples of shape \(8,\) and X2 of \(7,\)"):
        EmpiricalNTK(model)(X, X[:, :7])
    with pytest.raises(InputError, match=r"needs rows of that shape or of 9 entries"):
        EmpiricalNTK(model, input_shape=(3, 3))(X)


@pytest.mark.parametrize("place", [0, 9])
def test_infinite_examples_are_refused(model, X, place):
    X[place, 0] = np.inf
    with pytest.raises(InputError, match="finite"):
        EmpiricalNTK(model)(X)


# refusals


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(8), r"module '0' \(BatchNorm1d\) is in training mode and mixes"),
        (nn.Dropout(0.3), r"module '0' \(Dropout\) is in training mode and random with p=0.3"),
        (nn.RReLU(), r"module '0' \(RReLU\) is in training mode and random"),
        (nn.GRU(8, 8, 2, dropout=0.5), r"\(GRU\) .* random with dropout=0.5"),
        (nn.MultiheadAttention(8, 2, dropout=0.5), r"\(MultiheadAttention\) .* dropout=0.5"),
        (nn.InstanceNorm1d(8, track_running_stats=True), r"\(InstanceNorm1d\) .* statistics"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), "_SpectralNorm.* of the norm"),
        (nn.utils.spectral_norm(nn.Linear(8, 8)), r"\(Linear\) .* its estimate of the norm"),
    ],
)
def test_training_mode_is_refused(layer, message, X):
    model = nn.Sequential(layer, nn.Linear(8, 2)).double()
    with pytest.raises(InputError, match=message + ".*; call model.eval\\(\\) first"):
        EmpiricalNTK(model)(X)


def test_training_mode_without_effect_is_accepted(model, X):
    model.append(nn.Dropout(0.0))
    assert model.training
    assert np.array_equal(EmpiricalNTK(model)(X), EmpiricalNTK(model.eval())(X))


def test_batch_norm_without_statistics_is_refused_in_any_mode(X):
    model = nn.Sequential(nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 2)).double()
    with pytest.raises(InputError, match="build it with track_running_stats=True"):
        EmpiricalNTK(model.eval())(X)


class Function(nn.Module):
    def __init__(self, forward, **parts):
        super().__init__()
        self.rule = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.rule(self, x)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda m, x: m.a(x - x.mean(0)), "random or mixes examples; call model.eval"),
        (lambda m, x: m.a(x) + torch.rand(len(x), 1), "random or mixes examples"),
        (
            lambda m, x: m.a(x) + x.sum() - x.sum().detach(),
            "depend on the other examples of its batch",
        ),
        (lambda m, x: (m.a(x), x), "the model returns tuple"),
        (lambda m, x: m.a(x).sum(), r"have shape \(\); the first axis must be 2"),
        (lambda m, x: m.a(x).argmax(1), "the outputs are torch.int64"),
        (lambda m, x: m.a(x).detach(), "do not depend on any parameter"),
    ],
)
def test_models_without_a_kernel(forward, message, X):
    model = Function(forward, a=nn.Linear(8, 2)).double()
    with pytest.raises(InputError, match=message):
        EmpiricalNTK(model)(X)


def test_nothing_to_train(model, X):
    with pytest.raises(InputError, match="0 parameters with requires_grad=True"):
        EmpiricalNTK(model.requires_grad_(False))(X)
    with pytest.raises(InputError, match="the model has 0 parameters"):
        EmpiricalNTK(nn.ReLU())(X)
    with pytest.raises(InputError, match="model is function"):
        EmpiricalNTK(lambda x: x)


def test_complex_parameters_are_refused(X):
    b = nn.Parameter(torch.ones(2, dtype=torch.complex128))
    model = Function(lambda m, x: (m.a(x) * m.b).real, a=nn.Linear(8, 2).double(), b=b)
    with pytest.raises(InputError, match="parameter 'b' is"):
        EmpiricalNTK(model)(X)


def test_layers_that_run_for_some_examples_only(X):
    def forward(m, x):
        return m.a(m.a(x)) if bool((x > 2.0).any()) else m.a(x)

    X = np.clip(X, -1.0, 1.0)
    X[-1, 0] = 3.0
    model = Function(forward, a=nn.Linear(8, 8)).double()
    with pytest.raises(InputError, match="called 2 times for some examples and 1 times"):
        EmpiricalNTK(model)(X)


def test_reentrant_checkpoints_are_refused(X):
    def forward(m, x, reentrant):
        return m.b(torch.utils.checkpoint.checkpoint(m.a, x, use_reentrant=reentrant))

    parts = {"a": nn.Linear(8, 3), "b": nn.Linear(3, 2)}
    kernel = EmpiricalNTK(Function(lambda m, x: forward(m, x, True), **parts).double())
    with pytest.raises(InputError, match="pass use_reentrant=False"):
        kernel(X)
    expected = EmpiricalNTK(nn.Sequential(parts["a"], parts["b"]))(X)
    kernel = EmpiricalNTK(Function(lambda m, x: forward(m, x, False), **parts).double())
    assert np.allclose(kernel(X), expected, rtol=1e-12)


# the fallback


def test_fallback_goes_one_by_one_where_vmap_cannot(X):
    def forward(m, x):
        return m.a(x) * m.b * (2.0 if x.sum().item() > -1e9 else 3.0)

    b = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    model = Function(forward, a=nn.Linear(8, 2).double(), b=b)
    assert not ExampleGradients(model, ["b"], torch.tensor(X), Readout()).is_vectorised
    A = model.a(torch.tensor(X)).detach().numpy()
    expected = 2 * 9.0 * (X @ X.T + 1.0) + 4.0 * A @ A.T
    assert np.allclose(EmpiricalNTK(model)(X), expected, rtol=1e-12)


def test_attention_is_vectorised():
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()
    names = ["self_attn.in_proj_weight"]
    assert ExampleGradients(layer, names, torch.randn(4, 3, 8), Readout()).is_vectorised
    assert torch.backends.mha.get_fastpath_enabled()


def test_examples_in_docstrings():
    for module in (momentron.ntk.empirical, momentron.ntk.memory_plan):
        failed, attempted = doctest.testmod(module)
        assert failed == 0
        assert attempted > 0
