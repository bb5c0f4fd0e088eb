/** Kills the engine process with SIGKILL at random moments under load. */
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { killUnderLoad } from "../kills.ts";

export const engineKills: Fault = {
  name: "engine-kills",
  title:
    "an engine process that is killed under load is started again, readiness says so, and every prediction ends with its own output",
  async inject(context) {
    const { tally, isLong } = context;
    let hasFallen = false;
    await killUnderLoad({
      ...context,
      kills: isLong ? 10 : 3,
      total: isLong ? 10_000 : 300,
      // An input that was in two killed batches, the second time alone, may fail: the server takes it for the cause.
      isGivenUp: (message) => /SIGKILL.* while it ran this input alone/.test(message),
      kill: async (server) => {
        const engine = await server.child("engine");
        const before = server.lines.length;
        process.kill(engine, "SIGKILL");
        const isBack = () =>
          server.lines.slice(before).some((line) => /engine process \d+ of \S+ is ready again/.test(line));
        await until(
          async () => {
            hasFallen ||= (await server.readiness()) === 503;
            return isBack();
          },
          () => `the engine process to be ready again\n${server.lastLines}`,
        );
        await until(async () => (await server.readiness()) === 200, "readiness to come back");
        if ((await server.child("engine")) === engine)
          tally.problem("the engine process has the id of the one that was killed");
        const told = server.lines
          .slice(before)
          .filter((line) => /The engine process \d+ of \S+ was ended by SIGKILL/.test(line));
        if (told.length !== 1) tally.problem(`${told.length} lines of the log tell of a death:\n${server.lastLines}`);
      },
    });
    if (!hasFallen) tally.problem("readiness was never 503");
  },
};
