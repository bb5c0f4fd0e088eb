/** A child process that leaves in the way its arguments say: weights, way, when the session is disposed of, batches under way. */
import { openSession } from "../../src/native/binding.ts";

const [path = "", way = "", disposal = "", batches = "0"] = process.argv.slice(2);
const open = () =>
  openSession({
    path,
    device: "cpu",
    threads: 1,
    inputs: { x: { dtype: "float32", dims: [] } },
    outputs: { y: { dtype: "float32", dims: [] } },
  });
const session = await open();
const run = (rounds: number) =>
  session.run([[{ dtype: "float32", shape: [], data: Float32Array.of(rounds) }]]).then(
    () => {},
    () => {},
  );
await run(0);
for (let i = 0; i < Number(batches); i++) run(i % 2 === 0 ? 10 : 0);
if (disposal === "disposed") await session.dispose();
if (disposal === "disposing") session.dispose();

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
