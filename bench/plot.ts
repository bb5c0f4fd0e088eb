/** A plot as SVG that is read in light and dark: lines that are named where they end, over two axes. */
import type { Scale, ScaleOptions } from "./scale.ts";
import { spreadApart } from "./scale.ts";

export interface Plot {
  readonly title: string;
  /** What there is to see, for those who do not see it. */
  readonly description: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly PlotLine[];
  /** A line across the plot, over all of the other axis. */
  readonly limit: { readonly axis: "x" | "y"; readonly value: number; readonly label: string };
}

export interface Axis {
  /** With its unit. */
  readonly label: string;
  readonly domain: readonly [number, number];
  scale(options: ScaleOptions): Scale;
  format(value: number): string;
}

export interface PlotLine {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

const WIDTH = 760;
const HEIGHT = 400;
const MARGIN = { top: 64, bottom: 56, left: 72 } as const;
/** Of a letter in the names of lines, on average and not too little. */
const LETTER_WIDTH = 7.5;
const LABEL_GAP = 17;
/** Told apart also by those who see red and green alike; the first is of what the plot is about. */
const colours = [
  { light: "#0060c7", dark: "#6cb6ff" },
  { light: "#b54708", dark: "#f0a55b" },
  { light: "#8a3ffc", dark: "#c8a2ff" },
  { light: "#00706b", dark: "#4fc7bd" },
  { light: "#a8326e", dark: "#f28cbb" },
  { light: "#6b6200", dark: "#d3c244" },
] as const;

export function drawPlot(plot: Plot): string {
  const right = WIDTH - 30 - LETTER_WIDTH * Math.max(...plot.lines.map(({ name }) => name.length));
  const bottom = HEIGHT - MARGIN.bottom;
  const x = plot.x.scale({ domain: plot.x.domain, range: [MARGIN.left, right] });
  const y = plot.y.scale({ domain: plot.y.domain, range: [bottom, MARGIN.top] });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-labelledby="title description">`,
    `<title id="title">${escaped(plot.title)}</title>`,
    `<desc id="description">${escaped(plot.description)}</desc>`,
    style(plot.lines.length),
    `<rect class="paper" width="${WIDTH}" height="${HEIGHT}" rx="8"/>`,
    text(plot.title, { x: MARGIN.left, y: 26, kind: "title" }),
    ...y.ticks.flatMap((tick) => [
      `<path class="grid" d="M${MARGIN.left} ${round(y.at(tick))}H${round(right)}"/>`,
      text(plot.y.format(tick), { x: MARGIN.left - 8, y: y.at(tick) + 4, kind: "tick", anchor: "end" }),
    ]),
    ...x.ticks.flatMap((tick) => [
      `<path class="axis" d="M${round(x.at(tick))} ${bottom}v5"/>`,
      text(plot.x.format(tick), { x: x.at(tick), y: bottom + 20, kind: "tick", anchor: "middle" }),
    ]),
    `<path class="axis" d="M${MARGIN.left} ${bottom}H${round(right)}"/>`,
    text(plot.x.label, { x: (MARGIN.left + right) / 2, y: HEIGHT - 14, kind: "label", anchor: "middle" }),
    text(plot.y.label, { x: MARGIN.left, y: 45, kind: "label" }),
    ...limit(plot, { x, y, right, bottom }),
    ...lines(plot.lines, { x, y, bottom }),
    "</svg>",
    "",
  ].join("\n");
}

function limit(
  { limit: { axis, value, label } }: Plot,
  { x, y, right, bottom }: { x: Scale; y: Scale; right: number; bottom: number },
): string[] {
  if (axis === "y") {
    const at = y.at(value);
    return [
      `<path class="limit" d="M${MARGIN.left} ${round(at)}H${round(right)}"/>`,
      text(label, { x: MARGIN.left + 8, y: at - 7, kind: "limit-name" }),
    ];
  }
  const at = x.at(value);
  return [
    `<path class="limit" d="M${round(at)} ${MARGIN.top}V${bottom}"/>`,
    text(label, { x: at + 8, y: MARGIN.top - 8, kind: "limit-name", anchor: "end" }),
  ];
}

function lines(drawn: readonly PlotLine[], { x, y, bottom }: { x: Scale; y: Scale; bottom: number }): string[] {
  const ends = drawn.map(({ points }) => y.at(points.at(-1)?.y ?? 0));
  const labels = spreadApart(ends, { gap: LABEL_GAP, max: bottom });
  // The first is drawn last, over the others.
  return drawn
    .map(({ name, points }, i) => {
      const places = points.map((point) => [round(x.at(point.x)), round(y.at(point.y))] as const);
      const [lastX = 0] = places.at(-1) ?? [];
      return [
        `<g class="line-${i}">`,
        `<polyline points="${places.map((place) => place.join(",")).join(" ")}"/>`,
        ...places.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3"/>`),
        text(name, { x: lastX + 10, y: (labels[i] ?? 0) + 4, kind: "name" }),
        "</g>",
      ].join("\n");
    })
    .toReversed();
}

function style(count: number): string {
  const theme = (of: "light" | "dark") =>
    colours
      .slice(0, count)
      .map((colour, i) => `.line-${i}{--colour:${colour[of]}}`)
      .join("");
  return `<style>
svg{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;--paper:#fff;--ink:#1f2328;--soft:#59636e;--grid:#e4e7eb}
${theme("light")}
@media (prefers-color-scheme:dark){svg{--paper:#0d1117;--ink:#e6edf3;--soft:#9aa4af;--grid:#262c36}${theme("dark")}}
.paper{fill:var(--paper)}.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--soft);fill:none}
.title{font-size:16px;font-weight:600;fill:var(--ink)}.label{font-size:13px;fill:var(--soft)}.tick{font-size:12px;fill:var(--soft)}
.limit{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:6 4;fill:none}.limit-name{font-size:13px;fill:var(--ink)}
polyline{fill:none;stroke:var(--colour);stroke-width:2;stroke-linejoin:round}circle{fill:var(--colour)}
.name{font-size:13px;fill:var(--colour)}.line-0 .name{font-weight:600}.line-0 polyline{stroke-width:3}
</style>`;
}

function text(
  content: string,
  { x, y, kind, anchor = "start" }: { x: number; y: number; kind: string; anchor?: "start" | "middle" | "end" },
): string {
  const anchored = anchor === "start" ? "" : ` text-anchor="${anchor}"`;
  return `<text class="${kind}" x="${round(x)}" y="${round(y)}"${anchored}>${escaped(content)}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
