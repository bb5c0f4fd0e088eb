/** Makes tests of faults: the short form of `npm run torture`. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { seeded } from "../helpers/loads.ts";
import { type Fault, injectFault } from "./fault.ts";
import { type ModelHome, modelHome } from "./model-home.ts";
import { Tally } from "./tally.ts";

/**
 * Milliseconds for one fault: far longer than it takes on two busy cores, because each wait inside has its own limit.
 */
const LIMIT_MS = 300_000;

/** Makes a test for each fault. */
export function testFaults(faults: readonly Fault[]): void {
  let home: ModelHome;
  beforeAll(async () => {
    home = await modelHome();
  }, LIMIT_MS);
  afterAll(() => home[Symbol.asyncDispose]());

  for (const fault of faults) {
    const title = fault.lacking === undefined ? fault.title : `${fault.title} (${fault.lacking})`;
    test.skipIf(fault.lacking !== undefined)(
      title,
      async () => {
        const tally = new Tally();
        const seed = Date.now() % 1_000_000;
        await injectFault(fault, { tally, home, random: seeded(seed), isLong: false });
        console.log(`${fault.name}, seed ${seed}: ${JSON.stringify(tally.counts)}`);
        const { injected, survived } = tally.counts;
        expect({ problems: tally.problems, survived }).toEqual({ problems: [], survived: injected });
      },
      LIMIT_MS,
    );
  }
}
