/** Signals that ask the server to stop: under load, and with a time limit. */
import { comesTrue, until, within } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, statusOf, Traffic } from "../traffic.ts";

export const stops: Fault = {
  name: "stops",
  title: "SIGTERM lets accepted work end, --drain-timeout ends what does not, and a restart goes on with the rest",
  async inject(injection) {
    for (const fronts of injection.isLong ? [1, 2] : [1]) {
      await drainUnderLoad(injection, fronts);
      await drainForSoLong(injection, fronts);
    }
  },
};

async function drainUnderLoad({ tally, home, random, isLong }: Injection, fronts: number): Promise<void> {
  const args = ["--fronts", String(fronts)];
  await using server = await TestedServer.start({ home, args });
  const total = isLong ? 2000 : 200;
  const traffic = new Traffic({ url: server.url, tally, random, lastLines: () => server.lastLines });
  const running = traffic.run(total);
  await until(() => traffic.done >= total / 3, `a third of the load\n${server.lastLines}`);
  await tally.inject(async () => {
    server.signal("SIGTERM");
    const code = await within(server.exited, `the end after SIGTERM\n${server.lastLines}`);
    if (code !== 0) tally.problem(`SIGTERM ended the server with code ${code}\n${server.lastLines}`);
    await expectGone({ tally, server });
    // Every accepted prediction has ended before the exit, so the next server repeats none.
    await server.started();
    const again = server.lines.find((line) => line.includes("Resuming"));
    if (again !== undefined) tally.problem(`after a drain there was work left: ${again}`);
    await running;
    await traffic.verify();
  });
}

async function drainForSoLong({ tally, home }: Injection, fronts: number): Promise<void> {
  const args = ["--fronts", String(fronts), "--drain-timeout", "0.2"];
  await using server = await TestedServer.start({ home, args });
  // Each prediction takes longer than --drain-timeout allows, and the two run one after another.
  const xs = [1, 2];
  const told = await Promise.all(xs.map((x) => create(server.url, [{ x, sleepMs: 1500 }])));
  // The server gives a prediction up after two deaths. Three stops must not count as deaths.
  for (let stop = 0; stop < 3; stop++) {
    await until(async () => (await statusOf(server.url, told[0] ?? "")) !== "pending", "a prediction that runs");
    await tally.inject(async () => {
      server.signal("SIGTERM");
      const code = await within(server.exited, `the end after --drain-timeout\n${server.lastLines}`);
      if (code !== 0) tally.problem(`--drain-timeout ended the server with code ${code}\n${server.lastLines}`);
      await expectGone({ tally, server });
      await server.started();
    });
  }
  for (const [i, at] of told.entries()) {
    const response = await fetch(new URL(at, server.url), { headers: { Prefer: "wait=60" } });
    const text = await response.text();
    tally.counts.checked += 1;
    if (response.status === 404) tally.found("lost", `${at} after --drain-timeout\n${server.lastLines}`);
    else if (!text.includes(`"y":${3 * (xs[i] ?? 0)}`)) tally.found("wrong", `${at}: ${response.status} ${text}`);
  }
}

async function expectGone({
  tally,
  server,
}: Pick<Injection, "tally"> & { readonly server: TestedServer }): Promise<void> {
  if (await comesTrue(() => server.processes().length === 0, 10_000)) return;
  for (const pid of server.processes()) tally.found("leaked", `process ${pid} outlives its server`);
}
