/**
 * The processes of a server: HTTP processes ("fronts") without libtorch, one engine process, and what a crash of each
 * causes.
 */
import { describe, expect, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { getPriority } from "node:os";
import { frontsOf } from "../src/server/server.ts";
import { clientOf } from "./helpers/cli.ts";
import { type Client, problemOf } from "./helpers/client.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { hasLibtorch, inRole, isRunning, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { post, sendRaw, wire } from "./helpers/wire.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  const spin =
    "(rows, { input: { x } }) => { const end = performance.now() + x; while (performance.now() < end); return { y: x }; }";
  const large = {
    output: "z.object({ y: z.string() })",
    postprocess: "({ y }) => ({ y: String(y.data[0]).repeat(1e6) })",
  };
  return storeWith(
    "lab",
    await writeModel(dir, modelText({ name: '"spin"', postprocess: spin }), "spin"),
    await writeModel(dir, modelText({ name: '"large"', ...large }), "large"),
  );
});

/**
 * Creates predictions that wait for `url`, until each of the two HTTP processes has a prediction.
 * @returns the number `x` in the input of each prediction, by the id of the prediction
 */
async function createOnBoth(client: Client, url: string): Promise<Map<string, number>> {
  const owners = new Set<string>();
  const created = new Map<string, number>();
  for (let x = 0; x < 8 || owners.size < 2; x++) {
    // A new connection for each prediction, because the kernel distributes connections between HTTP processes.
    const { prediction_id: id } = await client.create([{ x, before: url }], { Connection: "close" });
    owners.add(id.slice(0, 1));
    created.set(id, x);
  }
  return created;
}

/** The output of each prediction, in order of their creation. */
async function outputsOf(client: Client, created: ReadonlyMap<string, number>): Promise<unknown[]> {
  return Promise.all([...created.keys()].map(async (id) => (await client.end(id)).outputs?.[0]?.y));
}

