"""
A path of C, certified at every step
====================================

From soft to hard margins: each fit is a certified optimum, and starts where the last one ended.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from momentron import margin_path, max_margin

# %%
# The breast cancer data, standardised; a third is held out.

X, y = load_breast_cancer(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
scaler = StandardScaler().fit(train)
train, test = scaler.transform(train), scaler.transform(test)

Cs = np.logspace(-3, 5, 25)
path = margin_path(train, y_train, Cs=Cs, X_test=test, y_test=y_test)
hard = max_margin(train, y_train)
print(f"largest certified gap on the path: {path['gap'].max():.1e}")
print(f"hard margin in [{hard.lower:.9f}, {hard.upper:.9f}]")

# %%
# The number of support vectors, and the test error that decides.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 4.2), layout="constrained", sharex=True)
top.plot(Cs, path["support"], "o-", color="#0072b2", markersize=4)
top.set(ylabel="support vectors", yscale="log", title="Breast cancer: from soft to hard margin")
bottom.plot(Cs, 100 * path["error"], "s-", color="#d55e00", markersize=4)
bottom.set(xscale="log", xlabel="C", ylabel="test error, %")
plt.show()

# %%
# **Try next**: ``path.plot()`` and ``path.to_frame()``; ``MaxMarginClassifierCV(Cs=Cs)`` chooses C
# by cross-validation along such paths (what warm starts save: :doc:`/explanations/auto`). C means
# what it means in LinearSVC: :doc:`/howto/replace-svc`.
