/** Kills one of several HTTP processes with SIGKILL at random moments under load. */
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { isSuspect, killUnderLoad } from "../kills.ts";
import type { TestedServer } from "../tested-server.ts";

const FRONTS = 2;

export const frontKills: Fault = {
  name: "front-kills",
  title:
    "a front that is killed under load is started again, the port is served meanwhile, and no accepted prediction is lost",
  async inject(context) {
    const { tally, random, isLong } = context;
    await killUnderLoad({
      ...context,
      args: ["--fronts", String(FRONTS)],
      kills: isLong ? 10 : 2,
      total: isLong ? 10_000 : 200,
      isGivenUp: isSuspect,
      kill: async (server) => {
        const fronts = server.children("front");
        const killed = fronts[Math.floor(random() * fronts.length)] ?? 0;
        const readyBefore = timesReady(server);
        process.kill(killed, "SIGKILL");
        // The other HTTP process answers.
        await until(async () => (await server.readiness()) === 200, "an answer beside a killed front");
        await until(() => timesReady(server) > readyBefore, `the front to be back\n${server.lastLines}`);
        const now = server.children("front");
        if (now.length !== FRONTS || now.includes(killed)) {
          tally.problem(`there are the front processes ${now.join(", ")} after ${killed} was killed`);
        }
      },
    });
  },
};

function timesReady(server: TestedServer): number {
  return server.lines.filter((line) => /front process \d+ is ready again/.test(line)).length;
}
