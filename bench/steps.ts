/**
 * Measures continuous batching: 16 concurrent clients of the model examples/writer, compared with a single client. Each
 * client sends its requests one after another.
 */
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { Child } from "./child.ts";
import { type CaseOptions, warmUpSeconds } from "./comparison.ts";
import { buildModel, storeEnv } from "./networks.ts";
import { median, sum } from "./numbers.ts";
import { atLeast, type Measurement, rounded } from "./report.ts";
import { listening } from "./targets.ts";

const CLIENTS = 16;
/** Number of characters in each requested text. */
const LENGTH = 100;

export async function writer({ seconds, repeats, canary }: CaseOptions): Promise<Measurement[]> {
  await buildModel(join(root, "examples", "writer"));
  const command = [join(root, "scripts", "sconce"), "serve", "writer", "--port", "0", "--host", "127.0.0.1"];
  await using child = new Child([...command, "--store", "memory"], { env: storeEnv });
  const url = await listening(child);
  await texts(url, { clients: CLIENTS, seconds: warmUpSeconds(seconds) });
  const [alone, together]: [Turn[], Turn[]] = [[], []];
  for (let i = 0; i < repeats; i++) {
    await canary.count();
    alone.push(await texts(url, { clients: 1, seconds }));
    together.push(await texts(url, { clients: CLIENTS, seconds }));
  }
  const measured = (key: keyof Turn, unit: string) => {
    const [one, many] = [alone, together].map((turns) => rounded(median(turns.map((turn) => turn[key]))));
    return `${many} ${unit}, ${one} of one client`;
  };
  const subject = `writer, ${CLIENTS} clients, to one`;
  const ratios = (ratio: (one: Turn, many: Turn) => number) =>
    alone.flatMap((one, i) => (together[i] === undefined ? [] : [ratio(one, together[i])]));
  return [
    {
      subject,
      compared: "characters a second",
      goal: atLeast(3),
      values: ratios((one, many) => many.perSecond / one.perSecond),
      details: measured("perSecond", "characters/s"),
    },
    // Processor time hardly depends on how busy the machine is, so this ratio varies less.
    {
      subject,
      compared: "characters a second of processor time",
      goal: atLeast(3),
      values: ratios((one, many) => one.cpuMs / many.cpuMs),
      details: measured("cpuMs", "ms of processor time a character"),
    },
  ];
}

interface Turn {
  /** Characters that the server generates per second. */
  readonly perSecond: number;
  /** Processor time of the server per character, in milliseconds. */
  readonly cpuMs: number;
}

/** For `seconds`, each client requests one text after another. */
async function texts(url: string, { clients, seconds }: { clients: number; seconds: number }): Promise<Turn> {
  const cpuBefore = await cpuSeconds(url);
  const beganMs = performance.now();
  const isOver = () => performance.now() - beganMs > 1000 * seconds;
  let seed = 0;
  const client = async () => {
    let count = 0;
    do {
      const body = JSON.stringify([{ prompt: "Return the ", length: LENGTH, seed: seed++ }]);
      const headers = { "Content-Type": "application/json", Prefer: "wait" };
      const response = await fetch(`${url}/predictions`, { method: "POST", headers, body });
      if (!response.ok) throw new Error(`the server answers ${response.status}: ${await response.text()}`);
      await response.json();
      count += 1;
    } while (!isOver());
    return count;
  };
  const counts = await Promise.all(Array.from({ length: clients }, client));
  const characters = LENGTH * sum(counts);
  const ms = performance.now() - beganMs;
  return {
    perSecond: (1000 * characters) / ms,
    cpuMs: (1000 * ((await cpuSeconds(url)) - cpuBefore)) / characters,
  };
}

/** Processor time of all processes of the server so far, in seconds. */
async function cpuSeconds(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return sum([...text.matchAll(/^process_cpu_seconds_total\{.*\} (\S+)$/gm)].map(([, seconds]) => Number(seconds)));
}
