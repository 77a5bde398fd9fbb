"""The page of benchmarks: bar charts of figures in the tables of other pages. scripts/site writes it."""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLOURS = ("--fcfs", "--room_to_pass", "--stjf")  # of series; scripts/chart has the values
WIDTH, LEFT, RIGHT, BAR, GAP = 860, 150, 836, 14, 12
Figures = dict[str, dict[str, list[list[float]]]]  # by group and series: for each panel, one figure per run


@dataclass
class Chart:
    title: str
    page: str
    heading: str  # the table is the first one below
    panels: dict[str, int]  # title and column of each
    text: str

    def figures(self, rows: list[list[str]]) -> Figures:
        """Returns the figures of a table whose rows are groups."""
        return {row[0]: {"": [numbers(row[column]) for column in self.panels.values()]} for row in rows[1:]}


class Pairs(Chart):
    """The first column is the group, and the second the series."""

    def figures(self, rows: list[list[str]]) -> Figures:
        found: Figures = {}
        for row in rows[1:]:
            found.setdefault(f"{row[0]} {rows[0][0]}", {})[row[1]] = [numbers(row[c]) for c in self.panels.values()]
        return found


class Ratios(Chart):
    """Columns are groups and rows are series. A cell has a figure for each panel, as in .62/1.04."""

    def figures(self, rows: list[list[str]]) -> Figures:
        names = {"fcfs": "fcfs", "**default**": "room_to_pass", "stjf": "stjf"}
        series = {names[row[0]]: row for row in rows if row[0] in names}
        return {group: {name: [[float(x)] for x in series[name][column].split("/")] for name in names.values()}
                for column, group in enumerate(rows[0]) if column > 0}


class Steps(Chart):
    def figures(self, rows: list[list[str]]) -> Figures:
        cells = [(re.match(r"`BM_Step`, 256 running, ([\d,]+ waiting)", row[0]), row[1]) for row in rows]
        return {found[1]: {"": [numbers(cell)[:1]]} for found, cell in cells if found}


CHARTS = [
    Pairs("Coding sessions in vLLM", "docs/howto/vllm_gate_measured.md", "In a real `vllm serve`",
          {"turns per minute": 2, "first token, 95th percentile [s]": 4},
          "`vllm serve` on two CPU cores, with vLLM's order and with takt's gate. The KV of 48 and 64 sessions exceeds "
          "the prefix cache. Lines show the two seeds."),
    Ratios("The default policy", "bench/lab/default/README.md", "Results",
           {"mean over that of workflow_fcfs": 0, "p99 over that of workflow_fcfs": 1},
           "Simulated overload (1.1 times the load that `fcfs` can serve) on eleven workloads. Predicted lengths are "
           "typically wrong by a factor of two. Shorter bars are better."),
    Chart("Code completions without predictions", "docs/reference/policies/room_to_pass.md", "Measured",
          {"mean latency [s]": 1, "99th percentile [s]": 2},
          "Simulation of Azure's code completions of 2023, at 1.1 times the load that `fcfs` can serve."),
    Steps("Cost of a step", "docs/background/measured.md", "The step path", {"microseconds of one CPU core": 1},
          "`BM_Step`: a plan and its commit, with 256 running requests."),
]


def numbers(cell: str) -> list[float]:
    """Returns the figures of a cell: "477, 414" has two, and "1,000" has one."""
    return [float(text.replace(",", "")) for text in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", cell)]


def table(text: str, heading: str) -> list[list[str]]:
    below = text.split(f"## {heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", below, re.M)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return rows[:1] + rows[2:]


def draw(chart: Chart, figures: Figures, style: str) -> str:
    series = list(next(iter(figures.values())))
    columns = len(chart.panels)
    width = (RIGHT - LEFT - 60 * (columns - 1)) / columns
    top = 62 if series[0] else 36
    height = top + 10 + len(figures) * (len(series) * BAR + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
           f'height="{height}" role="img" aria-label="{escape(chart.title)}"><style>{style}</style>',
           f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>']
    at = LEFT
    for name, colour in zip(series, COLOURS):
        if name:
            out += [f'<rect x="{at}" y="16" width="12" height="12" style="fill: var({colour})"/>',
                    f'<text class="label" x="{at + 18}" y="27">{escape(name)}</text>']
            at += 40 + 8 * len(name)
    for panel, title in enumerate(chart.panels):
        left = LEFT + panel * (width + 60)
        most = max(max(runs[panel]) for group in figures.values() for runs in group.values())
        out.append(f'<text class="title" x="{left:.0f}" y="{top - 10}">{escape(title)}</text>')
        y = top + 6.0
        for group, by_series in figures.items():
            if panel == 0:
                middle = y + len(series) * BAR / 2 + 4
                out.append(f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(group)}</text>')
            for name, colour in zip(series, COLOURS if len(series) > 1 else COLOURS[1:]):
                runs = by_series[name][panel]
                mean = sum(runs) / len(runs)
                scale = (width - 48) / most
                out.append(f'<rect x="{left:.1f}" y="{y + 1:.0f}" width="{mean * scale:.1f}" height="{BAR - 2}" '
                           f'style="fill: var({colour})"/>')
                start, end = left + min(runs) * scale, left + max(runs) * scale
                if len(runs) > 1:
                    out.append(f'<path d="M{start:.1f} {y + BAR / 2}H{end:.1f}" style="stroke: var(--ink)"/>')
                out.append(f'<text x="{end + 5:.1f}" y="{y + 11:.0f}" style="font-size: 11px">{mean:.3g}</text>')
                y += BAR
            y += GAP
    return "\n".join([*out, "</svg>"]) + "\n"


def write(root: Path, to: Path, style: str) -> None:
    """Writes benchmarks.md and its charts to the folder of the site's pages."""
    page = ["# Benchmarks", "",
            "The charts show figures that the tree contains. Each chart is drawn from the table to which it links when "
            "the site is built. The page with the table has the command that measured the figures. No figure is from a "
            "GPU.", "", "## Latency by load", "", "![Latency of workflows by load](docs/latency_by_load.svg)", "",
            "A simulation of 6,000 agentic workflows on Llama 3.1 8B and one H100 ([table and "
            "command](docs/background/measured.md#the-readmes-chart))."]
    for number, chart in enumerate(CHARTS):
        try:
            figures = chart.figures(table((root / chart.page).read_text(), chart.heading))
            picture = draw(chart, figures, style)
        except (IndexError, KeyError, TypeError, ValueError, StopIteration) as error:
            raise SystemExit(f"{chart.page}: no figures of {chart.title} below {chart.heading}: {error!r}") from error
        (to / f"benchmark{number}.svg").write_text(picture)
        page += ["", f"## {chart.title}", "", f"![{chart.title}](benchmark{number}.svg)", "",
                 f"{chart.text} [Table and command]({chart.page})."]
    (to / "benchmarks.md").write_text("\n".join(page) + "\n")
