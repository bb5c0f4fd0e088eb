/** `bun process-roles.ts [role]`: child processes that die, hang or answer as their start data says. */
import { z } from "zod";
import { SconceError } from "../../src/base/errors.ts";
import { type Link, roleOf, runRole } from "../../src/machine/processes/link.ts";
import { makeRunFolder } from "../../src/machine/processes/run-folder.ts";
import { SharedCounters } from "../../src/machine/processes/shared-counters.ts";
import { Supervised } from "../../src/machine/processes/supervised.ts";

export const program = [process.execPath, "--no-install", import.meta.path];

const order = z.union([
  z.object({ die: z.string() }),
  z.object({ exit: z.int() }),
  z.object({ loop: z.literal(true) }),
  z.object({ add: z.number() }),
  z.object({ relay: z.number() }),
]);
/** Commands that a test sends to a worker process. */
export type Order = z.infer<typeof order>;

const startData = z.object({
  order: order.optional(),
  fail: z.string().optional(),
  counters: z.object({ path: z.string(), row: z.int() }).optional(),
});

/** Reports that it is ready, then obeys commands until the test ends it. */
async function worker(start: unknown, link: Link): Promise<void> {
  const { order: first, fail, counters } = startData.parse(start);
  if (fail !== undefined) throw new SconceError("weights_invalid", fail);
  const counter =
    counters && new SharedCounters({ path: counters.path, names: ["items"], rows: 2 }).counter("items", counters.row);
  const obey = (next: Order) => {
    if ("die" in next) process.kill(process.pid, next.die);
    if ("exit" in next) process.exit(next.exit);
    if ("loop" in next) for (;;);
    if ("add" in next) {
      counter?.add(next.add);
      link.send({ sum: counter?.sum() });
    }
    // With `relay`, asks the test a question, and answers with the test's answer.
    return "relay" in next ? link.ask(next.relay) : undefined;
  };
  if (first !== undefined) obey(first);
  link.onMessage((message) => obey(order.parse(message)));
  link.ready({ pid: process.pid });
  await link.stopping;
}

/** Reports that it is ready, and ignores the command to end. */
async function deaf(_start: unknown, link: Link): Promise<void> {
  link.ready();
  await new Promise(() => {});
}

/** Creates a folder for the files of a running server in the given folder, and reports its path. */
async function folder(start: unknown, link: Link): Promise<void> {
  using folder = makeRunFolder([z.object({ place: z.string() }).parse(start).place]);
  link.ready({ folder: folder.path });
  await link.stopping;
}

/** Starts a worker as its own child process, and passes messages on to it. */
async function supervisor(_start: unknown, link: Link): Promise<void> {
  const child = new Supervised({ role: "worker", start: () => ({}), program });
  const told = await child.start();
  link.onMessage((message) => child.ask(message));
  link.ready({ told });
  await link.stopping;
  await child.stop(10_000);
}

const role = roleOf(process.argv.slice(2));

if (import.meta.main && role !== undefined) await runRole({ worker, deaf, folder, supervisor }, role);
