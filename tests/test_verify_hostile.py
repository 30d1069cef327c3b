"""Hostile proofs are refused with one line, in seconds, and in little memory."""

import copy
import json
import math
import sys

import numpy as np
import pytest
from floating_point import ENVIRONMENTS, SUPPORTED, run

from momentron.separability import check_separability
from momentron.verify import ProofError, limits, verify
from momentron.verify.limits import honest_bits
from momentron.verify.outcomes import read_table
from momentron.verify.proof import number

ROOM = 700 << 20  # bytes of address space beyond what the imports take
SECONDS = 20.0  # of processor time; each takes a second or two


def data(n=300, d=100, apart=0.0):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-99, 100, (n, d)).astype(float), np.arange(n) % 2
    X[:, 0] += apart * y
    return X, y


# Each makes a text from the proof of separable data; `allowed` is what their size allows.
HOSTILE = {
    "weights of a million digits": "proof['weights']['numbers'] = ['0x' + 'f' * 10**6] * 101",
    "weights as long as any number may be": (
        "proof['weights']['numbers'] = ['0x' + 'f' * (allowed // 4)] * 101\n"
        "proof['dual'][0]['numerators'] = ['0x' + 'e' * (allowed // 4)] * 300\n"
        "proof['dual'][0]['rows'] = list(range(300))\n"
        "proof['dual'][0]['denominator'] = '0x' + 'd' * (allowed // 4)\n"
        "proof['boundary'] = [proof['dual'][0]] * 2\n"
        "proof['kind'] = 'quasi-separable'"
    ),
    "true weights times a number of 60,000 digits": (
        "from momentron.verify.proof import whole_numbers\n"
        "weights = whole_numbers(proof['weights']['numbers'])\n"
        "proof['weights']['numbers'] = [hex(v * int('f' * 60_000, 16)) for v in weights]"
    ),
    "ten million rows": "proof['dual'][0]['rows'] = [1] * 10**7",
    "ten million weights": "proof['weights']['numbers'] = ['0x1'] * 10**7",
    "ten million strings in a field of no use": "proof['x'] = ['a'] * 10**7",
    "thirty million digits in a field of no use": "proof['x'] = 'a' * 3 * 10**7",
    "a JSON integer of a million digits": "text = text.replace('300', '3' * 10**6)",
    "a JSON integer of twenty digits": "text = text.replace(': 300', ': ' + '3' * 20)",
    "nested lists": "text = '[' * 10**5 + text",
    "nested objects": "text = '{\"a\":' * 10**5 + text",
    "a million equal keys": "text = '{' + '\"a\":1,' * 10**6 + text[1:]",
    "a basis of all rows": (
        "proof['basis'] = {'rows': [0] * 10**6, 'others': [1] * 10**6}\n"
        "proof['boundary'] = [dict(proof['dual'][0], numerators=['0x1'] * 300, rows=[*range(300)])]"
    ),
    "a hundred groups": "proof['dual'] = proof['dual'] * 100",
    "a row a million times": (
        "proof['dual'][0]['rows'] = [0] * 10**6\nproof['dual'][0]['numerators'] = ['0x1'] * 10**6"
    ),
}
SCRIPT = """
import json, resource, time
from test_verify_hostile import data
from momentron.separability import check_separability
from momentron.verify import ProofError, verify
from momentron.verify.limits import honest_bits
from momentron.verify.outcomes import read_table
X, y = data(apart=20000.0)
proof = check_separability(X, y).proof
allowed = honest_bits(read_table(X, y))
text = json.dumps(proof)
{attack}
text = text if text != json.dumps(check_separability(X, y).proof) else json.dumps(proof)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
start = time.process_time()
try:
    verify(text, X, y)
    print("accepted")
except ProofError as error:
    assert "malformed: MemoryError" not in str(error), error
    print(len(str(error).splitlines()), time.process_time() - start)
"""


@pytest.mark.adversarial
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_proofs_are_refused_at_once(name):
    lines, seconds = run(SCRIPT.format(attack=HOSTILE[name], room=ROOM)).split()
    assert int(lines) == 1
    assert float(seconds) < SECONDS


