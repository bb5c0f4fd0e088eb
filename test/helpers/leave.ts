/**
 * A child process for tests of exits. Its arguments: path of the weights, kind of exit, number of batches in progress,
 * and for each session when to dispose it.
 */
import { openSession } from "../../src/engine/native/binding.ts";

const [path = "", way = "", batches = "0", ...disposals] = process.argv.slice(2);
const open = () =>
  openSession({
    path,
    device: "cpu",
    threads: 1,
    inputs: { x: { dtype: "float32", dims: [] } },
    outputs: { y: { dtype: "float32", dims: [] } },
  });
const sessions = await Promise.all(disposals.map(open));
const run = (rounds: number) =>
  Promise.allSettled(
    sessions.map((session) => session.run([[{ dtype: "float32", shape: [], data: Float32Array.of(rounds) }]])),
  );
await run(0);
for (let i = 0; i < Number(batches); i++) run(i % 2 === 0 ? 10 : 0);
for (const [i, disposal] of disposals.entries()) if (disposal === "disposed") await sessions[i]?.dispose();
for (const [i, disposal] of disposals.entries()) if (disposal === "disposing") sessions[i]?.dispose();

const ways: Record<string, () => void> = {
  end: () => {},
  "end after the collector took sessions": async () => {
    for (let i = 0; i < 5; i++) await open();
    await new Promise((resolve) => setImmediate(resolve));
    Bun.gc(true);
  },
  "exit code": () => {
    process.exitCode = 7;
  },
  exit: () => process.exit(7),
  "exit after a result": () => run(0).then(() => process.exit(7)),
  "exit later": () => setTimeout(() => process.exit(7), 1),
  throw: () => {
    throw new Error("on purpose");
  },
  "throw later": () =>
    setTimeout(() => {
      throw new Error("on purpose");
    }, 1),
  reject: () => Promise.reject(new Error("on purpose")),
  "run while leaving": () => {
    process.on("exit", () => run(0));
    process.exit(7);
  },
};
ways[way]?.();
