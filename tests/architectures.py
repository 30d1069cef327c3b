"""Models of every kind for the tests of tangent kernels, and their Jacobians by plain autograd."""

import pytest
import torch
from torch import nn

from momentron.ntk import memory_plan as planning
from paper.networks import alexnet

F = torch.nn.functional
ARCHITECTURES = {}
LARGE = {
    "small_alexnet",
    "resnet",
    "transformer",
    "gated_recurrent",
    "tied_language_model",
    "tied_embedding",
    "tied_padded_embedding",
}
TESTS = 6  # that are run for every architecture


def numbers(*shape):
    return lambda n: torch.randn(n, *shape, dtype=torch.float64)


def tokens(length, vocabulary):
    return lambda n: torch.randint(0, vocabulary, (n, length))


def architecture(examples, *, rest=()):
    """Register a model with its examples, and the parameters that no unit covers."""

    def register(build):
        ARCHITECTURES[build.__name__] = (build, examples, set(rest))
        return build

    return register


class Custom(nn.Module):
    """Modules by name, and a forward pass that uses them."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.rule = forward

    def forward(self, x):
        return self.rule(self, x)


def head(*layers, features):
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 3))


@architecture(numbers(6))
def mlp():
    return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 3))


@architecture(numbers(6))
def without_bias():
    return nn.Sequential(nn.Linear(6, 9, bias=False), nn.ReLU(), nn.Linear(9, 3, bias=False))


@architecture(numbers(6))
def single_output_without_axis():
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1), nn.Flatten(0))


@architecture(numbers(1, 16, 16))
def lenet():
    convolutions = [nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2)]
    convolutions += [nn.Conv2d(6, 8, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten()]
    dense = [nn.Linear(32, 12), nn.Sigmoid(), nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 4)]
    return nn.Sequential(*convolutions, *dense)


@architecture(numbers(3, 32, 32))
def small_alexnet():
    return alexnet(4, width=2)


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        first = [nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        self.body = nn.Sequential(*first, nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.short(x))


RESNET_NORMS = ["1", *(f"{i}.{name}" for i in (3, 4) for name in ("body.1", "body.4", "short.1"))]


@architecture(numbers(3, 8, 8), rest=[f"{n}.{p}" for n in RESNET_NORMS for p in ("weight", "bias")])
def resnet():
    stem = [nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)]
    blocks = [Residual(4, 4, 1), Residual(4, 8, 2), nn.AdaptiveAvgPool2d(1)]
    return head(*stem, *blocks, features=8)


@architecture(numbers(2, 7, 8))
def strided():
    conv = nn.Conv2d(2, 4, (3, 2), stride=(2, 3), padding=(1, 0))
    return head(conv, nn.ReLU(), features=4 * 4 * 3)


@architecture(numbers(4, 7, 7), rest=["0.weight", "0.bias", "2.weight", "2.bias"])
def grouped():
    return head(
        nn.Conv2d(4, 6, 3, groups=2), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), features=6 * 9
    )


@architecture(numbers(2, 7, 7))
def dilated():
    return head(nn.Conv2d(2, 3, 3, dilation=2, padding=2, stride=2), features=3 * 16)


@architecture(numbers(2, 5, 6))
def same_padding():
    first = nn.Conv2d(2, 3, (2, 3), padding="same", dilation=(1, 2))
    return head(first, nn.Tanh(), nn.Conv2d(3, 3, 3, padding="valid"), features=36)


@architecture(numbers(2, 5, 5))
def padding_modes():
    circular = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular")
    reflect = nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect")
    replicate = nn.Conv2d(2, 2, 4, padding="same", padding_mode="replicate")
    return head(circular, nn.Tanh(), reflect, nn.Tanh(), replicate, features=70)


@architecture(numbers(3, 9))
def one_dimensional():
    return head(nn.Conv1d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 2, 4, 2), features=6)


@architecture(numbers(2, 3, 3, 3))
def three_dimensional():
    return head(nn.Conv3d(2, 3, 2, padding=1), features=3 * 64)


@architecture(numbers(2, 5, 5), rest=["2.weight", "2.bias"])
def transposed_convolution():
    return head(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.ConvTranspose2d(3, 2, 3, 2), features=98)


@architecture(numbers(6), rest=["1.weight", "1.bias"])
def batch_norm():
    last = [nn.Tanh(), nn.Linear(5, 2), nn.BatchNorm1d(2, affine=False)]
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), *last)


@architecture(numbers(6), rest=["1.weight", "1.bias"])
def layer_norm():
    return nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2))


@architecture(numbers(2, 5, 5), rest=["1.weight"])
def layer_norm_of_images():
    return head(nn.Conv2d(2, 3, 3), nn.LayerNorm((3, 3), bias=False), features=27)


@architecture(numbers(2, 5, 5), rest=["1.weight", "1.bias", "3.weight", "3.bias"])
def group_and_instance_norm():
    first = [nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()]
    return head(*first, nn.InstanceNorm2d(4, affine=True), nn.ReLU(), features=36)


@architecture(numbers(3, 4), rest=["1.weight"])
def rms_norm():
    return head(nn.Linear(4, 5), nn.RMSNorm(5), features=15)


@architecture(numbers(7, 4))
def dense_on_sequences():
    return head(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), features=42)


@architecture(tokens(6, 5))
def embedding():
    return head(nn.Embedding(5, 3), nn.Linear(3, 3), nn.Tanh(), features=18)


@architecture(tokens(6, 5))
def padded_embedding():
    return head(nn.Embedding(5, 3, padding_idx=2), nn.Tanh(), features=18)


@architecture(tokens(4, 7), rest=["a.weight"])
def tied_padded_embedding():
    def forward(m, x):
        return F.linear(torch.tanh(m.b(m.a(x)).mean(1)), m.a.weight)

    return Custom(forward, a=nn.Embedding(7, 4, padding_idx=1), b=nn.Linear(4, 4))


@architecture(tokens(6, 5), rest=["0.weight"])
def embedding_bag():
    return nn.Sequential(nn.EmbeddingBag(5, 3), nn.Tanh(), nn.Linear(3, 2))


ATTENTION = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
ENCODER = [f"self_attn.{name}" for name in ATTENTION]
ENCODER += ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]


@architecture(numbers(5, 8), rest=[f"0.{name}" for name in ENCODER])
def transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True)
    return head(layer, features=40)


@architecture(numbers(6, 4), rest=["b.weight", "b.bias"])
def sequence_first():
    def forward(m, x):
        x = m.a(x.transpose(0, 1))  # (sequence, batch, features)
        return m.c(torch.tanh(m.b(x).transpose(0, 1)).mean(1))

    return Custom(forward, a=nn.Linear(4, 5), b=nn.LayerNorm(5), c=nn.Linear(5, 3))


@architecture(numbers(3, 4))
def sequence_first_read_at_its_start():
    parts = {"a": nn.Linear(4, 5), "c": nn.Linear(5, 3)}
    return Custom(lambda m, x: m.c(torch.tanh(m.a(x.transpose(0, 1)))[0]), **parts)


@architecture(numbers(6))
def batch_turned_over():
    return Custom(lambda m, x: m.c(m.a(x.flip(0)).flip(0)), a=nn.Linear(6, 4), c=nn.Tanh())


@architecture(
    numbers(5, 4), rest=[f"a.{k}_{j}_l0" for k in ("weight", "bias") for j in ("ih", "hh")]
)
def recurrent():
    parts = {"a": nn.LSTM(4, 5, batch_first=True), "b": nn.Linear(5, 2)}
    return Custom(lambda m, x: m.b(m.a(x)[0][:, -1]), **parts)


@architecture(numbers(6), rest=["1.weight"])
def prelu():
    return nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 2))


@architecture(numbers(6), rest=["scale"])
def raw_parameter():
    parts = {"scale": nn.Parameter(torch.randn(6)), "body": mlp()}
    return Custom(lambda m, x: m.body(x * m.scale.exp()) * m.scale[:3], **parts)


WEIGHT_NORM = [f"0.parametrizations.weight.original{i}" for i in (0, 1)]


@architecture(numbers(6), rest=["0.bias", *WEIGHT_NORM])
def weight_norm():
    first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, 2))


@architecture(numbers(5))
def called_twice():
    def forward(m, x):
        x = torch.tanh(m.a(x))
        x = torch.tanh(m.b(x.unsqueeze(1)).squeeze(1))
        return m.b(torch.tanh(m.a(x)).unsqueeze(1)).squeeze(1)

    return Custom(forward, a=nn.Linear(5, 5), b=nn.Conv1d(1, 1, 3, padding=1))


@architecture(numbers(5))
def tied_modules():
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2))
    model[2].weight, model[2].bias = model[0].weight, model[0].bias
    return model


@architecture(numbers(5), rest=["0.weight", "0.bias", "2.bias"])
def tied_weights_only():
    model = tied_modules()
    model[2].bias = nn.Parameter(torch.randn(5))
    return model


@architecture(tokens(4, 7), rest=["a.weight"])
def tied_embedding():
    def forward(m, x):
        return F.linear(torch.tanh(m.b(m.a(x)).mean(1)), m.a.weight)

    return Custom(forward, a=nn.Embedding(7, 4), b=nn.Linear(4, 4))


@architecture(numbers(5), rest=["a.weight", "a.bias"])
def weight_used_beside_its_call():
    return Custom(lambda m, x: torch.tanh(m.a(x)) @ m.a.weight, a=nn.Linear(5, 4))


@architecture(numbers(6))
def frozen():
    model = mlp()
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    model[4].requires_grad_(False)
    return model


@architecture(numbers(6))
def unused_layers():
    parts = {name: nn.Linear(6, 2) for name in "abc"}
    return Custom(lambda m, x: (m.a(x), m.b(x))[0], **parts)


@architecture(numbers(6))
def hooks_of_the_user():
    model = mlp()
    model[0].register_forward_hook(lambda module, args, y: y * 2.0)
    model[2].register_forward_pre_hook(lambda module, args: (args[0] ** 2,))
    return model


@architecture(numbers(6))
def input_by_keyword():
    return Custom(lambda m, x: m.a(input=x), a=nn.Linear(6, 3))


@architecture(
    numbers(5, 4), rest=[f"a.{k}_{j}_l0" for k in ("weight", "bias") for j in ("ih", "hh")]
)
def plain_recurrent():
    parts = {"a": nn.RNN(4, 5, batch_first=True), "b": nn.Linear(5, 2)}
    return Custom(lambda m, x: m.b(m.a(x)[0][:, -1]), **parts)


@architecture(
    numbers(4, 3),
    rest=[
        f"a.{k}_{j}_l0{way}"
        for k in ("weight", "bias")
        for j in ("ih", "hh")
        for way in ("", "_reverse")
    ],
)
def gated_recurrent():
    parts = {"a": nn.GRU(3, 4, batch_first=True, bidirectional=True), "b": nn.Linear(8, 2)}
    return Custom(lambda m, x: m.b(m.a(x)[0].mean(1)), **parts)


@architecture(tokens(5, 7), rest=["a.weight", "n.weight"])
def tied_language_model():
    def forward(m, x):
        places = m.c(torch.arange(x.shape[1]))  # one row per place, not per example
        return m.head(torch.tanh(m.b(m.n(m.a(x) + places)))).mean(1)

    model = Custom(
        forward,
        a=nn.Embedding(7, 4),
        c=nn.Embedding(5, 4),
        n=nn.RMSNorm(4),
        b=nn.Linear(4, 4),
        head=nn.Linear(4, 7, bias=False),
    )
    model.head.weight = model.a.weight
    return model


@architecture(numbers(6), rest=["0.bias", "0.parametrizations.weight.original"])
def spectral_norm():
    first = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, 2))


@architecture(numbers(2, 5, 5), rest=["0.bias", "0.weight_orig"])
def spectral_norm_by_hooks():
    return head(nn.utils.spectral_norm(nn.Conv2d(2, 3, 3)), nn.Tanh(), features=27)


@pytest.fixture(autouse=True)
def one_torch_thread():
    """For modules that import it: threads that wait for a busy core take minutes in all."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def every_architecture(number):
    """Run a test for every architecture, most of them `slow`.

    Of the tests with numbers 0 to 5, each small architecture is in one by default: together they
    see all.
    """
    small = [name for name in ARCHITECTURES if name not in LARGE]
    default = set(small[number::TESTS])
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=() if name in default else pytest.mark.slow)
            for name in ARCHITECTURES
        ],
    )


