/** The table that the benchmark prints, and how numbers are written with their units. */
import { availableParallelism, cpus } from "node:os";
import { formatTable } from "../src/commands/table.ts";
import { torchVersion } from "../src/native/binding.ts";
import type { Result } from "./measurement.ts";
import { median } from "./turns.ts";

export const perSecond = (value: number) =>
  `${(value < 100 ? Number(value.toPrecision(3)) : Math.round(value)).toLocaleString("en")}/s`;
export const ms = (value: number) =>
  value < 1000 ? `${value.toPrecision(value < 1 ? 2 : 3)} ms` : `${(value / 1000).toPrecision(3)} s`;

/** What a result holds for. */
export function machine(): Result["machine"] {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    bun: Bun.version,
    libtorch: torchVersion(),
  };
}

/** One row a result; one of several repeats shows their median and their ends. */
export function formatReport(results: readonly Result[]): string {
  const rows = results.map(({ subject, compared, unit, goal, values, failed, cores, behind }) => {
    const number = (value: number) => value.toFixed(unit === "MB" ? 1 : unit === "s" ? 2 : 3);
    const [reached, suffix] = [median(values), unit && ` ${unit}`];
    const isReached = goal && (goal.is === "at least" ? reached >= goal.value : reached <= goal.value);
    return [
      subject,
      compared,
      goal === undefined ? "" : `${goal.is === "at least" ? "≥" : "≤"} ${goal.value}${suffix}`,
      `${number(reached)}${suffix}${isReached === undefined ? "" : isReached ? " ✓" : " ✗"}`,
      values.length > 1 ? `${number(Math.min(...values))} to ${number(Math.max(...values))}` : "",
      String(failed),
      `${cores.min.toFixed(2)} to ${cores.max.toFixed(2)}`,
      behind,
    ];
  });
  const heads = ["WHAT", "MEASURED AS", "GOAL", "REACHED", "REPEATS", "FAILED", "CORES", "ABSOLUTE, HERE AND NOW"];
  const { cpu, cores, bun, libtorch } = machine();
  return `${formatTable(heads, rows)}

REACHED is the median of the repeats, REPEATS their lowest and highest; what is compared was measured in turns.
FAILED counts requests that got no prediction that succeeded. CORES: the speed of the slower of two cores while nothing else
was measured, as a share of the best in this run; where it is far below 1, others used the machine, and the row says little.
${cpu}, ${cores} cores; Bun ${bun}, libtorch ${libtorch}`;
}
