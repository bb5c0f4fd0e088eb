/**
 * A process enters the background (the scheduling policy SCHED_IDLE) only if the system lets it leave the background
 * later.
 */
import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { mayLeaveBackground } from "./helpers/running.ts";

const script = fileURLToPath(new URL("./helpers/background-child.ts", import.meta.url));

function run(launcher: readonly string[] = [], ...args: string[]): unknown {
  const { stdout, stderr, exitCode } = Bun.spawnSync([...launcher, process.execPath, "--no-install", script, ...args]);
  if (exitCode !== 0) throw new Error(stderr.toString());
  return JSON.parse(stdout.toString());
}

const works = (...command: string[]) =>
  Bun.spawnSync([...command, "true"], { stdout: "ignore", stderr: "ignore" }).exitCode === 0;
/** Arguments that run the command behind them without CAP_SYS_NICE. */
const plain = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"];
const limited = ["prlimit", "--nice=20", "--"];

/** Numbers of the scheduling policies SCHED_OTHER and SCHED_IDLE. */
const [normal, idle] = [[0], [5]];
const stayed = { entered: false, started: normal, before: normal, inside: normal, alone: normal, after: normal };
const left = { entered: true, started: idle, before: normal, inside: idle, alone: normal, after: normal };

test.skipIf(!mayLeaveBackground)("a process with the capability enters the background, and leaves it", () => {
  expect(run()).toEqual(left);
});

test.skipIf(!works(...plain))("a process that could not leave the background stays out of it", () => {
  expect(run(plain)).toEqual(stayed);
});

test.skipIf(!works(...limited, ...plain))("the limit of nice lets a process without the capability leave", () => {
  expect(run([...limited, ...plain])).toEqual(left);
});

const unlimited = ["prlimit", "--nice=0", "--"];

test.skipIf(!mayLeaveBackground || !works(...unlimited, ...plain))(
  "a program that does not inherit the capability starts outside the background",
  () => {
    expect(run(unlimited, "bounded")).toEqual({ ...left, started: normal });
  },
);

const batch = [3];

test.skipIf(!mayLeaveBackground)("a process with the policy SCHED_BATCH keeps this policy", () => {
  const kept = { entered: false, started: batch, before: batch, inside: batch, alone: batch, after: batch };
  expect(run(["chrt", "--batch", "0"])).toEqual(kept);
});

const pinned = ["taskset", "--cpu-list", "0"];

test.skipIf(!mayLeaveBackground || !works(...pinned))("a process that gets no core in the background leaves it", () => {
  const busy = Bun.spawn([...pinned, "sh", "-c", "while :; do :; done"]);
  try {
    // On a busy machine, the process may leave the background before it prints its policy there, so that policy is not
    // compared.
    expect(run(pinned, "starved")).toMatchObject({ entered: true, after: normal });
  } finally {
    busy.kill();
  }
});
