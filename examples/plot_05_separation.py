"""
Separation in a clinical table
==============================

Every treated patient recovered, so a logistic regression has no finite estimate of the treatment's
effect, but programs print one nevertheless. The verdict is exact, and comes with a proof.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from momentron import check_separability, verify

# %%
# Sixty patients with an age, a dose and a treatment.

rng = np.random.default_rng(1)
table = pd.DataFrame(
    {
        "age": rng.integers(30, 80, 60),
        "dose": np.round(rng.uniform(0, 10, 60), 1),
        "treated": (rng.random(60) < 0.25).astype(int),
    }
)
risk = 0.6 * table["dose"] - 0.03 * (table["age"] - 55) - 3 + rng.logistic(size=60)
recovered = ((risk > 0) | (table["treated"] == 1)).astype(int)

# %%
# What a program prints depends on its penalty, or on where it stopped.

Cs = np.logspace(-1, 7, 17)
standard = (table - table.mean()) / table.std()
paths = np.array(
    [
        LogisticRegression(C=C, max_iter=50_000, tol=1e-8).fit(standard, recovered).coef_[0]
        for C in Cs
    ]
)

# %%
# The verdict names the direction along which the likelihood keeps increasing.

verdict = check_separability(table, recovered)
direction = dict(zip(table.columns, verdict.coef[0].round(6).tolist(), strict=True))
print(verdict)
print("direction:", direction)
print("verified in exact arithmetic:", verify(verdict.to_json(), table, recovered))
without = check_separability(table.drop(columns="treated"), recovered)
print("without the treatment:", without.kind)

# %%
# Age and dose converge; the treatment does not.

figure, left = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
for value, colour, mark, name in (
    (0, "#0072b2", "o", "not recovered"),
    (1, "#d55e00", "^", "recovered"),
):
    rows = recovered == value
    height = table["treated"][rows] + rng.uniform(-0.15, 0.15, rows.sum())
    left.scatter(table["dose"][rows], height, c=colour, marker=mark, label=name, s=28)
left.set(xlabel="dose", yticks=[0, 1], ylim=(-0.4, 1.7), title="Nobody treated stayed ill")
left.set_yticklabels(["untreated", "treated"])
left.legend(frameon=False, loc="upper left", ncols=2)

figure, right = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
for name, path, style in zip(table.columns, paths.T, ("-", "--", "-."), strict=True):
    right.plot(Cs, path, style, label=name, color="#d55e00" if name == "treated" else "0.35")
right.set(xscale="log", xlabel="C of the ridge penalty", ylabel="coefficient (standardised)")
right.set(title="One estimate is infinite")
right.legend(frameon=False)
plt.show()

# %%
# **Try next**: change one treated patient to "not recovered" and ask again; run ``momentron check
# table.csv --target recovered --proof proof.json`` on your own table. What to report:
# :doc:`/howto/logistic`.
