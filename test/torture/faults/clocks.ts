/** The system clock jumps an hour back and forward, while predictions run and while the server is stopped. */
import { existsSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { tempDir } from "../../helpers/fixture.ts";
import type { Fault } from "../fault.ts";
import { lacking, preloaded } from "../preloaded.ts";
import { TestedServer } from "../tested-server.ts";
import { create, Traffic } from "../traffic.ts";

const HOUR_S = 3600;

export const clocks: Fault = {
  name: "clocks",
  title: "a wall clock that is set back an hour, or forward, ends no prediction early or late, and removes no outcome",
  lacking,
  async inject({ tally, home, random, isLong }) {
    await using dir = await tempDir();
    const clock = dir.join("shift");
    setClock(clock, 0);
    const args = ["--timeout", "60", "--retain-age", "600"];
    const env = { LD_PRELOAD: preloaded("clock-shift", dir.path), CLOCK_SHIFT_FILE: clock };
    await using server = await TestedServer.start({ home, args, env });
    const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines });
    const total = isLong ? 500 : 60;
    const shifts = isLong ? [-1, 0, 1, 0, -1, -2, 2] : [-1, 1];
    for (const [i, hours] of shifts.entries()) {
      const running = traffic.run(total);
      await tally.inject(async () => {
        setClock(clock, hours * HOUR_S);
        const hoursOff = (Date.parse(await createdAt(server.url)) - Date.now()) / 1000 / HOUR_S;
        if (Math.round(hoursOff) !== hours)
          throw new Error(`the server's clock is ${hoursOff} hours off, not ${hours}`);
        await running;
        // After the first jump, the clock also jumps while the server is stopped.
        if (i === 0) {
          await server.kill();
          setClock(clock, 2 * hours * HOUR_S);
          await server.started();
        }
      });
    }
    await traffic.verify();
  },
};

/** Sets the offset of the simulated clock. The file is written in place, since processes have mapped it. */
function setClock(file: string, seconds: number): void {
  const flag = existsSync(file) ? "r+" : "w";
  writeFileSync(file, new BigInt64Array([BigInt(seconds)]), { flag });
}

/** Creates a prediction. @returns the time of its creation by the server's clock */
async function createdAt(url: URL): Promise<string> {
  const at = await create(url, [{ x: 1 }]);
  const record: unknown = await (await fetch(new URL(at, url))).json();
  return z.looseObject({ created_at: z.string() }).parse(record).created_at;
}
