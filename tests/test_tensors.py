"""Tensors as torch users have them: the same answer as for float64 arrays of the same values."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from momentron import (
    KernelMaxMarginClassifier,
    MaxMarginClassifier,
    check_separability,
    max_margin,
    verify,
)
from momentron.data.exactness import tensors
from momentron.data.exactness.conversion import as_exact
from momentron.data.exactness.tensors import is_tensor
from momentron.errors import InputError

torch = pytest.importorskip("torch")


class Elsewhere(torch.Tensor):
    """A tensor that says it is on another device, and counts the rows that leave it."""

    moved: list[int] = []  # noqa: RUF012

    @property
    def device(self):
        return torch.device("cuda", 0)

    def numpy(self):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self):
        Elsewhere.moved.append(self.shape[0] if self.ndim else 1)
        return self.as_subclass(torch.Tensor)


def values(dtype=torch.bfloat16):
    """Rows that the type holds exactly, of two classes, as a tensor of that type."""
    rng = np.random.default_rng(3)
    X = torch.tensor(rng.normal(size=(90, 6))).to(dtype)
    y = (X[:, 0].double() + X[:, 1].double() > 0).numpy()
    shift = torch.tensor(np.where(y, 1.0, -1.0)[:, None] * [[0.5, 0.5, 0, 0, 0, 0]])
    return (X + shift.to(dtype)).to(dtype), np.where(y, "up", "down")


def sparse(X, layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its layouts a beta
        return X.to_sparse(layout=layout)


def blocked(X, layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return X.to_sparse(layout=layout, blocksize=(3, 2))


FORMS = {
    "plain": lambda X: X,
    "requires_grad": lambda X: X.clone().requires_grad_(),
    "parameter": torch.nn.Parameter,
    "graph": lambda X: X.clone().requires_grad_() * 1.0,
    "columns": lambda X: X.T.contiguous().T,
    "negative view": lambda X: torch._neg_view(-X),
    "elsewhere": lambda X: X.as_subclass(Elsewhere),
    "rows in a list": list,
}
SPARSE = {
    "csr": lambda X: sparse(X, torch.sparse_csr),
    "csc": lambda X: sparse(X, torch.sparse_csc),
    "coo": lambda X: sparse(X, torch.sparse_coo),
    "bsr": lambda X: blocked(X, torch.sparse_bsr),
    "bsc": lambda X: blocked(X, torch.sparse_bsc),
    "csr requires_grad": lambda X: sparse(X, torch.sparse_csr).requires_grad_(),
}
SMALL = [torch.bfloat16, torch.float16, torch.float8_e5m2]


def interval(X, y, **options):
    result = max_margin(X, y, **options)
    return result.lower, result.upper


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *SMALL], ids=str)
def test_the_same_interval_as_float64_of_the_same_values(form, dtype):
    X, y = values(torch.float32 if dtype is torch.float8_e5m2 else dtype)
    if dtype is torch.float8_e5m2:
        if form in ("negative view", "graph"):
            pytest.skip("float8 has no arithmetic")
        X = X.to(dtype)
    plain = X.to(torch.float64).numpy()
    if form == "columns" and dtype not in SMALL:  # read in place, so summed in another order
        plain = np.asfortranarray(plain)
    wanted = interval(plain, y)
    got = interval(FORMS[form](X), y)
    if dtype is torch.float32:  # float32 is read in place, and solved in its own precision
        assert max(got[0], wanted[0]) <= min(got[1], wanted[1])
        assert interval(plain.astype(np.float32, order="K"), y) == got
    else:
        assert got == wanted
    assert max_margin(plain, y).gap <= 1e-6


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_sparse_tensors(form, dtype):
    X, y = values(dtype)
    X = torch.where(X.abs() > 0.6, X, torch.zeros_like(X))
    plain = X.to(torch.float64).numpy()
    got = as_exact(SPARSE[form](X))
    assert sp.issparse(got)
    assert np.array_equal(got.toarray(), plain)
    y = np.where(plain[:, 0] + plain[:, 1] > 0, 1, 0)
    assert interval(SPARSE[form](X), y) == interval(sp.csr_array(plain), y)
    assert check_separability(SPARSE[form](X), y).kind == check_separability(plain, y).kind


def test_memory_maps(tmp_path):
    X, y = values(torch.float64)
    plain = X.numpy()
    np.save(tmp_path / "X.npy", plain)
    assert interval(np.load(tmp_path / "X.npy", mmap_mode="r"), y) == interval(plain, y)
    plain.tofile(tmp_path / "X.bin")
    mapped = torch.from_file(str(tmp_path / "X.bin"), size=plain.size, dtype=torch.float64)
    assert interval(mapped.reshape(plain.shape), y) == interval(plain, y)


@pytest.mark.parametrize("form", ["requires_grad", "elsewhere"])
def test_labels_and_verdicts(form):
    X, y = values()
    codes = torch.tensor((y == "up").astype(int))
    plain = X.double().numpy()
    verdict = check_separability(FORMS[form](X), codes.as_subclass(Elsewhere))
    assert verdict.kind == "separable"
    assert verify(verdict.to_json(), plain, codes.numpy())
    assert verify(verdict.to_json(), FORMS[form](X), codes.to(torch.bfloat16))
    assert interval(FORMS[form](X), codes.as_subclass(Elsewhere)) == interval(plain, codes.numpy())


@pytest.mark.parametrize(
    "model", [MaxMarginClassifier(C=np.inf), KernelMaxMarginClassifier(C=np.inf)]
)
def test_estimators_fit_and_predict(model, monkeypatch):
    X, y = values()
    plain = X.double().numpy()
    wanted = model.fit(plain, y).decision_function(plain)
    model.fit(X.as_subclass(Elsewhere), y)
    monkeypatch.setattr(tensors, "BLOCK_BYTES", 7 * 8 * X.shape[1])
    Elsewhere.moved.clear()
    got = model.decision_function(X.as_subclass(Elsewhere))
    assert max(Elsewhere.moved) == 7
    assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)
    assert (model.predict(FORMS["requires_grad"](X)) == y).all()
    X[33, 2] = torch.nan
    with pytest.raises(InputError, match=r"X\[33, 2\] is nan"):
        model.predict(X)


def test_large_tensors_are_converted_block_by_block(monkeypatch):
    X, y = values()
    monkeypatch.setattr("momentron.api.LARGEST_WHOLE", 1000)
    monkeypatch.setattr(tensors, "BLOCK_BYTES", 480)
    monkeypatch.setattr("momentron.streams.block_fits.BLOCK_BYTES", 480)
    Elsewhere.moved.clear()
    result = max_margin(X.as_subclass(Elsewhere), y)
    assert result.bytes_read > 0  # it went through blocks
    assert max(Elsewhere.moved) == 10
    plain = max_margin(X.double().numpy(), y)
    assert max(result.lower, plain.lower) <= min(result.upper, plain.upper)
    assert result.gap <= 1e-6
    model = MaxMarginClassifier(C=np.inf).fit(X, y)
    assert model.result_.bytes_read > 0
    soft, whole = max_margin(X, y, C=1.0), max_margin(X.double().numpy(), y, C=1.0)
    assert soft.bytes_read > 0 and whole.bytes_read == 0
    assert max(soft.lower, whole.lower) <= min(soft.upper, whole.upper)
    assert max_margin(X, y, kernel="rbf").bytes_read == 0  # a kernel needs the rows in memory
    # a tensor that numpy can read is never copied
    assert max_margin(X.double(), y).bytes_read == 0


def test_block_size_reads_a_tensor_in_blocks():
    X, y = values()
    there = max_margin(FORMS["requires_grad"](X), y, block_size="1KB")
    here = max_margin(X.double().numpy(), y)
    assert max(here.lower, there.lower) <= min(here.upper, there.upper)


def test_nothing_is_copied_where_numpy_can_read():
    X = torch.zeros(4, 3, requires_grad=True)
    assert np.shares_memory(as_exact(X), X.detach().numpy())
    assert X.requires_grad


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(3, 2, device="meta"), "meta device"),
        (torch.zeros(3, 2, dtype=torch.complex64), "Complex data"),
        (torch.full((3, 2), torch.nan, dtype=torch.bfloat16), "X contains NaN"),
        (torch.full((3, 2), torch.inf, requires_grad=True), "X contains infinity"),
        (torch.full((3, 2), 2**53 + 1), "cannot hold exactly"),
        (torch.zeros(3), "2D array for X, got dim 1"),
        (torch.zeros(0, 2, dtype=torch.bfloat16), "0 sample"),
    ],
)
def test_bad_tensors(bad, message):
    with pytest.raises(ValueError, match=message):
        max_margin(bad, [0, 1, 0])
    with pytest.raises(ValueError, match=message):
        check_separability(bad, [0, 1, 0])


def test_entries_twice_in_a_sparse_tensor_are_summed_exactly():
    places = torch.tensor([[0, 0, 1], [1, 1, 0]])
    entries = torch.tensor([1.0, 2.0, 5.0]).bfloat16()
    X = torch.sparse_coo_tensor(places, entries, (2, 2), check_invariants=True)
    assert as_exact(X).toarray().tolist() == [[0.0, 3.0], [5.0, 0.0]]


def test_a_damaged_sparse_tensor():
    parts = torch.tensor([0, 1, 2]), torch.tensor([0, 7]), torch.tensor([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = torch.sparse_csr_tensor(*parts, (2, 2), check_invariants=False)
    with pytest.raises(InputError, match=r"exceed|outside"):
        max_margin(X, [0, 1])


@pytest.mark.slow
def test_numbers_from_elsewhere_do_not_load_torch():
    code = (
        "import sys, momentron\n"
        "from momentron import max_margin\n"
        "max_margin([[0.0], [1.0]], [0, 1])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_a_tensor():
    assert is_tensor(torch.nn.Parameter(torch.zeros(1)))
    assert is_tensor(torch.zeros(1).as_subclass(Elsewhere))
    assert not is_tensor(np.zeros(1))
    assert not is_tensor([torch.zeros(1)])
