# %% [markdown]
# # How long does a move freeze a partition?
#
# W is the rate at which a partition is written while it is copied, B that of the copy. `narad-sim
# sweep` runs one experiment with a load after the other and leaves `rows.csv`; this notebook reads it,
# draws the freeze over W/B, and checks what the README says of it.
#
#     cargo build --release -p narad-sim
#     python3 examples/notebook/freeze_over_load.py              # sweeps, then draws freezes.svg
#     python3 examples/notebook/freeze_over_load.py freezes      # draws a sweep that is there already
#
# It needs Python 3.9 and nothing else. Jupyter and editors open it as a notebook (a cell begins at
# each `# %%`); where matplotlib is installed, they show the plot by it.

# %%
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parents[2] if "__file__" in globals() else Path.cwd()
EXPERIMENT = TOP / "narad-sim/scenarios/experiments/freeze-over-load.toml"
SIM = os.environ.get("NARAD_SIM", str(TOP / "target/release/narad-sim"))
LOADS = [0.1, 0.4, 0.8, 1.0, 1.2, 2.0]
SEEDS = "1..=5"


# %% [markdown]
# ## The sweep
# An experiment is a text file, so a load is a replaced number.

# %%
def sweep(out):
    """Runs the experiment with each load and seed; leaves rows.csv and rows.jsonl in `out`."""
    text = EXPERIMENT.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for load in LOADS:
            varied, times = re.subn(r"write_over_copy = [0-9.]+", f"write_over_copy = {load}", text)
            assert times == 1, "the experiment has one load"
            Path(folder, f"load-{load}.toml").write_text(varied)
        command = [SIM, "sweep", folder, "--seeds", SEEDS, "--out", str(out), "--force"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# %% [markdown]
# ## The rows
# One row is one run. Times are microseconds of simulated time, lists are joined by spaces, and a cell
# is empty where there was nothing to count.

# %%
def freezes_by_load(rows_csv):
    """Returns the lengths of all freezes, in seconds, by W/B."""
    freezes = defaultdict(list)
    with open(rows_csv, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert row["verdict"] == "good", f"{row['scenario']} with seed {row['seed']}: {row}"
            if row["write_over_copy"]:
                load = round(float(row["write_over_copy"]), 3)
                freezes[load] += [int(us) / 1e6 for us in row["freezes_us"].split()]
    return dict(sorted(freezes.items()))


# %% [markdown]
# ## The plot
# Both ways draw the same: every freeze as a dot, a line through the medians, seconds on a logarithmic
# axis.

# %%
def by_matplotlib(freezes):
    """Draws the plot where a notebook shows it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    for load, lengths in freezes.items():
        axes.plot([load] * len(lengths), lengths, ".", color="tab:gray")
    axes.plot(list(freezes), [statistics.median(of) for of in freezes.values()], "o-")
    axes.set(yscale="log", xlabel="W/B", ylabel="freeze (s)")
    axes.axvline(1, linestyle=":")
    return figure


def as_svg(freezes, width=640, height=400, margin=60):
    """Returns the plot as the text of an SVG file."""
    import math

    low = math.floor(math.log10(min(min(of) for of in freezes.values())))
    high = math.ceil(math.log10(max(max(of) for of in freezes.values())))
    right = max(freezes) * 1.05

    def x(load):
        return margin + (width - 2 * margin) * load / right

    def y(seconds):
        return height - margin - (height - 2 * margin) * (math.log10(seconds) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for exponent in range(low, high + 1):
        at, label = y(10.0**exponent), f"{10.0**exponent:g} s"
        parts.append(f'<path d="M{margin} {at:.1f}H{width - margin}" stroke="#ddd"/>')
        parts.append(f'<text x="{margin - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<path d="M{x(1):.1f} {margin}V{height - margin}" stroke="#888" '
                 'stroke-dasharray="2 4"/>')
    for load, lengths in freezes.items():
        parts += [f'<circle cx="{x(load):.1f}" cy="{y(it):.1f}" r="2" fill="#999"/>' for it in lengths]
        parts.append(f'<text x="{x(load):.1f}" y="{height - margin + 18}" '
                     f'text-anchor="middle">{load:g}</text>')
    line = " ".join(f"{x(load):.1f},{y(statistics.median(of)):.1f}" for load, of in freezes.items())
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    parts.append(f'<text x="{width / 2}" y="{height - 14}" text-anchor="middle">W/B</text>')
    parts.append(f'<text x="{width / 2}" y="28" text-anchor="middle">freeze over W/B</text>')
    return "\n".join([*parts, "</svg>", ""])


# %% [markdown]
# ## What it shows
# While writes are slower than the copy, every pass leaves less than the one before, and the freeze
# waits for a few blocks and two round trips. Beyond 1 no pass catches up, and the freeze is as long
# as it takes to copy what is left.

# %%
def main(arguments):
    if arguments:
        folder = Path(arguments[0])
        freezes = freezes_by_load(folder / "rows.csv")
    else:
        with tempfile.TemporaryDirectory() as folder:
            sweep(folder)
            freezes = freezes_by_load(Path(folder, "rows.csv"))
    medians = {load: statistics.median(lengths) for load, lengths in freezes.items()}
    print("W/B     freezes   median")
    for load, median in medians.items():
        print(f"{load:<7g} {len(freezes[load]):7}   {median * 1000:.0f} ms")

    below = [median for load, median in medians.items() if load <= 0.8]
    above = [median for load, median in medians.items() if load >= 1.2]
    assert below and max(below) < 0.2, f"below 1 a freeze is short: {medians}"
    assert above and min(above) > 5 * max(below), f"beyond 1 it is not: {medians}"

    picture = Path(os.environ.get("NARAD_PLOT", "freezes.svg"))
    picture.write_text(as_svg(freezes), encoding="utf-8")
    print(f"drawn in {picture}")
    return freezes


if __name__ == "__main__" and "ipykernel" not in sys.modules:
    main(sys.argv[1:])

# %%
# In a notebook: the sweep runs here, and the plot is shown where matplotlib is installed.
if "ipykernel" in sys.modules:
    figure = by_matplotlib(main([]))
