"""plot.py RESULTS FOLDER: draws the lines of a file of results as SVG that is read in light and dark, and prints the files, as JSON."""
import json
import re
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, PercentFormatter

# Colours stand for variables of CSS. Lines are told apart also by those who see red and green alike; the first is what the plot is about.
INK, GRID, PAPER = "#000001", "#000002", "#000003"
light = {INK: "#1f2328", GRID: "#e4e7eb", PAPER: "#ffffff"}
dark = {INK: "#e6edf3", GRID: "#262c36", PAPER: "#0d1117"}
for i, pair in enumerate(
    "#0060c7 #6cb6ff #b54708 #f0a55b #8a3ffc #c8a2ff #00706b #4fc7bd #a8326e #f28cbb #6b6200 #d3c244 "
    "#5c5c66 #a9a9b5 #1b7f3b #6fd08c #a11d1d #ff8f8f #3f3fa8 #a3a3ff".split()
):
    (dark if i % 2 else light)[f"#0001{i // 2:02x}"] = pair
whole = FuncFormatter(lambda value, _: f"{value:,.0f}")


def connections(axes, lines, limit):
    axes.set(title="Throughput of a 784-2048-2048-10 network", xlabel="connections, each with one request at a time")
    axes.set_ylabel("predictions per second, one inference thread")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(whole)
    axes.yaxis.set_major_formatter(whole)
    axes.axhline(limit, color=INK, linestyle="--", label=f"limit: the raw libtorch loop, {limit:,.0f}/s")
    # Every line is drawn as its share of the limit that was measured beside it: at other times the machine was another.
    return [(line["name"], [(point["x"], point["y"] / line["limit"] * limit) for point in line["points"]]) for line in lines]


def offered(axes, lines, limit):
    axes.set(title="Latency of a 784-2048-2048-10 network", xlabel="offered load as a share of the limit, requests at random times")
    axes.set_ylabel("milliseconds to the answer, one inference thread")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axvline(1, color=INK, linestyle="--", label=f"limit: raw loop, {limit:,.0f}/s")
    return [(line["name"], [(point["x"], point["y"]) for point in line["points"]]) for line in lines]


def draw(plot, lines, path):
    figure, axes = plt.subplots(figsize=(9, 4.6), layout="constrained")
    drawn = plot(axes, lines, statistics.median(line["limit"] for line in lines))
    for i, (name, points) in enumerate(drawn):
        width = 3 if i == 0 else 2
        axes.plot(*zip(*points), "o-", label=name, color=f"#0001{i:02x}", linewidth=width, markersize=4, zorder=9 - i)
    if plot is connections:
        axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), labelcolor="linecolor", frameon=False)
    figure.savefig(path, facecolor=PAPER, metadata={"Date": None})
    plt.close(figure)
    svg = re.sub(r"#000[01][0-9a-f]{2}", lambda match: f"var(--c{match[0][1:]})", path.read_text())
    variables = lambda theme: "".join(f"--c{name[1:]}:{value};" for name, value in theme.items())
    style = f"svg{{{variables(light)}}}@media(prefers-color-scheme:dark){{svg{{{variables(dark)}}}}}"
    path.write_text(svg.replace("<defs>", f"<style>{style}</style>\n <defs>", 1))


text = {f"{name}color": INK for name in ("text.", "axes.label", "xtick.", "ytick.")}
plt.rcParams.update({**text, "axes.edgecolor": INK, "axes.facecolor": PAPER, "axes.grid": True, "grid.color": GRID, "svg.hashsalt": "sconce"})
plt.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False})
results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
written = []
for plot in (connections, offered):
    lines = [line for result in results for line in result.get("lines", []) if line["plot"] == plot.__name__]
    if lines:
        written.append(str(folder / f"{plot.__name__}.svg"))
        draw(plot, sorted(lines, key=lambda line: line["name"] != "sconce"), Path(written[-1]))
print(json.dumps(written))