def honest(apart=20000.0):
    X, y = data(30, 4, apart)
    return check_separability(X, y).proof, X, y


@pytest.mark.parametrize(
    "constant",
    ["NaN", "Infinity", "-Infinity", "1e999", "1.5", "-1", "1e2", "true", "null", "[]", '"0"'],
)
@pytest.mark.parametrize("field", ["rows", "features"])
def test_constants_are_no_sizes(constant, field):
    proof, X, y = honest()
    size = proof["data"][field]
    text = json.dumps(proof).replace(f'"{field}": {size}', f'"{field}": {constant}')
    assert text != json.dumps(proof)
    with pytest.raises(ProofError):
        verify(text, X, y)


@pytest.mark.parametrize(
    "text",
    [
        " 0x1", "0x1 ", "0x_1", "0x1_0", "1", "+0x1", "0x", "", "0X1", "٣", "0x٣", "0x1\n", "--0x1",
        "0x1p", "0x1p+99999", "0x1p+999999999", "0x1p-1075", "0x1.00000000000001p+0", "1p3", "nan",
        "0x1p0 ", "infinity", "0x1p+0_1", "0x.p0", "0x1.8p٣", "0x" + "1" * 70 + "p-9",
    ],
)  # fmt: skip
def test_numbers_are_read_exactly_or_not_at_all(text):
    with pytest.raises((ValueError, OverflowError)):
        number(text)
    proof, X, y = honest()
    changed = copy.deepcopy(proof)
    changed["weights"]["numbers"][0] = text
    with pytest.raises(ProofError):
        verify(changed, X, y)


def test_truth_values_are_no_columns():
    X = np.array([[0, 0, 1], [1, 0, 1], [2, 0, 1], [0, 0, 2]])
    y = [0, 1, 0, 1]
    proof = check_separability(X, y).proof
    assert proof["estimates"]["used"] == [0, 2]
    for used in ([False, 2], [0, 2.0], [0, "2"], {"0": 0}, False):
        changed = copy.deepcopy(proof)
        changed["estimates"]["used"] = used
        with pytest.raises(ProofError):
            verify(changed, X, y)


def test_numbers_in_other_spellings():
    assert number("0x1p0") == number("0x1.0p+0") == number("0x10p-4") == 1.0
    assert number("0x0.8p1") == number("0x1.p+0") == 1.0
    assert number("-0x0p0") == 0.0
    assert number("0x1p-1074") == 5e-324
    assert number("inf") == math.inf
    assert number("-0x1f") == -31


@pytest.mark.parametrize("row", [True, 1.0, "1", None, -1, 30, [1]])
def test_rows_are_integers(row):
    proof, X, y = honest()
    changed = copy.deepcopy(proof)
    changed["dual"][0]["rows"][0] = row
    with pytest.raises(ProofError):
        verify(changed, X, y)


@pytest.mark.parametrize(
    "weights",
    [
        {"coordinates": [0, 0], "numbers": ["0x1", "0x1"]},
        {"coordinates": [1, 0], "numbers": ["0x1", "0x1"]},
        {"coordinates": [-1], "numbers": ["0x1"]},
        {"coordinates": [5], "numbers": ["0x1"]},
        {"coordinates": [True], "numbers": ["0x1"]},
        {"coordinates": [0.0], "numbers": ["0x1"]},
        {"coordinates": [0], "numbers": []},
        {"coordinates": "0", "numbers": ["0x1"]},
        {"coordinates": [0]},
        [],
    ],
)
def test_weights_are_checked(weights):
    proof, X, y = honest()
    assert verify(proof, X, y)
    with pytest.raises(ProofError):
        verify(proof | {"weights": weights}, X, y)


def test_weights_on_empty_columns_make_w_longer():
    X = np.array([[0.0, 0.0], [2.0, 0.0]])
    proof = check_separability(X, [0, 1]).proof
    assert verify(proof, X, [0, 1])
    first, last = proof["weights"]["numbers"]
    longer = {"coordinates": [0, 1, 2], "numbers": [first, "0x1p-9", last]}
    with pytest.raises(ProofError, match="below the lower bound"):
        verify(proof | {"weights": longer}, X, [0, 1])


