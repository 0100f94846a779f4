"""What limits the regret of picking by prediction: ptc validate RUNS.csv --format csv | python3 regret.py RUNS.csv

Runs on several nodes: how far they scatter about their predictions, whether that follows anything that a row says, and
what a model would lose by picking that knows the expected time of every row. Runs on one node: whether they are
measurements of their own.
"""
import collections, csv, itertools, math, random, statistics, sys

with open(sys.argv[1]) as lines:
    rows = {row["id"]: row for row in csv.DictReader(lines)}


class Run:
    def __init__(self, predicted):
        row = rows[predicted["id"]]
        number = lambda name: int(row[name])
        self.setup, self.devices, self.batch = row["setup"], number("n_gpus"), number("global_batch_seqs")
        self.tp, self.dp, self.pp, self.mb = number("tp"), number("dp"), number("pp"), number("micro_batch")
        self.hidden, self.layers = number("hidden"), number("layers")
        self.micro_batches = self.batch // self.dp // self.mb
        self.slots = self.micro_batches + self.pp - 1
        self.measured, self.predicted = float(predicted["measured_s"]), float(predicted["predicted_s"])
        self.error = math.log(self.measured / self.predicted)  # how much longer than predicted it takes
        self.group = predicted["group"]


runs = [Run(row) for row in csv.DictReader(sys.stdin) if row["predicted_s"]]
several = [run for run in runs if run.setup == "multi" and run.tp <= 8]
single = [run for run in runs if run.setup == "single"]


def by(key, items):
    found = collections.defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def percent(value):
    return f"{100 * value:.1f} %"


def split(run):
    return run.devices, run.tp, run.dp, run.pp


def spread_within(key, items):
    """Of errors of runs that only differ in what |key| leaves out."""
    groups = [[run.error for run in group] for group in by(key, items).values() if len(group) > 1]
    squares = sum(sum((e - statistics.mean(group)) ** 2 for e in group) for group in groups)
    return math.sqrt(squares / sum(len(group) - 1 for group in groups))


partial = [run for run in several if run.tp in (2, 4)]
whole = [run for run in several if run.tp not in (2, 4)]
print("several nodes: time beyond the prediction, mean and standard deviation")
for name, items in (("tp 1 and 8", whole), ("tp 4", [r for r in partial if r.tp == 4]), ("tp 2", [r for r in partial if r.tp == 2])):
    errors = [run.error for run in items]
    print(f"  {name:11s} {len(items):3d} rows {percent(statistics.mean(errors)):>7s} {percent(statistics.stdev(errors)):>7s}")
print(f"runs of one split with other micro-batches differ by (standard deviation): tp 8 "
      f"{percent(spread_within(split, [r for r in whole if r.tp == 8]))}, tp 2 and 4 {percent(spread_within(split, partial))}")

print("the same layers, micro-batch and bytes from each rank and node in the same slots, 16 stages:")
for a, b in itertools.product(several, partial):
    if (a.tp, a.pp, a.slots, a.hidden, a.mb * b.tp) == (8, b.pp, b.slots, b.hidden, b.mb * a.tp) and b.tp == 4 and b.pp == 16:
        print(f"  tp 8 micro-batch {a.mb:2d}: {percent(a.error)} beyond; tp 4 micro-batch {b.mb:2d}: {percent(b.error)}")


# --- does it follow anything that a row says?

def solve(matrix, right):
    """Gaussian elimination with the largest pivot."""
    size = len(right)
    work = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(work[k][i]))
        work[i], work[pivot] = work[pivot], work[i]
        for k in range(i + 1, size):
            factor = work[k][i] / work[i][i]
            work[k] = [x - factor * y for x, y in zip(work[k], work[i])]
    out = [0.0] * size
    for i in reversed(range(size)):
        out[i] = (work[i][size] - sum(work[i][k] * out[k] for k in range(i + 1, size))) / work[i][i]
    return out


def left_out_error(features):
    """Of the least squares of the errors: each run is predicted by the others."""
    table = [[1.0] + [feature(run) for feature in features] for run in partial]
    squares = 0
    for left in range(len(partial)):
        kept = [k for k in range(len(partial)) if k != left]
        size = range(len(table[0]))
        normal = [[sum(table[k][i] * table[k][j] for k in kept) for j in size] for i in size]
        weights = solve(normal, [sum(table[k][i] * partial[k].error for k in kept) for i in size])
        squares += (partial[left].error - sum(w * x for w, x in zip(weights, table[left]))) ** 2
    return math.sqrt(squares / len(partial))


# Factors, and seconds in proportion to something, as parts of the prediction.
terms = {
    "tp": lambda r: float(r.tp == 2),
    "devices": lambda r: math.log(r.devices),
    "log micro-batch": lambda r: math.log(r.mb),
    "log pp": lambda r: math.log(r.pp),
    "log dp": lambda r: math.log(r.dp),
    "log micro-batches": lambda r: math.log(r.micro_batches),
    "step": lambda r: 1 / r.predicted,
    "slots": lambda r: r.slots / r.predicted,
    "layers": lambda r: r.slots * r.layers / r.pp / r.predicted,
    "bytes of sends": lambda r: r.mb * r.hidden * r.slots / r.tp / r.predicted / 1e4,
    "bytes of tp": lambda r: r.mb * r.hidden * r.slots * r.layers / r.pp / r.predicted / 1e5,
    "gradients": lambda r: 12 * r.hidden**2 * r.layers / r.tp / r.pp / r.predicted / 1e9,
}
tried = [(left_out_error([terms[name] for name in names]), names)
         for count in (1, 2, 3) for names in itertools.combinations(terms, count)]
