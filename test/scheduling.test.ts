/** Time slices of threads. From version 6.12 on, Linux lets a thread choose its slice. */
import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { hasSlices } from "./helpers/running.ts";

const script = fileURLToPath(new URL("./helpers/slices-child.ts", import.meta.url));
const reason = hasSlices ? "" : ": this kernel has fixed time slices";

interface Slices {
  readonly before: readonly (readonly number[])[];
  readonly below: readonly (readonly number[])[];
  readonly after: readonly (readonly number[])[];
  readonly nice: readonly number[];
  readonly policies: readonly number[];
}

function run(...launcher: string[]): Slices {
  const { stdout, stderr, exitCode } = Bun.spawnSync([...launcher, process.execPath, "--no-install", script]);
  if (exitCode !== 0) throw new Error(stderr.toString());
  return JSON.parse(stdout.toString()) as Slices;
}

const SHORT_NS = 100_000;

test.skipIf(!hasSlices)(`new threads and child processes inherit short time slices${reason}`, () => {
  const { before, after } = run();
  expect(before.flat()).not.toContain(SHORT_NS);
  expect(after).toEqual([[SHORT_NS], [SHORT_NS]]);
});

test.skipIf(!hasSlices)(`child processes get short slices, except those with a lower priority${reason}`, () => {
  const { before, below } = run();
  const [own = [], , lower = []] = before;
  expect(below).toEqual([own, [SHORT_NS], lower]);
});

const canDropNice =
  Bun.spawnSync(["setpriv", "--bounding-set", "-sys_nice", "true"], { stderr: "ignore" }).exitCode === 0;
const mayNot = canDropNice ? reason : ": this user cannot drop the capability SYS_NICE";

test.skipIf(!hasSlices || !canDropNice)(
  `a process without privileges gets short slices, and keeps its nice${mayNot}`,
  () => {
    const dropped = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"];
    const { after, nice, policies } = run("nice", "-n", "5", ...dropped);
    expect({ after, nice, policies }).toEqual({ after: [[SHORT_NS], [SHORT_NS]], nice: [5], policies: [0] });
  },
);

test.skipIf(!hasSlices)(`a process with another policy keeps its slices${reason}`, () => {
  const { before, after, policies } = run("chrt", "--batch", "0");
  const [own = []] = before;
  expect({ after, policies }).toEqual({ after: [own, own], policies: [3] });
});
