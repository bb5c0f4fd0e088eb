/** What docs/how-fast.md shows of saved results: a table and two plots, between two comments. */
import { mkdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { type Line, type Result, readResults } from "./measurement.ts";
import { drawPlot } from "./plot.ts";
import { linearScale, logScale } from "./scale.ts";
import { median } from "./turns.ts";

const folder = join(root, "bench", "plots");
/** By name, with what they show in words. */
const plots = {
  connections: {
    draw: connectionsPlot,
    shows: "Throughput against connections, below the limit that the raw libtorch loop sets",
  },
  offered: { draw: offeredPlot, shows: "Median and 99th percentile of the latency against offered load" },
} as const;
const [begin, end] = ["<!-- bench:begin -->", "<!-- bench:end -->"];
/** In the order of the table. */
const shown = [
  ...[
    "mlp-256",
    "mlp-binary",
    "images-1",
    "images-2",
    "images-ready",
    "minilm",
    "tiny-64",
    "create-get-64",
    "tiny-1",
    "mlp-1",
  ],
  ...["mosec-tiny", "mosec-mlp", "mosec-msgspec-tiny", "mosec-msgspec-mlp", "fastapi-tiny", "fastapi-mlp"],
  ...["litserve-tiny", "litserve-mlp", "triton-tiny", "triton-mlp", "tungstenkit-tiny", "start"],
  ...["executable-tiny", "executable-mlp", "executable-start", "memory"],
];

/** @returns the files that it wrote */
export async function publish(path: string): Promise<string[]> {
  const results = await readResults(path);
  const page = join(root, "docs/how-fast.md");
  const written: string[] = [];
  await mkdir(folder, { recursive: true });
  const isOther = ({ name }: Line) => (name === "sconce" ? 0 : 1);
  const lines = results.flatMap((result) => result.lines ?? []).toSorted((a, b) => isOther(a) - isOther(b));
  const pictures: string[] = [];
  for (const [name, { draw, shows }] of Object.entries(plots)) {
    const drawn = lines.filter(({ plot }) => plot === name);
    if (drawn.length === 0) continue;
    const file = join(folder, `${name}.svg`);
    await Bun.write(file, draw(drawn));
    written.push(file);
    pictures.push(`![${shows}](${relative(dirname(page), file)})`);
  }
  const content = [table(results), ...pictures].join("\n\n");
  await Bun.write(page, withContent(await Bun.file(page).text(), content));
  return [...written, page];
}

/** Puts the content in the place of what is between the two comments. */
export function withContent(text: string, content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`expected ${begin} followed by ${end} in the page`);
  return `${text.slice(0, from)}${begin}\n${content}\n${text.slice(to)}`;
}

function table(results: readonly Result[]): string {
  const rows = shown.flatMap((name) => results.filter((result) => result.case === name));
  const number = ({ unit }: Result, value: number) =>
    unit === "" ? (value < 10 ? value.toFixed(2) : value.toFixed(0)) : `${Number(value.toPrecision(2))} ${unit}`;
  if (rows.length === 0) return "Not measured yet.";
  const days = [...new Set(rows.map(({ measuredAt }) => measuredAt.slice(0, 10)))].sort();
  const machines = [
    ...new Set(rows.map(({ machine: m }) => `${m.cores} cores of ${m.cpu}, Bun ${m.bun}, libtorch ${m.libtorch}`)),
  ];
  return [
    "| what | measured as | median | lowest to highest |",
    "|---|---|---|---|",
    ...rows.map((row) => {
      const { subject, compared, values } = row;
      const ends =
        values.length > 1 ? `${number(row, Math.min(...values))} to ${number(row, Math.max(...values))}` : "";
      return `| ${subject} | ${compared} | ${number(row, median(values))} | ${ends} |`;
    }),
    "",
    `Measured ${days.join(" and ")} on ${machines.join("; ")}.`,
  ].join("\n");
}

function connectionsPlot(lines: readonly Line[]): string {
  const limit = median(lines.map((line) => line.limit));
  // Every line is drawn as its share of the limit that was measured beside it: at other times the machine was another.
  const drawn = lines.map(({ name, points, limit: own }) => ({
    name,
    points: points.map(({ x, y }) => ({ x, y: (y / own) * limit })),
  }));
  const connections = drawn.flatMap(({ points }) => points.map(({ x }) => x));
  const most = Math.max(limit, ...drawn.flatMap(({ points }) => points.map(({ y }) => y)));
  const atMost = drawn.map(({ name, points }) => `${name} ${percent((points.at(-1)?.y ?? 0) / limit)}`);
  return drawPlot({
    title: "Throughput of a 784-2048-2048-10 network",
    description: `Predictions per second over 1 to ${Math.max(...connections)} connections. At the most connections, as shares of the raw loop's ${whole(limit)} per second: ${atMost.join(", ")}.`,
    x: {
      label: "connections, each with one request at a time",
      domain: [Math.min(...connections), Math.max(...connections)],
      scale: (options) => logScale({ ...options, base: 2 }),
      format: String,
    },
    y: {
      label: "predictions per second, one inference thread",
      domain: [0, most * 1.08],
      scale: linearScale,
      format: whole,
    },
    lines: drawn,
    limit: { axis: "y", value: limit, label: `limit: the raw libtorch loop, ${whole(limit)}/s` },
  });
}

function offeredPlot(lines: readonly Line[]): string {
  const limit = median(lines.map((line) => line.limit));
  const values = lines.flatMap(({ points }) => points.map(({ y }) => y));
  const ends = lines.map(
    ({ name, points }) => `${name} ${points.map(({ x, y }) => `${percent(x)} ${milliseconds(y)}`).join(", ")}`,
  );
  return drawPlot({
    title: "Latency of a 784-2048-2048-10 network",
    description: `Milliseconds from when a request was to be sent to its answer, by offered load as a share of the raw loop's ${whole(limit)} per second: ${ends.join("; ")}.`,
    x: {
      label: "offered load as a share of the limit, requests at random times",
      domain: [0, 1.02],
      scale: linearScale,
      format: percent,
    },
    y: {
      label: "milliseconds to the answer, one inference thread",
      domain: [Math.min(...values) / 1.3, Math.max(...values) * 1.3],
      scale: (options) => logScale({ ...options, base: 10 }),
      format: (value) => value.toLocaleString("en"),
    },
    lines,
    limit: { axis: "x", value: 1, label: `limit: raw loop, ${whole(limit)}/s` },
  });
}

const whole = (value: number) => Math.round(value).toLocaleString("en");
const percent = (share: number) => `${Math.round(100 * share)}%`;
const milliseconds = (value: number) => `${Number(value.toPrecision(2))} ms`;
