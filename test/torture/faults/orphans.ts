/** Kills the supervisor while its child processes work or hang: they must end. */
import { comesTrue, until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, statusOf } from "../traffic.ts";

export const orphans: Fault = {
  name: "orphans",
  title: "the children of a supervisor that dies are gone at once, also one whose forward pass never returns",
  async inject({ tally, home, isLong }) {
    for (let round = 0; round < (isLong ? 10 : 1); round++) {
      await using server = await TestedServer.start({ home, args: ["--fronts", "2"] });
      const at = await create(server.url, [{ x: 1, fault: "hang" }]);
      await until(async () => (await statusOf(server.url, at)) === "running", "a forward pass that hangs");
      const all = server.processes();
      if (all.length < 4) tally.problem(`only the processes ${all.join(", ")} are there`);
      await tally.inject(async () => {
        await server.kill();
        await comesTrue(() => server.processes().length === 0, 10_000);
        for (const pid of server.processes()) tally.found("leaked", `process ${pid} outlives its supervisor`);
      });
    }
  },
};
