/** The table that the benchmark prints, and the JSON that it saves. */
import { availableParallelism, cpus } from "node:os";
import { formatTable } from "../src/commands/table.ts";
import { torchVersion } from "../src/native/binding.ts";
import { type Goal, isReached, type Measurement } from "./measurement.ts";

/** What a result holds for. */
export function machine(): { cpu: string; cores: number; bun: string; libtorch: string } {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    bun: Bun.version,
    libtorch: torchVersion(),
  };
}

/** One row a measurement; a measurement of several repeats shows their median and their ends. */
export function formatReport(measurements: readonly Measurement[]): string {
  const rows = measurements.map((measurement) => {
    const { subject, compared, unit, goal, reached, values, failed, cores, behind } = measurement;
    const digits = unit === "MB" ? 1 : unit === "s" ? 2 : 3;
    const number = (value: number) => value.toFixed(digits);
    return [
      subject,
      compared,
      goal === undefined ? "" : `${goalSign(goal)} ${goal.value}${unit && ` ${unit}`}`,
      `${number(reached.median)}${unit && ` ${unit}`}${mark(isReached(measurement))}`,
      values.length > 1 ? `${number(reached.min)} to ${number(reached.max)}` : "",
      String(failed),
      `${cores.min.toFixed(2)} to ${cores.max.toFixed(2)}`,
      behind,
    ];
  });
  return formatTable(
    ["WHAT", "MEASURED AS", "GOAL", "REACHED", "REPEATS", "FAILED", "CORES", "ABSOLUTE, HERE AND NOW"],
    rows,
  );
}

/** What the columns mean, for whoever reads the table. */
export const legend = [
  "REACHED is the median of the repeats, REPEATS their lowest and highest; what is compared was measured in turns.",
  "FAILED counts requests that got no prediction that succeeded. CORES: the speed of the slower of two cores while nothing else",
  "was measured, as a share of the best in this run; where it is far below 1, others used the machine, and the row says little.",
].join("\n");

function goalSign({ is }: Goal): string {
  return is === "at least" ? "≥" : "≤";
}

function mark(reached: boolean | undefined): string {
  if (reached === undefined) return "";
  return reached ? " ✓" : " ✗";
}