def test_honest_proofs_are_far_within_the_allowance():
    for apart in (0.0, 20000.0):
        X, y = data(300, 60, apart)
        verdict = check_separability(X, y)
        allowed = honest_bits(read_table(X, y))
        assert len(verdict.to_json()) < limits.MAX_CHARACTERS / 4
        longest = max(
            len(v) for name in ("boundary", "conflict", "dual") for g in verdict.proof[name]
            for v in g["numerators"]
        )  # fmt: skip
        assert 4 * longest < allowed / 2


def test_max_time_of_a_verification():
    proof, X, y = honest()
    assert verify(proof, X, y, max_time=60.0)
    with pytest.raises(ProofError, match="not checked: max_time=1e-09 s"):
        verify(proof, X, y, max_time=1e-9)


UNDER = """
import numpy as np
from floating_point import control_words, set_environment
from momentron.errors import InputError
from momentron.separability import Verdict, check_separability
from momentron.verify import verify
tiny = np.array([[0.0], [5e-324]])
rng = np.random.default_rng(0)
cases = [
    (tiny, [0, 1], "separable"),
    (tiny[::-1].copy(), ["a", "b"], "separable"),
    (np.array([[3e-310, 0], [0, 1e-320], [0, 0], [2e-310, 2e-310]]), [0, 0, 1, 1], None),
    (rng.normal(size=(40, 3)), np.arange(40) % 2, "overlapping"),
    (rng.normal(size=(40, 3)) * 1e-308, np.arange(40) % 2, "overlapping"),
    (rng.normal(size=(40, 3)) * 1e300, np.arange(40) % 2, "overlapping"),
    (np.array([[1.0], [np.nextafter(1.0, 2.0)]]), [0, 1], "separable"),
    (np.array([[0.0], [1.0], [1.0], [2.0]]), [0, 0, 1, 1], "quasi-separable"),
]
expected = [check_separability(X, y) for X, y, _ in cases]
overlap = check_separability(np.zeros((2, 1)), [0, 1]).proof
set_environment({name!r})
users = control_words()
for (X, y, kind), before in zip(cases, expected):
    verdict = check_separability(X, y)
    assert kind in (None, verdict.kind), (verdict, kind)
    assert (verdict.kind, verdict.lower.hex(), verdict.upper.hex()) == (
        before.kind, before.lower.hex(), before.upper.hex())
    assert verify(verdict.to_json(), X, y) and verify(before.to_json(), X, y)
    assert Verdict.from_json(before.to_json()).upper.hex() == before.upper.hex()
    assert control_words() == users
    try:
        verify(overlap, X, y)
        print("accepted", X)
    except InputError:
        pass
print("done")
"""


@pytest.mark.adversarial
@pytest.mark.skipif(not SUPPORTED, reason="the layout of fenv_t is known for glibc on x86-64 only")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_verdicts_are_the_same_in_every_floating_point_environment(name):
    assert run(UNDER.format(name=name), timeout=60.0).split() == ["done"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, np.int64, bool])
def test_every_type_is_read_as_it_is(dtype):
    X = np.array([[0, 1], [1, 0], [1, 1], [0, 0]]).astype(dtype)
    verdict = check_separability(X, [0, 0, 1, 1])
    assert verdict.kind == "overlapping"
    assert verify(verdict.to_json(), X.astype(np.float64), [0, 0, 1, 1])


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300])
def test_every_scale(scale):
    X = np.array([[0.0], [scale]])
    verdict = check_separability(X, [0, 1])
    assert verdict.kind == "separable"
    assert 0.0 <= verdict.lower <= verdict.upper
    assert verify(verdict.to_json(), X, [0, 1])


def test_a_proof_of_many_rows_is_accepted():
    X, y = data(400, 60)
    proof = check_separability(X, y).to_json()
    assert verify(proof, X, y)