/** The different nice values of a process's threads. */
async function nicesOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`);
  const stats = await Promise.all(
    threads.map((id) => readFile(`/proc/${pid}/task/${id}/stat`, "utf8").catch(() => "")),
  );
  const nices = stats.filter(Boolean).map((stat) => Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]));
  return [...new Set(nices)];
}

const expected = (created: ReadonlyMap<string, number>) => [...created.values()].map((x) => 2 * x + 1);

describe("a server", () => {
  test("loads libtorch only in its engine process, and restarts it after a kill", async () => {
    await using server = store.start(["lab"]);
    const client = await clientOf(server);
    const [engine = 0] = await inRole(server.pid, "engine");
    const [front = 0] = await inRole(server.pid, "front");
    expect(await Promise.all([server.pid, front, engine].map(hasLibtorch))).toEqual([false, false, true]);
    expect(await client.metric('process_resident_memory_bytes{process="engine of lab"}')).toBeGreaterThan(2 ** 20);
    // This variable makes idle OpenMP threads of the engine process stop spinning soon, so that HTTP processes get
    // the cores.
    expect(await Bun.file(`/proc/${engine}/environ`).text()).toContain("GOMP_SPINCOUNT=20000\0");
    // The HTTP process and the engine process keep the priority of their parent: an HTTP process with less priority
    // would delay all answers.
    const own = getPriority();
    expect([await nicesOf(engine), await nicesOf(front)]).toEqual([[own], [own]]);
    expect((await client.predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    process.kill(engine, "SIGKILL");
    await until(async () => {
      const response = await client.fetch("/health/ready");
      if (response.ok) return false;
      const detail = "the process that runs the model has ended and is starting again";
      expect(await problemOf(response)).toMatchObject({ status: 503, detail });
      return true;
    });
    // The HTTP process accepts this prediction, which runs in the next engine process.
    expect(await client.predict([{ x: 3 }])).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
    expect(await client.status("/health/ready")).toBe(200);
    const restarts = (reason: string) => client.metric(`sconce_engine_restarts_total{reason="${reason}"}`);
    // The reason is uncertain: the kernel may have killed another process of this machine for lack of memory at the
    // same time.
    expect((await restarts("signal")) + (await restarts("memory"))).toBe(1);
    expect([await restarts("exit"), await restarts("stuck"), await restarts("setup")]).toEqual([0, 0, 0]);
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(isRunning(engine)).toBe(false);
  });

  test("that is killed has the large outcome that a client has read after its restart", async () => {
    const place = ["--store", dir.join("large.sqlite")];
    await using server = store.start(["large", ...place]);
    const client = await clientOf(server);
    const { prediction_id: id } = await client.create([{ x: 3 }]);
    const outputs = [{ y: "7".repeat(1_000_000) }];
    expect((await client.end(id)).outputs).toEqual(outputs);
    server.kill("SIGKILL");
    await server.exited;
    await using next = store.start(["large", ...place]);
    expect((await (await clientOf(next)).end(id)).outputs).toEqual(outputs);
  });

  test("names the function of the model that blocked the process, and for how long", async () => {
    await using server = store.start(["spin"]);
    const client = await clientOf(server);
    await client.predict([{ x: 600 }]);
    const warning = /postprocess of spin:latest@[0-9a-f]{12} held the server for .* front=1$/;
    expect(await server.line(" held the server for")).toMatch(warning);
    expect(await client.metric('sconce_event_loop_lag_seconds_bucket{le="0.25"}')).toBeLessThan(
      await client.metric('sconce_event_loop_lag_seconds_bucket{le="+Inf"}'),
    );
  });
});

test.each([
  [1, 1],
  [7, 1],
  [8, 4],
  [16, 8],
  [64, 8],
])("with %d cores has %d fronts by default", (cores, count) => {
  expect(frontsOf({ fronts: 3 }, cores)).toBe(3);
  expect(frontsOf({ fronts: undefined }, cores)).toBe(count);
});

describe("a server with two HTTP processes", () => {
  const server = fixture(() => store.start(["lab", "--fronts", "2", "--store", dir.join("fronts.sqlite")]));
  const client = fixture(() => clientOf(server));

  test("answers for all predictions in both, with common counts", async () => {
    await using gate = hold();
    const created = await createOnBoth(client, gate.url("a"));
    expect(await client.metric("sconce_queued_items")).toBe(created.size);
    const [canceled = ""] = created.keys();
    const streams = await Promise.all([...created.keys()].map((id) => client.watch(id, { Connection: "close" })));
    expect(await client.cancel(canceled)).toMatchObject({ status: "failed", error_message: "Canceled" });
    created.delete(canceled);
    const ends = streams.map(async (response) => (await Array.fromAsync(eventsOf(response))).at(-1)?.event);
    gate.release("a");
    expect(await outputsOf(client, created)).toEqual(expected(created));
    expect(new Set(await Promise.all(ends))).toEqual(new Set(["completed"]));
    expect(await client.metric("sconce_queued_items")).toBe(0);
    expect(await client.metric('sconce_predictions_total{status="success"}')).toBe(created.size);
    const other = `${canceled.slice(0, -1)}${canceled.endsWith("_") ? "-" : "_"}`;
    expect(await client.status(`/predictions/${other}`)).toBe(404);
  });

  test("refuses in both the inputs that are too many for both together", async () => {
    await using gate = hold();
    await using limited = await store.serve("lab", { fronts: 2, maxQueuedItems: 20 });
    const created = await createOnBoth(limited.client, gate.url("a"));
    const tooMany = Array.from({ length: 21 - created.size }, () => ({ x: 1 }));
    const refused = () => limited.client.refused(tooMany, { Connection: "close" });
    const answers = await Promise.all(Array.from({ length: 8 }, refused));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(429));
    gate.release("a");
    expect(await outputsOf(limited.client, created)).toEqual(expected(created));
  });

  test("creates one prediction for one id, in whichever it arrives", async () => {
    const successes = () => client.metric('sconce_predictions_total{status="success"}');
    const before = await successes();
    const large = { text: "n".repeat(300_000) };
    const put = (id: string, x: number) => client.put(id, [{ x, note: large }], { Connection: "close" });
    // Ids that belong to the first, to the second, and to no HTTP process.
    for (const id of ["0", "1", "z"].map((owner) => `${owner}${crypto.randomUUID()}`)) {
      const bodies = await Promise.all(Array.from({ length: 6 }, () => put(id, 1)));
      expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
      expect(bodies[0]?.status).toBe("success");
      await expect(put(id, 2)).rejects.toThrow(/^422/);
    }
    expect(await successes()).toBe(before + 3);
  });

  test("answers requests without a Host, or with a malformed one, in both", async () => {
    const { prediction_id: id } = await client.predict([{ x: 1 }]);
    const heads = ["HTTP/1.0", "HTTP/1.1\r\nHost: [::\r\nConnection: close"].flatMap((rest) =>
      ["GET", "HEAD"].map((method) => `${method} /predictions/${id} ${rest}\r\n\r\n`),
    );
    const answers = heads.flatMap((head) => Array.from({ length: 8 }, () => sendRaw(client.url, head)));
    for (const answer of await Promise.all(answers)) expect(answer).toStartWith("HTTP/1.1 200 ");
  });

  test("loses no accepted prediction if one is killed", async () => {
    await using gate = hold();
    const requests = () => client.metric('sconce_http_requests_total{route="/predictions",code="200"}');
    const before = await requests();
    const created = await createOnBoth(client, gate.url("a"));
    expect(await requests()).toBe(before + created.size);
    const [front = 0] = await inRole(server.pid, "front");
    process.kill(front, "SIGKILL");
    await server.line("is ready again");
    // The counters of the killed process still count.
    expect(await requests()).toBe(before + created.size);
    gate.release("a");
    expect(await outputsOf(client, created)).toEqual(expected(created));
    expect(await inRole(server.pid, "front")).toHaveLength(2);
  });

  test("has one memory account for both", async () => {
    await using server = store.start(["lab", "--fronts", "2", "--max-memory", "3m"]);
    const client = await clientOf(server);
    const held = () => client.metric('sconce_memory_bytes{part="bodies"}');
    using upload = wire(client.url);
    upload.write(post("", { length: 500_000 }));
    await until(async () => (await held()) === 1_500_000);
    const large = [{ x: 1, note: { text: "n".repeat(100_000) } }];
    for (let i = 0; i < 10; i++) expect((await client.refused(large, { Connection: "close" })).status).toBe(429);
    upload[Symbol.dispose]();
    await until(async () => (await held()) === 0);
    expect((await client.predict(large)).status).toBe("success");
    expect(await client.metric("sconce_memory_limit_bytes")).toBe(3 * 2 ** 20);
  });

  test("answers in both until all accepted predictions have ended", async () => {
    await using gate = hold();
    await using server = store.start(["lab", "--fronts", "2"]);
    const client = await clientOf(server);
    const fronts = await inRole(server.pid, "front");
    const accepted = client.predict([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    server.kill("SIGTERM");
    await server.line("Stopping");
    for (let i = 0; i < 200; i++) {
      expect((await client.fetch("/health/live", { headers: { Connection: "close" } })).status).toBe(200);
    }
    expect(await inRole(server.pid, "front")).toEqual(fronts);
    gate.release("a");
    expect((await accepted).status).toBe("success");
    expect(await server.exited).toBe(0);
  });

  test("stops all processes, and exits with 0", async () => {
    const processes = [...(await inRole(server.pid, "front")), ...(await inRole(server.pid, "engine"))];
    const body = client.predict(Array.from({ length: 20 }, (_, x) => ({ x })));
    await until(
      async () => (await client.metric("sconce_predictions_active")) > 0 || (await body).status === "success",
    );
    server.kill("SIGTERM");
    expect((await body).status).toBe("success");
    expect(await server.exited).toBe(0);
    expect(processes.filter(isRunning)).toEqual([]);
  });
});
