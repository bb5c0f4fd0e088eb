import { expect, test } from "bun:test";
import { Canary } from "../bench/canary.ts";
import { type Comparison, compare } from "../bench/comparison.ts";
import { atLeast, atMost, formatReport } from "../bench/report.ts";

class IdleCanary extends Canary {
  override async count(): Promise<void> {}
}

const network = async () => ({ name: "net", folder: "", requests: [], inputs: [], samples: [] });
let turns: string[] = [];

/** A measured program whose rate and median latency grow by one with each measurement. */
function counting(title: string, { failed = 0 } = {}): Comparison["measured"] {
  return async () => {
    let count = 0;
    return {
      title,
      async measure({ connections }) {
        turns.push(`${title} ${connections}`);
        count += 1;
        return { perSecond: count, failed, p50Ms: count };
      },
      async [Symbol.asyncDispose]() {
        turns.push(`end of ${title}`);
      },
    };
  };
}

function measured(what: Pick<Comparison, "beside"> & Partial<Comparison>, repeats = 2) {
  turns = [];
  const options = { seconds: 1, repeats, canary: new IdleCanary() };
  return compare({ network, measured: counting("samples"), connections: 8, ...what }, options);
}

test("each turn is compared with the mean of the baseline's turns before and after it", async () => {
  const { values, compared, subject } = await measured({ beside: counting("baselineSamples") });
  expect(turns).toEqual([
    "baselineSamples 8",
    "samples 8",
    "baselineSamples 8",
    "samples 8",
    "baselineSamples 8",
    "end of samples",
    "end of baselineSamples",
  ]);
  expect(values).toEqual([1 / 1.5, 2 / 2.5]);
  expect([subject, compared]).toEqual(["net, 8 connections", "of baselineSamples"]);
});

test("an additional median latency is the median minus the sum of the baselines' medians", async () => {
  const { values, unit } = await measured({ beside: [counting("echo"), counting("forward")], quantity: "median" });
  expect(values).toEqual([1 - 3, 2 - 5]);
  expect(unit).toBe("ms");
});

test("failed requests of a baseline are an error, and failed requests of the measured program are counted", async () => {
  await expect(measured({ beside: counting("broken", { failed: 3 }) })).rejects.toThrow("3 requests failed at broken");
  const { failed } = await measured({
    beside: counting("baselineSamples"),
    measured: counting("samples", { failed: 2 }),
  });
  expect(failed).toBe(4);
});

test("the report is a Markdown table that says for each row whether its goal is reached", () => {
  const row = { case: "net", subject: "net", compared: "of baselineSamples", cores: { min: 1, max: 1 } };
  const report = formatReport([
    { ...row, values: [1.2, 0.9, 1], goal: atLeast(0.95) },
    { ...row, values: [0.41234], goal: atMost(0.3), unit: "ms" },
    { ...row, values: [3] },
  ]);
  const rows = report.split("\n").filter((line) => line.startsWith("|"));
  expect(rows.map((line) => line.split("|").map((cell) => cell.trim()))).toEqual([
    ["", "what", "measured as", "goal", "median", "lowest to highest"],
    ["", "---", "---", "---", "---", "---"],
    ["", "net", "of baselineSamples", "≥ 0.95", "1 ✓", "0.9 to 1.2"],
    ["", "net", "of baselineSamples", "≤ 0.3 ms", "0.412 ms ✗", ""],
    ["", "net", "of baselineSamples", "", "3", ""],
  ]);
});
