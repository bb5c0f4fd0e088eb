/** SIGKILL of the whole server at random moments under load, and a start on the same file and port. */
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { Traffic } from "../traffic.ts";

export const serverKills: Fault = {
  name: "server-kills",
  title:
    "a server that is killed under load and started again loses nothing that a client was told, and mixes nothing up",
  async inject({ tally, home, random, isLong }) {
    const [kills, total] = isLong ? [20, 10_000] : [3, 300];
    await using server = await TestedServer.start({ home, args: ["--retain-count", "100000"] });
    const traffic = new Traffic({
      url: server.url,
      tally,
      random,
      lastLines: () => server.lastLines,
      isGivenUp: (message) => /^The server ended \d+ times while this ran/.test(message),
    });
    const running = traffic.run(total);
    for (let i = 0; i < kills; i++) {
      // At some moment of each part of the load.
      const at = ((i + random()) * total) / (kills + 1);
      await until(() => traffic.done >= at, `${Math.ceil(at)} of ${total} predictions\n${server.lastLines}`, 120_000);
      await tally.inject(async () => {
        await server.kill();
        // Now and then a start is killed, too: somewhere between nothing and taking over what is left.
        if (random() < 0.3) {
          server.launch();
          await Bun.sleep(1500 * random());
          await server.kill();
        }
        await server.started();
      });
    }
    await running;
    await traffic.verify();
    tally.note(`${total} predictions and demos, ${kills} kills`);
  },
};
