/** Clients that send predictions without a pause, while reloads switch the build that a tag names. */
import type { Build, BuildsStore } from "./builds.ts";
import { Client, type PredictionBody } from "./client.ts";
import { eventsOf } from "./events.ts";

/** Tag that the reloads move. */
export const movedTag = "live";

export interface SwitchOptions {
  readonly store: BuildsStore;
  readonly url: URL;
  readonly adminUrl: URL;
  readonly clients: number;
  /** Builds that the tag names one after another. */
  readonly moves: readonly Build[];
}

export interface Switches {
  /** Status of each reload, with the digests of the builds that it switched to, or the code of its problem. */
  readonly reloads: string[];
  readonly answers: PredictionBody[];
  readonly failures: string[];
  /** Answers whose output another build has made than the build that they name. */
  readonly wrong: PredictionBody[];
}

/** Moves the tag, reloads, and waits for answers from each client before the next move. */
export async function switchUnderLoad({ store, url, adminUrl, clients, moves }: SwitchOptions): Promise<Switches> {
  const [client, admin] = [new Client(url), new Client(adminUrl)];
  const found: Switches = { reloads: [], answers: [], failures: [], wrong: [] };
  let isOver = false;
  let sent = 0;
  const counts = Array.from({ length: clients }, () => 0);
  const run = async (index: number) => {
    while (!isOver) {
      const x = sent++ % 400;
      try {
        const body = await predictions[index % predictions.length]?.(client, x);
        if (body?.status !== "success") throw new Error(JSON.stringify(body));
        found.answers.push(body);
        if (!store.isRight(body, x)) found.wrong.push(body);
      } catch (error) {
        found.failures.push(String(error));
      }
      counts[index] = (counts[index] ?? 0) + 1;
    }
  };
  const running = counts.map((_, index) => run(index));
  const eachAnswers = async () => {
    const before = [...counts];
    while (counts.some((count, i) => count < (before[i] ?? 0) + 2)) await Bun.sleep(10);
  };
  await eachAnswers();
  for (const build of moves) {
    store.tag(movedTag, build);
    const answer = await admin.fetch("/reload", { method: "POST" });
    const { switched, type } = (await answer.json()) as { switched?: string[]; type?: string };
    found.reloads.push(`${answer.status} ${switched?.join() ?? type}`);
    await eachAnswers();
  }
  isOver = true;
  await Promise.all(running);
  return found;
}

/** Ways to make a prediction: with a wait, with an id that the client reads later, with an event stream, on a new connection. */
const predictions: readonly ((client: Client, x: number) => Promise<PredictionBody>)[] = [
  (client, x) => client.predict([{ x }]),
  async (client, x) => client.end((await client.create([{ x }])).prediction_id),
  async (client, x) => {
    const events = await Array.fromAsync(eventsOf(await client.stream([{ x }])));
    return events.at(-1)?.data as PredictionBody;
  },
  (client, x) => client.predict([{ x }], { Connection: "close" }),
];
