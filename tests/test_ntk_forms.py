"""Every form of a tangent kernel against Jacobians of plain autograd, in float64."""

import fnmatch

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from momentron.ntk import EmpiricalNTK, block_matrix  # noqa: E402
from tests.architectures import (  # noqa: E402
    cut_plans,
    every_architecture,
    jacobian,
    make,
    one_torch_thread,  # noqa: F401
)

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even")
NEAR = 1e-10


def close(found, expected):
    """Within 1e-10 of the largest entry, and of the same shape."""
    assert found.shape == expected.shape
    assert np.abs(np.asarray(found) - expected).max() <= NEAR * np.abs(expected).max()


@every_architecture(2)
def test_outputs_kept_apart(name, monkeypatch):
    model, X, _ = make(name)
    J = jacobian(model, X)
    expected = np.einsum("iop,jqp->ijoq", J, J)
    ntk = EmpiricalNTK(model)
    for number, plan in enumerate((None, (3, 2, 1, True), (7, 3, 2, False))):
        if plan is not None:
            cut_plans(monkeypatch, *plan)
        K = ntk.per_output(X)
        close(K, expected)
        assert np.array_equal(K, K.transpose(1, 0, 3, 2))
        close(ntk.per_output(X[:2], X[2:]), expected[:2, 2:])
        close(ntk.same_output(X), np.einsum("ijoo->ijo", expected))
        if number == 0:
            close(ntk.per_output(X[2:], X[:2]), expected[2:, :2])
            close(ntk.same_output(X[:2], X[2:]), np.einsum("ijoo->ijo", expected[:2, 2:]))
            close(
                block_matrix(K),
                np.einsum("iop,jqp->iojq", J, J).reshape(K.shape[0] * K.shape[2], -1),
            )


@every_architecture(3)
def test_chosen_outputs_and_parameters(name):
    model, X, _ = make(name)
    J = jacobian(model, X)
    k = J.shape[1]
    chosen = [k - 1, 0] if k > 1 else [0]
    expected = np.einsum("iop,jop->ij", J[:, chosen], J[:, chosen])
    close(EmpiricalNTK(model, outputs=chosen)(X), expected)
    close(
        EmpiricalNTK(model, outputs=-1).per_output(X),
        np.einsum("ip,jp->ij", J[:, -1], J[:, -1])[..., None, None],
    )
    for pattern in ("*weight*", "*bias*", "a*", "0*"):
        names = [n for n, p in model.named_parameters() if p.requires_grad]
        kept = {n for n in names if fnmatch.fnmatchcase(n, pattern)}
        if not kept or kept == set(names):
            continue
        part = jacobian(model, X, kept)
        expected = np.einsum("iop,jop->ij", part, part)
        if not expected.any():
            continue
        close(EmpiricalNTK(model, parameters=pattern)(X), expected)
        close(EmpiricalNTK(model, parameters=lambda n, p, kept=kept: n in kept)(X), expected)
        close(EmpiricalNTK(model, parameters=sorted(kept)).diagonal(X), np.diagonal(expected))


@every_architecture(4)
def test_differences_of_outputs(name, monkeypatch):
    model, X, _ = make(name)
    J = jacobian(model, X)
    k = J.shape[1]
    y = np.random.default_rng(0).integers(0, max(k, 2), len(X))
    if k == 1:
        features = J * np.where(y == 1, 1.0, -1.0)[:, None, None]
    else:
        features = np.stack(
            [[J[i, y[i]] - J[i, j] for j in range(k) if j != y[i]] for i in range(len(X))]
        )
    expected = np.einsum("iop,jqp->ijoq", features, features)
    ntk = EmpiricalNTK(model)
    close(ntk.pairs(X, y), expected)
    close(ntk.pairs(X[:3], y[:3], X[3:], torch.tensor(y[3:])), expected[:3, 3:])
    lengths = np.sqrt(np.einsum("iop,iop->i", J, J))
    normal = expected / np.outer(lengths, lengths)[:, :, None, None]
    close(ntk.pairs(X, y, normalize=True), normal)
    cut_plans(monkeypatch, 3, 2, 1, True)
    close(ntk.pairs(X, y), expected)


@every_architecture(5)
def test_products_without_the_kernel(name):
    model, X, _ = make(name)
    J = jacobian(model, X)
    n, k, _ = J.shape
    rng = np.random.default_rng(0)
    ntk = EmpiricalNTK(model)
    K = np.einsum("iop,jop->ij", J, J)
    v, V = rng.normal(size=n), rng.normal(size=(n, 2))
    close(ntk.matvec(X, v), K @ v)
    close(ntk.matvec(X[:3], V[3:], X[3:]), K[:3, 3:] @ V[3:])
    lengths = np.sqrt(np.diagonal(K))
    close(ntk.matvec(X, v, normalize=True), (K / np.outer(lengths, lengths)) @ v)
    C = rng.normal(size=(n, k))
    close(ntk.jvp(X, ntk.vjp(X, C)), np.einsum("iop,jqp,jq->io", J, J, C))
    back = ntk.vjp(X, C)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if p.requires_grad}
    assert {name: part.shape for name, part in back.items()} == shapes
    flat = np.concatenate([part.ravel() for part in back.values()])
    close(flat, np.einsum("iop,io->p", J, C))
    direction = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    along = np.concatenate([part.ravel() for part in direction.values()])
    close(ntk.jvp(X, direction), J @ along)
    first = next(iter(shapes))
    only = jacobian(model, X, {first}) @ direction[first].ravel()
    if only.any():
        close(ntk.jvp(X, {first: direction[first]}), only)
