/** What docs/how-fast.md shows of saved results: a table and two plots, between two comments. */
import { join, relative } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { type Result, readResults } from "./measurement.ts";
import { peers } from "./peers/peers.ts";
import { inPython } from "./peers/running.ts";
import { median } from "./turns.ts";

const [begin, end] = ["<!-- bench:begin -->", "<!-- bench:end -->"];
const pictures = new Map([
  ["connections.svg", "Throughput against connections, below the limit that the raw libtorch loop sets"],
  ["offered.svg", "Median and 99th percentile of the latency against offered load"],
]);
/** In the order of the table. */
const shown = [
  ..."mlp-256 mlp-binary images-1 images-2 images-ready minilm tiny-64 create-get-64 tiny-1 mlp-1".split(" "),
  ...Object.entries(peers).flatMap(([name, { goals }]) => Object.keys(goals).map((network) => `${name}-${network}`)),
  ..."start executable-tiny executable-mlp executable-start memory".split(" "),
];

/** @returns the files that it wrote */
export async function publish(path: string): Promise<string[]> {
  const page = join(root, "docs/how-fast.md");
  const script = join(import.meta.dir, "plot.py");
  const { command, env } = await inPython("plots", [script, path, join(import.meta.dir, "plots")]);
  const drawn = z.array(z.string()).parse(JSON.parse(await Child.run(command, env)));
  const images = drawn.map((file) => {
    const source = relative(join(root, "docs"), file);
    return `![${pictures.get(source.split("/").at(-1) ?? "")}](${source})`;
  });
  const content = [table(await readResults(path)), ...images].join("\n\n");
  await Bun.write(page, withContent(await Bun.file(page).text(), content));
  return [...drawn, page];
}

/** Puts the content in the place of what is between the two comments. */
export function withContent(text: string, content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`expected ${begin} followed by ${end} in the page`);
  return `${text.slice(0, from)}${begin}\n${content}\n${text.slice(to)}`;
}

function table(results: readonly Result[]): string {
  const rows = shown.flatMap((name) => results.filter((result) => result.case === name));
  if (rows.length === 0) return "Not measured yet.";
  const number = (unit: string, value: number) =>
    unit === "" ? value.toFixed(value < 10 ? 2 : 0) : `${Number(value.toPrecision(2))} ${unit}`;
  const days = [...new Set(rows.map(({ measuredAt }) => measuredAt.slice(0, 10)))].sort();
  const machines = new Set(
    rows.map(({ machine: m }) => `${m.cores} cores of ${m.cpu}, Bun ${m.bun}, libtorch ${m.libtorch}`),
  );
  return [
    "| what | measured as | median | lowest to highest |",
    "|---|---|---|---|",
    ...rows.map(({ subject, compared, unit, values }) => {
      const ends = [Math.min(...values), Math.max(...values)].map((value) => number(unit, value)).join(" to ");
      return `| ${subject} | ${compared} | ${number(unit, median(values))} | ${values.length > 1 ? ends : ""} |`;
    }),
    "",
    `Measured ${days.join(" and ")} on ${[...machines].join("; ")}.`,
  ].join("\n");
}
