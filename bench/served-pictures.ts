/** Pictures to a model that costs nothing, beside `Bun.Image` alone, which decodes and scales them in this process: what a server adds. */
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { type Picture, pictures } from "./pictures.ts";
import { ms, perSecond } from "./quantity.ts";
import { Target, WARM_UP_S } from "./target.ts";
import { inTurns, median, spread, sum } from "./turns.ts";
import { buildPictures } from "./variants.ts";

const CONNECTIONS = 32;

export async function servedPictures({ seconds, repeats, canary }: CaseOptions): Promise<Measurement> {
  const [shown, bodies] = [await pictures(), await buildPictures()];
  await using served = await Target.served("mean", ["--threads", "1", "--fronts", "1", "--store", "memory"]);
  const loadFor = (duration: number) => served.load({ bodies, connections: CONNECTIONS, seconds: duration });
  await loadFor(WARM_UP_S);
  const turns = await inTurns(
    repeats,
    async () => {
      await canary.listen();
      return decodedPerSecond(shown, seconds);
    },
    () => loadFor(seconds),
  );
  const loads = turns.map(({ measured }) => measured);
  const alone = turns.map(({ before, after }) => (before + after) / 2);
  const values = loads.map((load, i) => load.perSecond / (alone[i] ?? Number.NaN));
  return {
    subject: `pictures, ${CONNECTIONS} connections`,
    compared: "of Bun.Image alone",
    unit: "",
    goal: atLeast(0.8),
    reached: spread(values),
    values,
    behind: [
      `${perSecond(median(loads.map((load) => load.perSecond)))} to ${perSecond(median(alone))}`,
      `JS thread ${ms(median(loads.map(({ jsThreadUs = Number.NaN }) => jsThreadUs)) / 1000)}`,
    ].join(", "),
    failed: sum(loads.map(({ failed }) => failed)),
    cores: canary.shares(),
  };
}

/** In two passes, since in one it decodes a JPEG at a lower resolution. */
async function decodedPerSecond(shown: readonly Picture[], seconds: number): Promise<number> {
  const begin = performance.now();
  let count = 0;
  const decode = async (_: unknown, first: number) => {
    for (let i = first; performance.now() - begin < seconds * 1000; i++, count++) {
      const whole = await new Bun.Image(shown[i % shown.length]?.bytes ?? "").png({ compressionLevel: 0 }).bytes();
      await new Bun.Image(whole).resize(224, 224, { filter: "bilinear" }).png({ compressionLevel: 0 }).bytes();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, decode));
  return (count * 1000) / (performance.now() - begin);
}
