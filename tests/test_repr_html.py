"""What notebooks show: true, escaped, and without scripts."""

import html.parser
import math
import random
from decimal import Decimal

import numpy as np
import pytest

from momentron import Certificate, check_separability, max_margin
from momentron.certificate.picture import interval_svg, outward, proven
from momentron.datasets import make_separable
from momentron.views.trace import Trace

VOID = {"br", "img", "line", "rect", "circle", "path", "meta", "link"}
HOSTILE = "<script>alert(1)</script>\"'&\x1b[2J\u202e"


class Reader(html.parser.HTMLParser):
    """Tags that do not close are an error; the text and the tags are kept."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(markup):
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert reader.open == []
    for tag, attributes in reader.tags:
        assert tag not in ("script", "style", "link", "iframe")
        assert not any(name.startswith("on") for name in attributes)
    return reader, " ".join(" ".join(reader.text).split())


def shown():
    data = make_separable(30, 3, margin=0.5, n_support=3, fit_intercept=True, random_state=0)
    labels = np.where(data.y > 0, HOSTILE, "b")
    result = max_margin(data.X, labels)
    overlap = check_separability([[0.0], [1.0], [0.5], [2.0]], [HOSTILE, HOSTILE, "b", "b"])
    return {
        "result": result,
        "certificate": result.certificate,
        "trace": max_margin(data.X, labels, method="momentum", tol=1e-4).trace,
        "separable": check_separability(data.X, labels),
        "overlapping": overlap,
        "kernel": max_margin(data.X, labels, kernel="rbf"),
        "classes": max_margin(data.X, np.arange(30) % 3, C=1.0),
        "open": Certificate(0.0, math.inf, -math.inf),
        "nothing": Certificate(0.0, 0.0, 0.0),
    }


SHOWN = shown()


@pytest.mark.parametrize("name", SHOWN)
def test_what_notebooks_show_is_whole_and_escaped(name):
    markup = SHOWN[name]._repr_html_()
    reader, text = read(markup)
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("svg") == 1
    assert "details" in tags
    assert "\x1b" not in markup
    assert "\u202e" not in markup
    assert "nan" not in text.lower()


def test_the_sentence_comes_first():
    _, text = read(SHOWN["result"]._repr_html_())
    assert text.startswith(f"MarginResult : {SHOWN['result'].status}")
    _, text = read(SHOWN["overlapping"]._repr_html_())
    assert text.startswith("Verdict : overlapping: every hyperplane")
    assert "rows in conflict" in text
    assert "<script>alert(1)</script>" in text  # as text


def test_an_empty_trace():
    assert "empty" in Trace()._repr_html_()


def test_ends_are_rounded_outward():
    draw = random.Random(3)
    for _ in range(3000):
        lower = draw.choice([0.0, draw.random(), 10.0 ** draw.uniform(-320, 300)])
        upper = lower + abs(draw.gauss(0.0, 1.0)) * 10.0 ** draw.uniform(-18, 2) * (lower or 1.0)
        low, high = outward(lower, upper)
        if lower == upper:
            assert float(low) == lower
            continue
        assert Decimal(low) <= Decimal(lower)
        assert Decimal(upper) <= Decimal(high)
        spread = Decimal(high) - Decimal(low)
        true = Decimal(upper) - Decimal(lower)
        assert spread <= true * Decimal("1.3") + abs(Decimal(upper)) * Decimal("2e-16")


def test_shared_digits_are_bold():
    assert proven(0.70710671, 0.70710685) == "<b>0.707106</b>71 … <b>0.707106</b>85"
    assert proven(0.9, 1.1) == "0.90 … 1.11"
    assert proven(0.0, 0.0) == "<b>0</b>"
    assert proven(0.0, 3.0) == "0.0 … 3.0"
    assert proven(0.25, math.inf) == "0.25 … ∞"


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0 + 1e-9), (5e-324, 1e300), (2.0, math.inf)],
)
def test_an_interval_stays_within_its_picture(lower, upper):
    reader, _ = read(interval_svg(lower, upper))
    bar = next(attributes for tag, attributes in reader.tags if tag == "rect")
    start, width = float(bar["x"]), float(bar["width"])
    assert start >= 0.0
    assert width >= 2.9
    assert start + width <= 340.0
