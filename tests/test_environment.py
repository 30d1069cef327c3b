"""Arithmetic that another library has changed is mended for the call, and then put back."""

import numpy as np
import pytest
from floating_point import ENVIRONMENTS, SUPPORTED, run

from momentron.arithmetic import environment
from momentron.arithmetic.environment import fault, standard_arithmetic
from momentron.errors import ArithmeticEnvironmentError

changes_environment = pytest.mark.skipif(
    not SUPPORTED, reason="the layout of fenv_t is known for glibc on x86-64 only"
)
extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant != 63, reason="long doubles here have no x87 precision"
)


def test_the_standard_environment_is_left_alone(monkeypatch):
    monkeypatch.setattr(environment, "_replace_environment", lambda found: 1 / 0)
    with standard_arithmetic():
        assert fault() is None


def test_what_cannot_be_mended_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(environment, "_KNOWN", False)
    monkeypatch.setattr(environment, "_HALF_STEP", environment._STEP)  # as if rounded up
    with (
        pytest.raises(ArithmeticEnvironmentError, match="not rounded to nearest") as caught,
        standard_arithmetic(),
    ):
        raise AssertionError
    assert "\n" not in str(caught.value)


@changes_environment
def test_the_changes_are_real():
    printed = run(
        "import numpy as np; from floating_point import set_environment\n"
        "tiny = np.float64(5e-324); least = np.full(9, np.finfo(float).tiny)\n"
        "set_environment('zero subnormals'); print((tiny * 1.0).view('u8'))\n"
        "set_environment('flush'); print((least * 0.5).view('u8').any())\n"
        "set_environment('up'); print(np.float64(1) + 2.0**-60 > 1)\n"
        "set_environment('53 bits'); print(np.longdouble(2) - np.longdouble(2)**-61 == 2)\n"
    )
    assert printed.split() == ["0", "False", "True", "True"]


@pytest.mark.slow
@changes_environment
@extended
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_arithmetic_is_mended_within_and_put_back_after(name):
    printed = run(
        "from floating_point import control_words, set_environment\n"
        "from momentron.arithmetic.environment import fault, standard_arithmetic\n"
        "import numpy as np\n"
        "def mended():\n"
        "    assert fault() is None and control_words() == standard\n"
        "    assert (np.full(9, 5e-324) * 1.0).view('u8').all()\n"
        "    assert np.longdouble(1) + np.longdouble(2)**-63 > 1\n"
        "    assert np.float64(1) + 2.0**-60 == 1\n"
        "standard = control_words()\n"
        f"set_environment({name!r})\n"
        "users = control_words()\n"
        "assert users != standard and fault() is not None\n"
        "with standard_arithmetic():\n"
        "    mended()\n"
        "    with standard_arithmetic():\n"
        "        mended()\n"
        "    mended()\n"
        "assert control_words() == users\n"
        "try:\n"
        "    with standard_arithmetic():\n"
        "        raise KeyError\n"
        "except KeyError:\n"
        "    pass\n"
        "assert control_words() == users\n"
        "manager = standard_arithmetic()\n"
        "for _ in range(2):\n"
        "    with manager: mended()\n"
        "    assert control_words() == users\n"
        "print(fault())\n"
    )
    assert "flushed" in printed or "rounded" in printed


@pytest.mark.slow
@changes_environment
def test_the_module_itself_may_be_imported_late():
    for name in ENVIRONMENTS:
        printed = run(
            "import sys; sys.dont_write_bytecode = True; import numpy\n"
            f"from floating_point import set_environment; set_environment({name!r})\n"
            "from momentron.arithmetic.environment import fault, standard_arithmetic\n"
            "print(fault() is None)\n"
            "with standard_arithmetic(): print(fault())\n"
        )
        assert printed.split() == ["False", "None"], name


@pytest.mark.slow
@changes_environment
def test_each_thread_has_its_own():
    printed = run(
        "import threading; from floating_point import set_environment\n"
        "from momentron.arithmetic.environment import fault, standard_arithmetic\n"
        "set_environment('flush')\n"
        "def work():\n"
        "    seen.append(fault()); standard_arithmetic().__enter__(); seen.append(fault())\n"
        "seen = []; thread = threading.Thread(target=work); thread.start(); thread.join()\n"
        "print(seen[0] is None, seen[1] is None, fault() is None)\n"
    )
    assert printed.split() == ["False", "True", "False"]
