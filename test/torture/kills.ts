/** Kills processes of a server at random moments under load, and checks all predictions at the end. */
import { until } from "./bounded.ts";
import type { Injection } from "./fault.ts";
import { TestedServer } from "./tested-server.ts";
import { Traffic } from "./traffic.ts";

export interface Kills extends Injection {
  readonly args?: readonly string[];
  readonly kills: number;
  /** Number of predictions and demos together. */
  readonly total: number;
  /** Whether the server may have failed a prediction with this message. */
  readonly isGivenUp: (message: string) => boolean;
  /** Kills a process, and waits until the server has recovered. It runs once in each part of the load. */
  readonly kill: (server: TestedServer) => Promise<void>;
}

export async function killUnderLoad({ tally, home, random, args = [], kills, total, isGivenUp, kill }: Kills) {
  await using server = await TestedServer.start({ home, args });
  const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines, isGivenUp });
  const running = traffic.run(total);
  for (let i = 0; i < kills; i++) {
    const at = ((i + random()) * total) / (kills + 1);
    await until(() => traffic.done >= at, `${Math.ceil(at)} of ${total} predictions\n${server.lastLines}`, 120_000);
    await tally.inject(() => kill(server));
  }
  await running;
  await traffic.verify();
  tally.note(`${total} predictions and demos, ${kills} kills`);
}

/** Whether the server gave a prediction up because it ended too often while the prediction ran. */
export const isSuspect = (message: string) => message.startsWith("Given up: ");
