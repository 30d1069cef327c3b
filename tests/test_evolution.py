"""The kernel of a network in training: the numbers, the training, the table."""

import csv
import doctest
import importlib.util
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import momentron.ntk.evolution_table  # noqa: E402
import momentron.ntk.kernel_tracker  # noqa: E402
import momentron.ntk.spectra  # noqa: E402
from momentron import KernelMaxMarginClassifier, max_margin  # noqa: E402
from momentron.errors import InputError  # noqa: E402
from momentron.ntk import (  # noqa: E402
    EmpiricalNTK,
    EvolutionRow,
    KernelEvolution,
    KernelTracker,
    kernel_alignment,
    kernel_evolution,
)
from momentron.ntk.kernel_tracker import snapshot_epochs  # noqa: E402
from tests.architectures import one_torch_thread  # noqa: E402, F401

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is not installed: no pictures",
)


def blobs(n, seed, classes=3):
    """Points about the corners of a simplex, with names as labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = 2.0 * np.eye(classes, 5)[y] + 0.3 * rng.normal(size=(n, 5))
    return X, np.array(["red", "green", "blue", "grey"])[y]


def network(outputs=3, dropout=0.0, seed=0):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        layers = [nn.Linear(5, 12), nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, outputs)]
        return nn.Sequential(*layers).double()


TRAIN, TEST = blobs(24, 0), blobs(30, 1)


def evolve(model=None, **options):
    options = {"epochs": [0, 2, 10], "lr": 0.1, "batch_size": 8} | options
    return kernel_evolution(network() if model is None else model, TRAIN, TEST, **options)


# the numbers


@pytest.mark.slow
def test_the_kernel_of_a_linear_model_never_changes():
    model = nn.Linear(5, 3).double()
    table = evolve(model, tol=1e-8)
    K = TRAIN[0] @ TRAIN[0].T + 1.0  # for each of three outputs; the factor is normalised away
    lengths = np.sqrt(np.diag(K))
    K /= np.outer(lengths, lengths)
    best = max_margin(K, TRAIN[1], kernel="precomputed", fit_intercept=False, tol=1e-10)
    assert table["epoch"].tolist() == [0, 2, 10]
    for name in ("alignment_first", "alignment_last"):
        assert table[name] == pytest.approx(1.0, abs=1e-12)
    for row in table:
        assert row.lower <= best.upper * (1.0 + 1e-9)
        assert row.upper >= best.lower * (1.0 - 1e-9)
        assert row.upper - row.lower <= 1e-8 * row.upper
    assert table["network_error"][-1] < table["network_error"][0]


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_look_is_what_it_says(fit_intercept, normalize):
    looks, model = [], network()
    table = evolve(model, fit_intercept=fit_intercept, normalize=normalize, callback=looks.append)
    assert [look.epoch for look in looks] == [0, 2, 10]
    last = looks[-1]
    ntk = EmpiricalNTK(model, normalize=normalize)  # trained in place
    assert np.allclose(last.kernel, ntk(TRAIN[0]), rtol=1e-10)
    assert np.allclose(last.cross, ntk(TEST[0], TRAIN[0]), rtol=1e-10)
    reference = KernelMaxMarginClassifier(
        C=np.inf, kernel="precomputed", fit_intercept=fit_intercept, tol=1e-4
    ).fit(last.kernel, TRAIN[1])
    assert table["kernel_error"][-1] == 1.0 - reference.score(last.cross, TEST[1])
    with torch.no_grad():
        answers = model(torch.tensor(TEST[0])).argmax(dim=1).numpy()
    expected = np.mean(np.unique(TEST[1])[answers] != TEST[1])
    assert table["network_error"][-1] == expected
    first = kernel_alignment(looks[1].kernel, looks[0].kernel)
    assert table["alignment_first"][1] == first < 1.0
    assert table["alignment_last"][1] == kernel_alignment(looks[1].kernel, last.kernel)


def test_training_brings_the_errors_down():
    table = evolve(epochs=60)
    assert table["epoch"].tolist() == [0, 1, 2, 4, 8, 16, 32, 60]
    assert table["train_error"][-1] == 0.0
    assert table["network_error"][-1] < 0.1 < table["network_error"][0]
    assert table["kernel_error"][-1] < 0.1
    assert np.all(table["lower"] > 0.0)
    assert table["alignment_first"][-1] < 0.999


def test_a_single_output_separates_two_classes():
    train, test = blobs(20, 0, classes=2), blobs(20, 1, classes=2)
    table = kernel_evolution(network(1), train, test, epochs=[0, 40], lr=0.2)
    assert table["train_error"][-1] == 0.0
    assert table["network_error"][-1] == 0.0
    assert table["kernel_error"][-1] == 0.0


def test_the_paper_s_method():
    exact, drawn = evolve(tol=1e-6), evolve(method="adaptive", tol=0.02, max_iter=5000)
    assert np.all(drawn["lower"] <= exact["upper"])
    assert np.all(drawn["upper"] >= exact["lower"])
    assert np.all(drawn["lower"] >= 0.97 * exact["lower"])
    assert not np.array_equal(drawn["lower"], exact["lower"])


# the training


def test_the_seed_decides():
    same = [evolve(network(dropout=0.3), seed=5).to_csv() for _ in range(2)]
    assert same[0] == same[1]
    assert evolve(network(dropout=0.3), seed=6).to_csv() != same[0]


def test_torch_is_left_as_it_was():
    model = network(dropout=0.3)
    model[2].eval()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    state = torch.get_rng_state()
    evolve(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == [True, True, True, False, True]


def test_plain_steps_by_any_name():
    expected = evolve().to_dict()
    own = network()
    by_optimizer = evolve(own, lr=None, optimizer=torch.optim.SGD(own.parameters(), lr=0.1))
    for name, column in by_optimizer.to_dict().items():
        assert column == pytest.approx(expected[name], rel=1e-6), name
    squares = evolve(
        loss=lambda outputs, y: (outputs - nn.functional.one_hot(y, 3)).square().mean()
    )
    assert not np.allclose(squares["lower"][1:], expected["lower"][1:], rtol=1e-4)


def test_a_callback_ends_the_training():
    seen = []
    table = evolve(callback=lambda look: seen.append(look.epoch) or look.epoch == 2)
    assert seen == [0, 2]
    assert table["alignment_last"][-1] == 1.0
    assert len(table) == 2


def test_progress_goes_to_one():
    shares = []
    evolve(progress=shares.append)
    assert shares == sorted(shares)
    assert shares[0] > 0.0
    assert shares[-1] == 1.0
    assert len(shares) >= 6


def test_tensors_and_flat_rows_of_images():
    X = np.random.default_rng(0).normal(size=(8, 9)).astype(np.float32)
    y = torch.arange(8) % 2
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 2))
    data = (torch.tensor(X), y)
    table = kernel_evolution(model, data, data, epochs=[0, 3], input_shape=(1, 3, 3))
    assert len(table) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": []}, "epochs=.* must be an integer of at least 0"),
        ({"epochs": -1}, "epochs=-1 must"),
        ({"epochs": [0, float("nan")]}, "must be an integer"),
        ({"epochs": [0, -0.5]}, "must be an integer"),
        ({"lr": 0.0}, "lr=0.0 must be a number above 0"),
        ({"batch_size": 0}, "batch_size=0 must be an integer of at least 1"),
        ({"seed": -1}, "seed=-1"),
        ({"model": network(4), "epochs": [1]}, r"\(2, 4\); 3 classes need \(2, 3\)"),
        ({"model": network(1)}, "3 classes need"),
        ({"lr": 1e200}, "use a smaller lr"),
        ({"max_memory": "1KB"}, "pass a larger max_memory"),
        ({"method": "newton", "epochs": [10**9]}, "'newton' is not known"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        evolve(**options)


def test_a_rate_beside_an_optimizer_is_refused():
    model = network()
    with pytest.raises(InputError, match="lr has no effect with optimizer"):
        evolve(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def test_labels_must_fit():
    X, y = TRAIN
    with pytest.raises(InputError, match=r"train has 24 examples and labels of shape \(23,\)"):
        kernel_evolution(network(), (X, y[1:]), TEST)
    numbers = np.arange(30) % 3
    with pytest.raises(InputError, match="train has labels of type <U5, test of int64: use one"):
        KernelTracker(TRAIN, (TEST[0], numbers))
    with pytest.raises(InputError, match=r"test is ndarray; pass a pair"):
        kernel_evolution(network(), TRAIN, TEST[0])


# loops and optimisers of the user


def test_an_optimizer_of_another_model_is_refused():
    other = network(seed=1)
    with pytest.raises(InputError, match="owns none of the model's parameters; build it from"):
        evolve(lr=None, optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
    model = network()
    part = torch.optim.SGD(model[3].parameters(), lr=0.1)  # fine-tuning
    assert len(evolve(model, lr=None, optimizer=part)) == 3


def test_a_loop_of_ones_own_gives_the_same_table():
    expected = evolve(lr=0.1, batch_size=24, epochs=[0, 2, 10])
    model = network(dropout=0.0)
    X, y = torch.tensor(TRAIN[0]), torch.tensor(np.unique(TRAIN[1], return_inverse=True)[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = KernelTracker(TRAIN, TEST)
    with pytest.raises(InputError, match="has seen nothing yet"):
        tracker.evolution  # noqa: B018
    model[2].eval()
    for epoch in range(11):
        if epoch in (0, 2, 10):
            snapshot = tracker.look(model, epoch)
            assert np.array_equal(tracker.kernel(epoch), snapshot.kernel)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()
    assert [module.training for module in model.modules()] == [True, True, True, False, True]
    for name, column in tracker.evolution.to_dict().items():
        assert column == pytest.approx(expected[name], rel=1e-6), name
    assert repr(tracker) == "KernelTracker(3 looks, at epochs [0, 2, 10])"
    with pytest.raises(InputError, match=r"no look at epoch 3; there were looks at \[0, 2, 10\]"):
        tracker.kernel(3)
    tracker.look(model, 2)  # the training went back
    assert tracker.evolution["epoch"].tolist() == [0, 2]
    with pytest.raises(InputError, match="epoch=nan must be a number of at least 0"):
        tracker.look(model, float("nan"))


def test_fractions_of_an_epoch():
    table = evolve(epochs=[0, 1 / 3, 0.5, 1, 2.5, 10])  # three batches per epoch
    assert table["epoch"].tolist() == [0.0, 1 / 3, 0.5, 1.0, 2.5, 10.0]
    whole = evolve(epochs=[1, 10])
    assert table["lower"][[3, 5]] == pytest.approx(whole["lower"], rel=1e-9)
    assert len(np.unique(table["lower"])) == 6
    assert "0.5" in str(table)


# the table


def table_of(*numbers):
    return KernelEvolution(EvolutionRow(epoch, *rest) for epoch, *rest in numbers)


TABLE = table_of(
    (0, 0.1, 0.25, 0.5, 0.9, 0.8, 1.0, 1.0 / 3.0), (7, 0.2, 0.3, 0.4, 0.3, 0.0, 1.0 / 3.0, 1.0)
)


def test_the_table_converts(tmp_path):
    text = TABLE.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == KernelEvolution.columns
    assert float(rows[0]["alignment_last"]) == 1.0 / 3.0
    assert {n: c.tolist() for n, c in TABLE.to_dict().items()}["epoch"] == [0, 7]
    assert "40.00%" in str(TABLE)
    assert "2 snapshots; last: epoch 7" in repr(TABLE)
    with pytest.raises(KeyError, match="no column 'error'"):
        TABLE["error"]
    with pytest.raises(InputError, match="0 rows"):
        KernelEvolution([])


def test_the_table_as_a_frame():
    pytest.importorskip("pandas")
    frame = TABLE.to_pandas()
    assert list(frame.columns) == list(KernelEvolution.columns)
    assert frame["upper"].tolist() == [0.25, 0.3]


@needs_matplotlib
def test_the_picture(tmp_path):
    drawn = TABLE.plot(tmp_path / "evolution.png", title="two looks")
    assert (tmp_path / "evolution.png").read_bytes().startswith(b"\x89PNG")
    lines = drawn.figure_.axes[0].get_lines()
    errors = {line.get_label(): line.get_ydata().tolist() for line in lines}
    assert errors["kernel predictor"] == [0.5, 0.4]
    assert errors["network"] == [0.9, 0.3]


@needs_matplotlib
def test_the_picture_in_axes_of_the_user():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    drawn = TABLE.plot(ax=ax, show="margins")
    assert drawn.axes_ == [ax]
    assert ax.get_title(loc="left") == "Best margin in the kernel"
    three = Figure().subplots(1, 3)
    assert TABLE.plot(ax=three).axes_ == list(three)
    with pytest.raises(InputError, match="ax has 1 axes for 3 panels; pass 3, or show="):
        TABLE.plot(ax=ax)
    with pytest.raises(InputError, match="show='all' must be one of"):
        TABLE.plot(ax=ax, show="all")


def test_small_pieces():
    assert snapshot_epochs(1) == [0, 1]
    assert snapshot_epochs(0) == [0]
    assert kernel_alignment(np.zeros((2, 2)), np.eye(2)) == 0.0
    for module in (
        momentron.ntk.evolution_table,
        momentron.ntk.spectra,
        momentron.ntk.kernel_tracker,
    ):
        result = doctest.testmod(module)
        assert result.attempted > 1
        assert result.failed == 0
