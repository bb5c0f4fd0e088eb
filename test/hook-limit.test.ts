/** A time limit costs each call of a hook some microseconds, so calls have no limit after many quick calls. */
import { expect, test } from "bun:test";
import { Hooks, type HooksOptions } from "../src/server/flow/hooks.ts";
import { RunningHooks } from "../src/server/flow/running-hooks.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const QUICK_CALLS = 1000;
/** Whether a hook runs with a time limit: its stack then has the script `sconce:hook`. */
const isLimited = (hooks: Hooks) => hooks.call("preprocess", () => new Error().stack?.includes("sconce:hook"));

function hooksOf(options: Pick<HooksOptions, "running">) {
  let nowMs = 0;
  const hooks = new Hooks({ limitMs: 10_000, now: () => nowMs, ...options });
  const slow = () => hooks.call("preprocess", () => (nowMs += 100));
  return { hooks, slow };
}

test("the time limit is on at first and after a slow call, and ends after many quick calls", async () => {
  await using dir = await tempDir();
  const { hooks, slow } = hooksOf({ running: new RunningHooks(RunningHooks.create(dir.join("hooks")), false) });
  for (let i = 0; i < QUICK_CALLS; i++) expect(isLimited(hooks)).toBe(true);
  expect(isLimited(hooks)).toBe(false);
  slow();
  for (let i = 1; i < QUICK_CALLS; i++) isLimited(hooks);
  slow();
  expect(isLimited(hooks)).toBe(true);
});

test("all calls are limited if predictions do not outlive the process", () => {
  const { hooks } = hooksOf({});
  for (let i = 0; i <= QUICK_CALLS; i++) expect(isLimited(hooks)).toBe(true);
});
