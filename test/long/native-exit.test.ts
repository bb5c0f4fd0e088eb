/** A process that uses sessions exits with the right code in every situation, without a crash or a hang. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { run } from "../helpers/child-output.ts";
import { fixture } from "../helpers/fixture.ts";
import { fixtures } from "../helpers/weights.ts";

const made = fixture(fixtures, 600_000);

const codes = {
  end: 0,
  "end after the collector took sessions": 0,
  "exit code": 7,
  exit: 7,
  "exit after a result": 7,
  "exit later": 7,
  throw: 1,
  "throw later": 1,
  reject: 1,
  "run while leaving": 7,
};

// The states of the three sessions at the exit: with a running thread, with a thread that ends, and without a thread.
const disposals = ["open", "disposing", "disposed"];

async function leave(way: string, batches: number): Promise<unknown> {
  const script = join(import.meta.dir, "../helpers/leave.ts");
  const command = [process.execPath, script, made.path("slow.pt"), way, `${batches}`, ...disposals];
  const { code, signal, stderr } = await run(command);
  // If the exit is an exception, the output has the exception, so only words of a crash count. Any other exit must
  // print nothing.
  return { code, signal, errors: code === 1 ? /panic|terminate called|Segmentation/.test(stderr) : stderr };
}

for (const [way, code] of Object.entries(codes)) {
  for (const batches of [0, 6]) {
    test(`exiting by ${way} with ${batches} running batches in sessions that are open, closing and closed`, async () => {
      expect(await leave(way, batches)).toEqual({ code, signal: null, errors: code === 1 ? false : "" });
    }, 120_000);
  }
}

test.each([
  ["sconce.node", "open"],
  ["pixels.so", "toBitmap"],
])(
  "terminating a Worker while it calls %s does not affect its process",
  async (addon, name) => {
    const script = join(import.meta.dir, "../helpers/terminated-workers.ts");
    const path = join(import.meta.dir, "../../build/Release", addon);
    const ended = await run([process.execPath, script, path, name]);
    expect(ended).toMatchObject({ code: 0, signal: null, stdout: "all are terminated\n" });
  },
  60_000,
);
