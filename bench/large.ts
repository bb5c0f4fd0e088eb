/** Measures how much one client with large requests or answers slows down other clients of the server. */
import { type CaseOptions, warmUpSeconds } from "./comparison.ts";
import { load } from "./load.ts";
import type { Input, Network } from "./networks.ts";
import { median, sum } from "./numbers.ts";
import { atMost, type Measurement, rounded } from "./report.ts";
import { sconce } from "./targets.ts";

export interface Large {
  readonly network: () => Promise<Network>;
  readonly subject: string;
  /** Makes the inputs of the large request from inputs of small requests. */
  readonly inputs: (requests: readonly Input[]) => readonly Input[];
  readonly flags?: readonly string[];
  /** The goal is that the other clients' 99th percentile of latency is at most this many milliseconds. */
  readonly mostMs: number;
}

/** The other clients send one small prediction at a time, with pauses of 2 ms. */
const others = { connections: 4, thinkingMs: 2 };
/** Measurements last this many times longer than in other cases, because a large request may take a second. */
const LONG_TURNS = 4;

export async function besideLarge(
  { network: make, subject, inputs, flags = [], mostMs }: Large,
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement> {
  const network = await make();
  await using served = await sconce({ flags: ["--store", "memory", ...flags] })(network);
  const body = JSON.stringify(inputs(network.requests));
  const largeOnes = () => sendInSequence(served.url, body, LONG_TURNS * seconds);
  await served.check();
  await served.measure({ connections: 64, seconds: warmUpSeconds(seconds) });
  await largeOnes();
  await canary.count();
  const alone = await load(served, { ...others, seconds });
  const [p99s, rates, failures]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < repeats; i++) {
    const both = await Promise.all([load(served, { ...others, seconds: LONG_TURNS * seconds }), largeOnes()]);
    p99s.push(both[0].p99Ms);
    rates.push(both[1].perSecond);
    failures.push(...both.map(({ failed }) => failed));
  }
  await canary.count();
  return {
    subject,
    compared: "others' p99 meanwhile",
    unit: "ms",
    goal: atMost(mostMs),
    values: p99s,
    details: `${rounded(alone.p99Ms)} ms without it, ${rounded(median(rates))} large ones/s`,
    failed: sum(failures),
  };
}

/**
 * Sends large requests one after another for `seconds`, and waits for the last answer. A request that still runs would
 * slow down the next measurement.
 */
async function sendInSequence(url: string, body: string, seconds: number) {
  const beganMs = performance.now();
  let [answered, failed] = [0, 0];
  do {
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Prefer: "wait" },
      body,
    });
    await response.arrayBuffer();
    if (response.ok) answered += 1;
    else failed += 1;
  } while (performance.now() - beganMs < 1000 * seconds);
  return { perSecond: (1000 * answered) / (performance.now() - beganMs), failed };
}
