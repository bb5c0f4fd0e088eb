/** Bodies of 60 MB beside small requests. */
import type { Fault, Injection } from "../fault.ts";
import { timesOfGoodClient } from "../good-client.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict } from "../traffic.ts";

/** Bytes of the texts of two inputs in one body. One input has at most 36 MiB. */
const LARGE_BYTES = 35_000_000;
const OTHER_BYTES = 25_000_000;

export const large: Fault = {
  name: "large",
  title: "a body of 60 MB shuts out no small request, and survives a kill",
  inject: largeBodies,
};

async function largeBodies({ tally, home, isLong }: Injection): Promise<void> {
  await using server = await TestedServer.start({ home });
  const note = "n".repeat(LARGE_BYTES);
  const small = { url: new URL("/predictions", server.url).href, body: '[{"x": 2}]' };
  if (isLong)
    tally.note(
      `small requests with nothing beside them: ${latencies(await timesOfGoodClient(small, Bun.sleep(5000)))}`,
    );
  for (let round = 0; round < (isLong ? 5 : 1); round++) {
    await tally.inject(async () => {
      const sending = predict(server.url, [{ x: 1, note }, { x: 2, note: note.slice(0, OTHER_BYTES) }, { x: 3 }]);
      const times = await timesOfGoodClient(small, sending);
      const { outputs } = await sending;
      tally.counts.checked += 1;
      const lengths = outputs?.slice(0, 2).map(({ length }) => length);
      if (lengths?.[0] !== LARGE_BYTES || lengths[1] !== OTHER_BYTES || outputs?.[2]?.y !== 9) {
        tally.found("wrong", `a body of ${LARGE_BYTES + OTHER_BYTES} bytes: ${JSON.stringify(outputs)?.slice(0, 300)}`);
      }
      tally.note(`beside 60 MB ${times.length} small requests were answered: ${latencies(times)}`);
    });
  }
  await tally.inject(async () => {
    const length = isLong ? LARGE_BYTES : LARGE_BYTES / 10;
    const at = await create(server.url, [{ x: 7, note: note.slice(0, length) }]);
    await server.kill();
    await server.started();
    const record = await (await fetch(new URL(at, server.url), { headers: { Prefer: "wait=60" } })).text();
    tally.counts.checked += 1;
    if (!record.includes(`"length":${length}`))
      tally.found("lost", `${length / 1e6} MB over a kill: ${record.slice(0, 500)}\n${server.lastLines}`);
  });
}

/** Latencies for the report; no check uses them. */
function latencies(ascending: readonly number[]): string {
  const at = (part: number) => (ascending[Math.floor(part * (ascending.length - 1))] ?? 0).toFixed(1);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`;
}
