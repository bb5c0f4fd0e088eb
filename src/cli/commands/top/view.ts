/** Formats the figures of `top` as lines of text. */
import { formatBytes } from "../../../base/bytes.ts";
import { rounded } from "../../../base/milliseconds.ts";
import { formatTable } from "../../command-line/table.ts";
import type { Figures } from "./figures.ts";

const BAR = 24;

export function linesOf(figures: Figures, url: string): string[] {
  const { device, version, requests, predictions, latencyMs, inputs, batches, models, memory, queue } = figures;
  const model = models.length === 0 ? figures.model : `${models.length} models`;
  const number = (value: number | undefined) => (value === undefined ? "-" : rounded(value));
  const ms = (value: number | undefined) => (value === undefined ? "-" : `${rounded(value)} ms`);
  const listed = (all: Readonly<Record<string, number>>, unit: string) =>
    Object.entries(all)
      .sort(([, a], [, b]) => b - a)
      .slice(0, 6)
      .map(([name, value]) => `${name} ${rounded(value)}${unit}`)
      .join("   ");
  const rows: [string, string][] = [
    ["requests", `${rounded(requests.perSecond)}/s   refused ${rounded(requests.refused)}/s`],
    ["", listed(requests.byRoute, "/s")],
    [
      "predictions",
      `${rounded(predictions.succeeded)}/s succeeded   ${rounded(predictions.failed)}/s failed   ${predictions.active} active`,
    ],
    ["latency", `median ${ms(latencyMs.p50)}   99th percentile ${ms(latencyMs.p99)}`],
    [
      "inputs",
      `${rounded(inputs.perSecond)}/s   ${inputs.queued} queued   ${inputs.running} running   oldest ${rounded(inputs.oldestS)} s`,
    ],
    [
      "batches",
      `${rounded(batches.perSecond)}/s   ${number(batches.size)}${batches.limit === undefined ? "" : ` of ${batches.limit}`} inputs   ${ms(batches.ms)}`,
    ],
    ["", batches.limit === undefined ? "" : bar((batches.size ?? 0) / batches.limit)],
    ["stages", listed(figures.stagesMs, " ms")],
    ["memory", `${formatBytes(memory.bytes)} of ${formatBytes(memory.limitBytes)}`],
    ["", bar(memory.bytes / memory.limitBytes)],
  ];
  if (queue !== undefined) {
    rows.push([
      "queue",
      `${queue.isConnected ? "connected" : "NOT CONNECTED"}   ${queue.items} inputs   ${queue.workers} workers`,
    ]);
  }
  if (figures.engineRestarts > 0) rows.push(["engine", `restarted ${figures.engineRestarts} times`]);
  const modelRows = models.map((each) => [
    each.name,
    rounded(each.succeeded),
    rounded(each.failed),
    String(each.active),
    String(each.queued),
    number(each.latencyMs.p50),
    number(each.latencyMs.p99),
    `${number(each.batchSize)} of ${each.batchLimit}`,
  ]);
  const modelTitles = ["MODEL", "SUCCEEDED/S", "FAILED/S", "ACTIVE", "QUEUED", "MEDIAN MS", "P99 MS", "BATCH"];
  const processes = figures.processes.map(({ name, cores, bytes }) => [name, rounded(100 * cores), formatBytes(bytes)]);
  return [
    `sconce ${version}   ${model} on ${device}   ${url}`,
    "",
    ...rows.filter(([, text]) => text !== "").map(([name, text]) => `${name.padEnd(12)}${text}`),
    "",
    ...(models.length === 0 ? [] : [...formatTable(modelTitles, modelRows).split("\n"), ""]),
    ...formatTable(["PROCESS", "CPU %", "MEMORY"], processes).split("\n"),
  ];
}

function bar(share: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, share || 0)) * BAR);
  return `${"█".repeat(filled)}${"░".repeat(BAR - filled)}`;
}
