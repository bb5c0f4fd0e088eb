/** Kills the whole server with SIGKILL at random moments under load, and starts it again on the same file and port. */
import type { Fault } from "../fault.ts";
import { isSuspect, killUnderLoad } from "../kills.ts";

export const serverKills: Fault = {
  name: "server-kills",
  title:
    "a server that is killed under load and started again loses nothing that a client was told, and mixes nothing up",
  inject: (context) =>
    killUnderLoad({
      ...context,
      kills: context.isLong ? 20 : 3,
      total: context.isLong ? 10_000 : 300,
      isGivenUp: isSuspect,
      kill: async (server) => {
        await server.kill();
        // Sometimes the next server is killed too, before or while it takes over unfinished predictions.
        if (context.random() < 0.3) {
          server.launch();
          await Bun.sleep(1500 * context.random());
          await server.kill();
        }
        await server.started();
      },
    }),
};
