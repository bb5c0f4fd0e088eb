/** Continuous batching: 16 clients of the example `writer` at once, beside one client that sends a request after the other. */
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { Child } from "./child.ts";
import { type CaseOptions, warmUpSeconds } from "./comparison.ts";
import { buildModel, storeEnv } from "./networks.ts";
import { median } from "./numbers.ts";
import { atLeast, type Measurement, rounded } from "./report.ts";
import { listening } from "./targets.ts";

const CLIENTS = 16;
/** Characters of a text. A text begins while others are in the middle, so items join and leave in each turn. */
const LENGTH = 100;

export async function writer({ seconds, repeats, canary }: CaseOptions): Promise<Measurement> {
  await buildModel(join(root, "examples", "writer"));
  const command = [join(root, "scripts", "sconce"), "serve", "writer", "--port", "0", "--host", "127.0.0.1"];
  await using child = new Child([...command, "--store", "memory"], { env: storeEnv });
  const url = `${await listening(child)}/predictions`;
  await texts(url, { clients: CLIENTS, seconds: warmUpSeconds(seconds) });
  const [alone, together, ratios]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < repeats; i++) {
    await canary.count();
    const one = await texts(url, { clients: 1, seconds });
    const many = await texts(url, { clients: CLIENTS, seconds });
    alone.push(one);
    together.push(many);
    ratios.push(many / one);
  }
  return {
    subject: "writer, 100 characters a text",
    compared: `${CLIENTS} clients, to one`,
    goal: atLeast(3),
    values: ratios,
    details: `${rounded(LENGTH * median(together))} characters/s, ${rounded(LENGTH * median(alone))} of one client`,
  };
}

/** @returns texts per second, of clients that each wait for their text before they ask for the next */
async function texts(url: string, { clients, seconds }: { clients: number; seconds: number }): Promise<number> {
  const beganMs = performance.now();
  const isOver = () => performance.now() - beganMs > 1000 * seconds;
  let seed = 0;
  const client = async () => {
    let count = 0;
    do {
      const body = JSON.stringify([{ prompt: "Return the ", length: LENGTH, seed: seed++ }]);
      const headers = { "Content-Type": "application/json", Prefer: "wait" };
      const response = await fetch(url, { method: "POST", headers, body });
      if (!response.ok) throw new Error(`the server answers ${response.status}: ${await response.text()}`);
      await response.json();
      count += 1;
    } while (!isOver());
    return count;
  };
  const counts = await Promise.all(Array.from({ length: clients }, client));
  return (1000 * counts.reduce((sum, count) => sum + count, 0)) / (performance.now() - beganMs);
}
