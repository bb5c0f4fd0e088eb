/** Time slices of threads. Linux has them from version 6.12 on. */
import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { hasSlices } from "./helpers/running.ts";

const script = fileURLToPath(new URL("./helpers/slices-child.ts", import.meta.url));
const reason = hasSlices ? "" : ": this kernel has no time slices of threads";

interface Slices {
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly ofChild: readonly number[];
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
  const { before, after, ofChild } = run();
  expect(before).not.toContain(SHORT_NS);
  expect({ after, ofChild }).toEqual({ after: [SHORT_NS], ofChild: [SHORT_NS] });
});

const isUser = Bun.spawnSync(["setpriv", "--bounding-set", "-sys_nice", "true"], { stderr: "ignore" }).exitCode === 0;

test.skipIf(!hasSlices || !isUser)(
  `a process without privileges gets short slices, and keeps its nice${reason}`,
  () => {
    const dropped = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"];
    expect(run("nice", "-n", "5", ...dropped)).toMatchObject({ after: [SHORT_NS], nice: [5], policies: [0] });
  },
);

test.skipIf(!hasSlices)(`a process with another policy keeps its slices${reason}`, () => {
  const { before, after, policies } = run("chrt", "--batch", "0");
  expect({ after, policies }).toEqual({ after: before, policies: [3] });
});