best = min(tried)
print(f"tp 2 and 4, each row predicted from the others: {percent(left_out_error([]))} off with one factor, {percent(best[0])} with "
      f"the best of {len(tried)} forms ({', '.join(best[1])})")

# --- what picking loses


def regret(times, items):
    picked = min(range(len(items)), key=lambda k: times[k])
    return items[picked].measured / min(run.measured for run in items) - 1


groups = list(by(lambda run: run.group, several).values())
print("groups of several nodes: regret as predicted, and what the second fastest run loses")
for group in groups:
    order = sorted(run.measured for run in group)
    print(f"  {group[0].devices} GPUs: {percent(regret([r.predicted for r in group], group))}, {percent(order[1] / order[0] - 1)}")
print("the same with tp 4 (tp 2: 1.35) longer by a factor:")
before = None
for step in range(0, 350):
    factor = {4: 1 + step / 1000, 2: 1.35}
    now = [percent(regret([r.predicted * factor.get(r.tp, 1) for r in g], g)) for g in groups]
    if now != before:
        print(f"  from {factor[4]:.3f}: {', '.join(now)}")
    before = now
for group in groups:
    errors = [run.error for run in group if run.tp == 4]
    print(f"  fitted on {group[0].devices} GPUs: {math.exp(statistics.mean(errors)):.3f}, give or take "
          f"{statistics.stdev(errors) / math.sqrt(len(errors)):.3f}")


def ideal_regrets(spread_whole, spread_partial, draws=4000):
    """Of a model that knows every expected time, where runs scatter as these do."""
    dice = random.Random(1)
    means = {tp: statistics.mean(r.error for r in several if r.tp == tp) for tp in (2, 4, 8)}
    means[1] = means[8]
    found = []
    for _ in range(draws):
        lost = []
        for group in groups:
            expected = [r.predicted * math.exp(means[r.tp]) for r in group]
            times = [t * math.exp(dice.gauss(0, spread_partial if r.tp in (2, 4) else spread_whole))
                     for t, r in zip(expected, group)]
            lost.append(times[min(range(len(group)), key=lambda k: expected[k])] / min(times) - 1)
        found.append(statistics.mean(lost))
    return sorted(found)


found = ideal_regrets(spread_within(split, [r for r in whole if r.tp == 8]), spread_within(split, partial))
print(f"a model that knows every expected time, where runs scatter as those of one split: regret {percent(statistics.mean(found))} "
      f"on the average, {percent(found[len(found) // 2])} in the median, at most 1 % in {percent(sum(x <= .01 for x in found) / len(found))} of draws")

# --- one node: sums of a few measured layers

far = []
for alike in by(lambda r: (r.hidden, r.devices, r.batch, r.tp, r.dp, r.pp, r.mb), single).values():
    points = sorted((r.layers, r.measured) for r in alike)
    for (l0, t0), (l1, t1), (l2, t2) in zip(points, points[1:], points[2:]):
        far.append(abs(t0 + (t2 - t0) * (l1 - l0) / (l2 - l0) - t1) / t1)
print(f"one node: of {len(far)} runs between two others that only differ in layers, {sum(x < 1e-6 for x in far)} lie on their line "
      f"to a millionth, the farthest {percent(max(far))} beside it")


def layer_seconds(hidden, tp, mb):
    """Of a micro-batch through a layer, from runs without a pipeline, by differences in layers and micro-batches."""
    found = []
    for alike in by(lambda r: (r.dp, r.devices), [r for r in single if (r.hidden, r.tp, r.mb, r.pp) == (hidden, tp, mb, 1)]).values():
        slopes = {}
        for m, at in by(lambda r: r.micro_batches, alike).items():
            ends = min(at, key=lambda r: r.layers), max(at, key=lambda r: r.layers)
            if ends[0].layers < ends[1].layers:
                slopes[m] = (ends[1].measured - ends[0].measured) / (ends[1].layers - ends[0].layers)
        if len(slopes) > 1:
            found.append((slopes[max(slopes)] - slopes[min(slopes)]) / (max(slopes) - min(slopes)))
    return found


print("ms of a micro-batch through a layer, least and most over dp:")
for hidden, tp in itertools.product((1024, 2048), (1, 2, 4, 8)):
    cells = []
    for mb in (1, 2, 4, 8):
        found = layer_seconds(hidden, tp, mb)
        if found:
            cells.append(f"{mb} samples {1e3 * min(found):.3f} to {1e3 * max(found):.3f}")
    print(f"  width {hidden}, tp {tp}: {'; '.join(cells)}")
