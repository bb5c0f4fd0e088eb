/** Faults of every kind, injected into real servers: a short form of `npm run torture`. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { seeded } from "./helpers/loads.ts";
import { injectFault } from "./torture/fault.ts";
import { faults } from "./torture/faults.ts";
import { type ModelHome, modelHome } from "./torture/model-home.ts";
import { Tally } from "./torture/tally.ts";

/** Far beyond what one takes on two busy cores; all waiting inside is bounded by itself. */
const LIMIT_MS = 300_000;

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
      await injectFault(fault, { tally, home, random: seeded(Date.now()), isLong: false });
      console.log(`${fault.name}: ${JSON.stringify(tally.counts)}`);
      const { injected, survived } = tally.counts;
      expect({ problems: tally.problems, survived }).toEqual({ problems: [], survived: injected });
    },
    LIMIT_MS,
  );
}
