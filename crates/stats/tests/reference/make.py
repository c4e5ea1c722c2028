#!/usr/bin/env python3
"""Writes reference.json: what SciPy and statsmodels make of fixed data, for the test `reference`.

    python3 -m venv v && v/bin/pip install scipy statsmodels && v/bin/python make.py > reference.json

Formulas that they do not have (moderated t, Williams' test, Hedges' g) are written out with NumPy from
the papers that the crate names. Needed only to change the data; the tests read what is committed.
"""
import itertools
import json
import sys

import numpy as np
import scipy
from scipy import optimize, special, stats
import statsmodels
import statsmodels.api as sm
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20261122)
out = {"made_with": {"python": sys.version.split()[0], "numpy": np.__version__,
                     "scipy": scipy.__version__, "statsmodels": statsmodels.__version__}}

xs = [1e-3, 0.03, 0.5, 1.0, 2.5, 7.0, 14.9, 15.1, 120.0]
out["normal"] = [[x, stats.norm.cdf(x), stats.norm.ppf(0.5 + x / 300)] for x in [-9, -4.5, -1, 0, 0.3, 2.2, 3.1, 6]]
out["t"] = [[x, df, stats.t.cdf(x, df), stats.t.ppf(0.5 + abs(x) / 30, df)]
            for x in [-12, -3.3, -0.2, 0.7, 2.8, 8.6] for df in [1, 2.5, 4, 8, 31.7, 400]]

samples = []
for n, m, scale in [(2, 3, 1), (5, 5, 1), (5, 8, 4), (12, 9, 0.1), (30, 31, 2)]:
    a = np.round(rng.normal(10, 1, n), 6)
    b = np.round(rng.normal(11, scale, m), 6)
    d = np.sort(np.subtract.outer(b, a).ravel())
    welch = stats.ttest_ind(b, a, equal_var=False)
    ci = welch.confidence_interval(0.95)
    mean_ci = stats.t.interval(0.95, n - 1, a.mean(), stats.sem(a))
    pooled = np.sqrt(((n - 1) * a.var(ddof=1) + (m - 1) * b.var(ddof=1)) / (n + m - 2))
    j = np.exp(special.gammaln((n + m - 2) / 2) - special.gammaln((n + m - 3) / 2)) / np.sqrt((n + m - 2) / 2)
    la, lb = a / a.mean(), b / b.mean()
    log_error = np.sqrt(la.var(ddof=1) / n + lb.var(ddof=1) / m)
    va, vb = la.var(ddof=1) / n, lb.var(ddof=1) / m
    log_df = (va + vb) ** 2 / (va ** 2 / (n - 1) + vb ** 2 / (m - 1))
    reach = stats.t.ppf(0.975, log_df) * log_error
    ratio = b.mean() / a.mean()
    # Hodges-Lehmann by enumeration of the null distribution where that is small.
    low = high = None
    if n + m <= 21:
        counts = np.zeros(n * m + 1)
        for ranks in itertools.combinations(range(n + m), n):
            counts[sum(ranks) - n * (n - 1) // 2] += 1
        below = np.cumsum(counts / counts.sum())
        k = int(np.sum(below <= 0.025)) - 1
        if k >= 0:
            low, high = float(d[k]), float(d[len(d) - 1 - k])
    samples.append({
        "a": a.tolist(), "b": b.tolist(),
        "mean_interval": [a.mean(), *mean_ci],
        "difference": [b.mean() - a.mean(), ci.low, ci.high],
        "welch_p": welch.pvalue,
        "ratio_of_means": [ratio, ratio * np.exp(-reach), ratio * np.exp(reach)],
        "hedges_g": j * (b.mean() - a.mean()) / pooled,
        "mann_whitney_p": stats.mannwhitneyu(a, b, method="exact").pvalue,
        "hodges_lehmann": [float(np.median(d)), low, high],
        "pearson": stats.pearsonr(a[: min(n, m)], b[: min(n, m)])[0] if min(n, m) > 2 else None,
    })
out["samples"] = samples

ties_a = [1.0, 2, 2, 3, 5, 5, 8, 9]
ties_b = [2.0, 5, 5, 7, 9, 9, 9, 12, 13]
out["ties"] = {"a": ties_a, "b": ties_b,
               "p": stats.mannwhitneyu(ties_a, ties_b, method="asymptotic", use_continuity=True).pvalue}

diffs = np.round(rng.normal(0.4, 1, 11), 6)
walsh = np.sort([(diffs[i] + diffs[j]) / 2 for i in range(11) for j in range(i, 11)])
sums = np.zeros(11 * 12 // 2 + 1)
for signs in itertools.product([0, 1], repeat=11):
    sums[sum(r + 1 for r, s in enumerate(signs) if s)] += 1
k = int(np.sum(np.cumsum(sums / sums.sum()) <= 0.025)) - 1
out["signed_rank"] = {"differences": diffs.tolist(),
                      "center": [float(np.median(walsh)), float(walsh[k]), float(walsh[len(walsh) - 1 - k])]}

ps = np.round(rng.uniform(0, 1, 25) ** 4, 8)
out["holm"] = {"p": ps.tolist(), "adjusted": multipletests(ps, method="holm")[1].tolist()}

# Slope with a constant for each side.
x = np.round(rng.normal(5, 1, 14), 6)
side = np.repeat([0, 1], 7)
y = np.round(3 + 40 * side + 2.5 * x + rng.normal(0, 0.7, 14), 6)
fit = sm.OLS(y, np.column_stack([np.ones(14), side, x])).fit()
out["slope"] = {"x": x.tolist(), "y": y.tolist(), "first": 7,
                "value": [fit.params[2], *fit.conf_int(0.05)[2]]}

# Williams 1959 as Steiger 1980 writes it.
williams = []
for r12, r13, r23, n in [(0.95, 0.9, 0.85, 10), (0.7, 0.1, 0.3, 25), (0.99, 0.97, 0.99, 10)]:
    det = np.linalg.det(np.array([[1, r12, r13], [r12, 1, r23], [r13, r23, 1]]))
    t = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) /
                              (2 * (n - 1) / (n - 3) * det + (r12 + r13) ** 2 / 4 * (1 - r23) ** 3))
    williams.append([r12, r13, r23, n, 2 * stats.t.sf(abs(t), n - 3)])
