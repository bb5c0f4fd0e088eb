/** SIGKILL of one of several fronts at random moments under load. */
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { Traffic } from "../traffic.ts";

const FRONTS = 2;

export const frontKills: Fault = {
  name: "front-kills",
  title:
    "a front that is killed under load is started again, the port is served meanwhile, and no accepted prediction is lost",
  async inject({ tally, home, random, isLong }) {
    const [kills, total] = isLong ? [10, 10_000] : [2, 200];
    await using server = await TestedServer.start({
      home,
      args: ["--fronts", String(FRONTS), "--retain-count", "100000"],
    });
    const traffic = new Traffic({
      url: server.url,
      tally,
      random,
      lastLines: () => server.lastLines,
      isGivenUp: (message) => /^The server ended \d+ times while this ran/.test(message),
    });
    const running = traffic.run(total);
    for (let i = 0; i < kills; i++) {
      const at = ((i + random()) * total) / (kills + 1);
      await until(() => traffic.done >= at, `${Math.ceil(at)} of ${total} predictions\n${server.lastLines}`, 120_000);
      await tally.inject(async () => {
        const fronts = server.children("front");
        const killed = fronts[Math.floor(random() * fronts.length)] ?? 0;
        const readyBefore = timesReady(server);
        process.kill(killed, "SIGKILL");
        // The other one answers.
        await until(async () => (await server.readiness()) === 200, "an answer beside a killed front");
        await until(() => timesReady(server) > readyBefore, `the front to be back\n${server.lastLines}`);
        const now = server.children("front");
        if (now.length !== FRONTS || now.includes(killed)) {
          tally.problem(`there are the front processes ${now.join(", ")} after ${killed} was killed`);
        }
      });
    }
    await running;
    await traffic.verify();
    tally.note(`${total} predictions and demos, ${kills} kills of a front`);
  },
};

function timesReady(server: TestedServer): number {
  return server.lines.filter((line) => /front process \d+ is ready again/.test(line)).length;
}
