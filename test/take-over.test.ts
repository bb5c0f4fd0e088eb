/** One server a port of a machine. With --take-over a new server ends the server that has the port, and finishes its predictions. */
import { expect, test } from "bun:test";
import { type Build, storeOfBuilds } from "./helpers/builds.ts";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import { fixture, type TempDir, tempDir } from "./helpers/fixture.ts";
import { freePort } from "./helpers/free-port.ts";
import { hold } from "./helpers/hold.ts";

const store = fixture(storeOfBuilds);

interface Place {
  /** Folder of the store, and of the lock of the port. */
  readonly dir: TempDir;
  readonly port: number;
}

const makePlace = async (): Promise<Place & AsyncDisposable> => {
  const dir = await tempDir();
  return { dir, port: freePort(), [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
};

function serve(build: Build, { dir, port }: Place, ...args: readonly string[]): RunningCli {
  const options = ["-p", String(port), "--store", dir.join("p.sqlite"), ...args];
  return store.start([`lab:${build}`, ...options], { TMPDIR: dir.path, BROKEN_BUILD: "v3" });
}

test("of two servers that start together on one port, one serves, and the other names its process", async () => {
  await using place = await makePlace();
  await using one = serve("v1", place);
  await using other = serve("v1", place, "--store", "memory");
  const ended = await Promise.race([one, other].map(({ exited }, i) => exited.then((code) => ({ code, i }))));
  const [winner, loser] = ended.i === 0 ? [other, one] : [one, other];
  expect(ended.code).toBe(1);
  expect(loser.lines.at(-1)).toContain(
    `port ${place.port} of 127.0.0.1 is in use by another sconce server (process ${winner.pid})`,
  );
  expect((await (await clientOf(winner)).predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
});

test("a port with a running server, or with another program, is refused", async () => {
  await using place = await makePlace();
  await using running = serve("v1", place);
  const client = await clientOf(running);
  await using second = serve("v2", place, "--store", "memory");
  expect(await second.exited).toBe(1);
  expect(second.lines.at(-1)).toContain(`(process ${running.pid})`);
  expect((await client.predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
  const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("other") });
  await using third = serve("v2", { ...place, port: Number(other.port) }, "--take-over", "--store", "memory");
  expect(await third.exited).toBe(1);
  expect(third.lines.at(-1)).toContain("is in use");
  await other.stop(true);
});

test("a killed server leaves its port to the next", async () => {
  await using place = await makePlace();
  {
    await using killed = serve("v1", place);
    await clientOf(killed);
    killed.kill("SIGKILL");
    await killed.exited;
  }
  // Processes of the killed server may keep the port for a moment.
  for (;;) {
    await using next = serve("v1", place);
    const line = await next.line("Listening on").catch(() => undefined);
    if (line === undefined) continue;
    expect((await (await clientOf(next)).predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    return;
  }
}, 60_000);

test("with --take-over the new server ends the old one when it is ready, and finishes the predictions that it left", async () => {
  await using place = await makePlace();
  await using gate = hold();
  await using old = serve("v1", place, "--drain-timeout", "0.1");
  const client = await clientOf(old);
  const close = { Connection: "close" };
  const kept = await client.create([{ x: 5 }], close);
  const left = await Promise.all([1, 2, 3].map((x) => client.create([{ x, before: gate.url("a") }], close)));
  await gate.arrived("a");
  await using next = serve("v2", place, "--take-over");
  await next.line("Listening on");
  expect(await old.exited).toBe(0);
  await next.line("The earlier server has ended");
  gate.release("a");
  const ended = await Promise.all(
    left.map(({ prediction_id: id }) => client.until(id, ({ status }) => !status.endsWith("ing"))),
  );
  expect(ended.map(({ status, outputs }) => [status, outputs?.[0]?.y])).toEqual([
    ["success", 1003],
    ["success", 1005],
    ["success", 1007],
  ]);
  // The new build ran them, and the record says so.
  expect(ended.map((body, i) => store.isRight(body, i + 1))).toEqual([true, true, true]);
  expect((await client.read(kept.prediction_id, close)).outputs).toMatchObject([{ y: 11 }]);
  // The new server has the port alone.
  await using third = serve("v1", place, "--store", "memory");
  expect(await third.exited).toBe(1);
  expect(third.lines.at(-1)).toContain(`(process ${next.pid})`);
}, 120_000);

test("a prediction that runs during a take-over is finished by the old server", async () => {
  await using place = await makePlace();
  await using gate = hold();
  await using old = serve("v1", place);
  const client = await clientOf(old);
  const waiting = client.predict([{ x: 1, before: gate.url("a") }]);
  await gate.arrived("a");
  await using next = serve("v2", place, "--take-over");
  await next.line("Listening on");
  await old.line("Stopping");
  gate.release("a");
  const body = await waiting;
  expect([body.outputs?.[0]?.y, store.isRight(body, 1)]).toEqual([3, true]);
  expect(await old.exited).toBe(0);
  await next.line("The earlier server has ended");
  const fresh = await client.predict([{ x: 1 }], { Connection: "close" });
  expect([fresh.outputs?.[0]?.y, store.isRight(fresh, 1)]).toEqual([1003, true]);
}, 120_000);

test("a new server that does not start leaves the old one as it is", async () => {
  await using place = await makePlace();
  await using old = serve("v1", place);
  const client = await clientOf(old);
  await using next = serve("v3", place, "--take-over");
  expect(await next.exited).toBe(1);
  expect(next.lines.join("\n")).toContain("v3 is broken");
  expect((await client.predict([{ x: 1 }], { Connection: "close" })).outputs).toMatchObject([{ y: 3 }]);
  expect(old.lines.join("\n")).not.toContain("Stopping");
}, 60_000);

test("--take-over without a running server is an ordinary start", async () => {
  await using place = await makePlace();
  await using server = serve("v1", place, "--take-over");
  expect((await (await clientOf(server)).predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
});
