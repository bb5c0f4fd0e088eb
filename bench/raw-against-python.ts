/** Whether the yardstick is one: the raw loop beside the same loop in PyTorch for Python. */
import type { CaseOptions, Measurement } from "./measurement.ts";
import { buildNetwork, type NetworkName } from "./networks.ts";
import { perSecond } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { inTurns, median, spread } from "./turns.ts";

const BATCH = 64;
const THREADS = 1;

export async function rawAgainstPython(
  name: NetworkName,
  { seconds, repeats, canary }: CaseOptions,
): Promise<Measurement> {
  const network = await buildNetwork(name);
  await using raw = RawLoop.start("addon", network, THREADS);
  await using python = RawLoop.start("python", network, THREADS);
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return (await python.throughput(BATCH, seconds)).perSecond;
    },
    async () => (await raw.throughput(BATCH, seconds)).perSecond,
  );
  const values = turns.map(({ before, measured, after }) => measured / ((before + after) / 2));
  const ours = median(turns.map(({ measured }) => measured));
  const theirs = median(turns.map(({ before, after }) => (before + after) / 2));
  return {
    subject: `${name}, raw loop`,
    compared: "of the same loop in Python",
    unit: "",
    reached: spread(values),
    values,
    behind: `${perSecond(ours)} to ${perSecond(theirs)}`,
    failed: 0,
    cores: canary.shares(),
  };
}