def make(name):
    """A model in float64 with statistics and affine entries that are not 0 and 1; 7 examples."""
    torch.manual_seed(sum(map(ord, name)))
    build, examples, rest = ARCHITECTURES[name]
    model = build().double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.normal_()
    return model, examples(7), rest


def jacobian(model, X, names=None):
    """∂A/∂θ by plain autograd, one backward pass at a time: (n, outputs, entries of θ)."""
    trained = [
        p
        for name, p in model.named_parameters()
        if p.requires_grad and (names is None or name in names)
    ]
    rows = []
    for i in range(len(X)):
        outputs = model(X[i : i + 1].clone()).reshape(-1)
        for output in outputs:
            parts = torch.autograd.grad(output, trained, retain_graph=True, allow_unused=True)
            flat = [
                torch.zeros_like(p).flatten() if part is None else part.to_dense().flatten()
                for part, p in zip(parts, trained, strict=True)
            ]
            rows.append(torch.cat(flat))
    return torch.stack(rows).reshape(len(X), -1, rows[0].numel()).numpy()


def cut_plans(monkeypatch, columns, step, outputs, factored):
    """Plans with these blocks, whatever the memory.

    All units are factored, or all gradients are written out.
    """

    def cut(structure, shape, itemsize, limit):
        forms = (factored,) * len(structure.units)
        few = min(outputs, structure.n_outputs)
        # so small that tiles are cut, but not into single positions of a large image
        scratch = max([300, *(16 * unit.positions for unit in structure.units)])
        cost = planning.Cost(0, 0, 0.0, 0.0)
        blocks = {"scratch": scratch, "outputs": few, "columns": columns, "step": step}
        return planning.Plan(structure, shape, itemsize, forms, cost, **blocks)

    monkeypatch.setattr("momentron.ntk.sweep.make_plan", cut)
