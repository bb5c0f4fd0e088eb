/** Inputs that end their engine process in the forward pass: in an operator, or in the model's own code. */
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import type { ModelHome } from "../model-home.ts";
import { holdingsOf } from "../system.ts";
import type { Tally } from "../tally.ts";
import { TestedServer } from "../tested-server.ts";
import { predict, Traffic } from "../traffic.ts";

/** Time limit for a batch in seconds: long enough that a crashing engine process on a busy core ends before it. */
const BATCH_S = 3;

/** The message with which an input fails, by the fault that the input requests. */
type Deaths = Readonly<Record<string, RegExp>>;

const ofOperators: Deaths = {
  abort: /was ended by SIGABRT/,
  segv: /was ended by SIG(SEGV|ILL|TRAP|ABRT)/,
  exit: /ended with code 7|was ended by SIG/,
  hang: new RegExp(`was ended: a batch did not end within ${BATCH_S} s`),
};

const ofCode: Deaths = {
  exit: /ended with code 9/,
  kill: /was ended by SIGBUS/,
  spin: new RegExp(`was ended: it gave no answer for ${BATCH_S} s`),
};

export const killingInputs: Fault = {
  name: "killing-inputs",
  title:
    "an input that aborts, faults, exits or never ends fails alone, with a message that says how, and its neighbours succeed",
  async inject({ tally, home, random, isLong }) {
    const rounds = isLong ? 3 : 1;
    // In parallel, because most of the time passes between the death of a process and the next start.
    await Promise.all([
      killEach(tally, home, { model: "torture", deaths: ofOperators, rounds, random }),
      killEach(tally, home, { model: "torture-code", deaths: ofCode, rounds, random }),
      exhaust(tally, home),
    ]);
  },
};

interface Killing {
  readonly model: string;
  readonly deaths: Deaths;
  readonly rounds: number;
  readonly random: () => number;
}

/**
 * Sends a prediction with an input for each kind of death, beside harmless inputs and other predictions. Only the
 * killing inputs may fail.
 */
async function killEach(tally: Tally, home: ModelHome, { model, deaths, rounds, random }: Killing): Promise<void> {
  // With this delay, inputs that arrive within 20 ms share a batch.
  const args = ["--batch-timeout", String(BATCH_S), "--max-queue-delay", "20"];
  await using server = await TestedServer.start({ home, model, args });
  for (let round = 0; round < rounds; round++) {
    const inputs: { readonly x: number; readonly fault?: string }[] = [{ x: 1 }];
    for (const fault of Object.keys(deaths)) inputs.push({ x: inputs.length + 1, fault }, { x: inputs.length + 2 });
    const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines, clients: 4 });
    const others = model === "torture" ? traffic.run(40) : Promise.resolve();
    await tally.inject(async () => {
      const [record] = await Promise.all([
        predict(server.url, inputs),
        until(async () => (await server.readiness()) === 503, "readiness to fall"),
      ]);
      tally.counts.checked += 1;
      const told = new Map(record.errors?.map(({ index, message }) => [index, message]));
      for (const [i, { x, fault }] of inputs.entries()) {
        const message = told.get(i);
        if (fault === undefined) {
          if (record.partial_outputs?.[i]?.y !== 3 * x) tally.found("wrong", `input ${i}: ${message ?? "no output"}`);
        } else if (message === undefined || !deaths[fault]?.test(message)) {
          tally.found("wrong", `input ${i} with ${fault} failed with: ${message}\n${server.lastLines}`);
        }
      }
      await until(async () => (await server.readiness()) === 200, "readiness to come back");
      await others;
      await traffic.verify();
    });
  }
  const restarts = server.lines.filter((line) => line.includes("starting it again")).length;
  tally.note(`${model}: ${Object.keys(deaths).length * rounds} inputs that kill took ${restarts} deaths to find`);
}

/** An input that takes all memory fails with an error or ends the process. Either way only that input may fail. */
async function exhaust(tally: Tally, home: ModelHome): Promise<void> {
  await using server = await TestedServer.start({ home });
  const engine = await server.child("engine");
  await tally.inject(async () => {
    limitMemory(engine, 768 * 2 ** 20);
    const record = await predict(server.url, [{ x: 1 }, { x: 2, fault: "memory" }, { x: 3 }]);
    tally.counts.checked += 1;
    const isOnly = record.errors?.length === 1 && record.errors[0]?.index === 1;
    const [first, , third] = record.partial_outputs ?? [];
    if (!isOnly || first?.y !== 3 || third?.y !== 9) {
      tally.found("wrong", `memory that ends: ${JSON.stringify(record).slice(0, 800)}\n${server.lastLines}`);
    }
    tally.note(`an input that takes all memory fails with: ${record.errors?.[0]?.message}`);
    const after = await predict(server.url, [{ x: 4 }]);
    if (after.outputs?.[0]?.y !== 12) tally.found("wrong", `after that: ${JSON.stringify(after).slice(0, 500)}`);
  });
}

/** Limits the address space of a process to its present size plus `moreBytes`. */
function limitMemory(pid: number, moreBytes: number): void {
  const limit = holdingsOf(pid).virtualBytes + moreBytes;
  const { success, stderr } = Bun.spawnSync(["prlimit", "--pid", String(pid), `--as=${limit}:${limit}`]);
  if (!success) throw new Error(`prlimit: ${stderr}`);
}