out["williams"] = williams
out["fisher"] = [[r, n, s, m, 2 * stats.norm.sf(abs(np.arctanh(r) - np.arctanh(s)) / np.sqrt(1 / (n - 3) + 1 / (m - 3)))]
                 for r, n, s, m in [(0.9, 10, 0.5, 8), (-0.3, 20, 0.4, 30)]]

# Moderated t after Smyth 2004: 60 figures, 4 and 5 runs, on logarithms. Variances spread as the method
# assumes and figures are independent, so that what limits the fit is not in play.
g, n, m = 60, 4, 5
d = n + m - 2
sigma = np.sqrt(0.0004 * 6 / rng.chisquare(6, g))
a = np.exp(rng.normal(3, 1, g)[:, None] + sigma[:, None] * rng.normal(size=(g, n)))
b = a.mean(axis=1)[:, None] * np.exp(sigma[:, None] * rng.normal(size=(g, m)))
a, b = np.round(a, 9), np.round(b, 9)
la, lb = np.log(a), np.log(b)
s2 = ((n - 1) * la.var(axis=1, ddof=1) + (m - 1) * lb.var(axis=1, ddof=1)) / d
e = np.log(s2) - special.digamma(d / 2) + np.log(d / 2)
excess = e.var(ddof=1) - special.polygamma(1, d / 2)
half = optimize.brentq(lambda h: special.polygamma(1, h) - excess, 1e-6, 1e9)
d0, s02 = 2 * half, np.exp(e.mean() + special.digamma(half) - np.log(half))
strange = stats.f.sf(s2 / s02, d, d0)
assert strange.min() > 0.01, "the fit would be made without some: choose another seed"
moderated = (d0 * s02 + d * s2) / (d0 + d)
t = (lb.mean(axis=1) - la.mean(axis=1)) / np.sqrt(moderated * (1 / n + 1 / m))
# Belief in the center: mean squared correlation within sides beyond chance.
res = np.hstack([la - la.mean(axis=1)[:, None], lb - lb.mean(axis=1)[:, None]])
r2 = np.corrcoef(res) ** 2  # centerd already, by side
pairs = r2[np.triu_indices(g, 1)]
r2 = max(0.0, float(np.mean((pairs - 1 / d) / (1 - 1 / d))))
believed = d / (1 / g + r2)
assert d0 < believed, (d0, believed)
out["moderated"] = {"a": a.tolist(), "b": b.tolist(), "p": (2 * stats.t.sf(np.abs(t), d + d0)).tolist(),
                    "own": stats.ttest_ind(lb, la, axis=1, equal_var=False).pvalue.tolist()}

print(json.dumps(out, default=float))
