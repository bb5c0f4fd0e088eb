/** `sconce serve` from its start to its exit: it loads the model, becomes ready, drains and ends. */
import { describe, expect, test } from "bun:test";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import { Client, problemOf } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { freePort } from "./helpers/free-port.ts";
import { type Hold, hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab"));
/** A store with a model whose `setup` waits until a test releases it. */
const gated = fixture(async () => {
  await using dir = await tempDir();
  return await storeWith(await writeModel(dir, modelText({ setup })));
});

/** Log lines without warnings: a busy machine causes warnings about slow steps. */
const toldBy = ({ lines }: RunningCli) => lines.filter((line) => line.trim() !== "" && !line.includes("WARN"));

/**
 * `setup` of a model: throws with the variable BREAK, and waits for the URL in the variable GATE, in which PID stands
 * for the process id. Builds have neither variable.
 */
const setup = `async () => {
  if (process.env.BREAK) throw new Error("no vocabulary here");
  if (process.env.GATE) await fetch(process.env.GATE.replace("PID", process.pid));
}`;

describe("a server", () => {
  const server = fixture(() => store.start([]));
  const client = fixture(() => clientOf(server));

  test("logs each step in order, without colours in a pipe; its address comes last, when it accepts predictions", async () => {
    expect(await client.status("/health/ready")).toBe(200);
    const steps = [
      /Setting up the model lab:[0-9a-f]{12}$/,
      /Running on (cpu|cuda:0) with \d+ threads?, max batch size 4; a forward pass takes .* ms for 1.* model=lab:[0-9a-f]{12} engine=1$/,
      /Reading inputs from the input queue$/,
      /Starting the prediction service$/,
      /Listening on http:\/\/127\.0\.0\.1:\d+$/,
    ];
    const told = toldBy(server);
    expect(told).toHaveLength(steps.length);
    for (const [i, step] of steps.entries()) expect(told[i]).toMatch(step);
    expect(server.lines.join("\n")).toBe(Bun.stripANSI(server.lines.join("\n")));
  });

  test("without a name serves the most recent build", async () => {
    expect((await client.json("/")) as object).toMatchObject({ name: "lab" });
  });

  test("owns its port: another server that does not find it, such as one of another user, is refused", async () => {
    await using dir = await tempDir();
    const { port } = client.url;
    const args = ["serve", "lab", "--host", "127.0.0.1", "-p", port];
    const { code, stderr } = await store.cli(args, { env: { TMPDIR: dir.path } });
    expect(code).toBe(1);
    expect(stderr).toContain(`port ${port} of 127.0.0.1 is in use by another program`);
  });

  test("that is idle stops at once with code 0", async () => {
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  });
});

describe("starting", () => {
  test("opens its port first: it is live, and answers 503 to other requests until the model is ready", async () => {
    await using gate = hold();
    const port = freePort();
    await using server = gated.start(["-p", String(port)], { GATE: gate.url("setup") });
    await gate.arrived("setup");
    const client = new Client(new URL(`http://127.0.0.1:${port}`));
    expect(await client.status("/health/live")).toBe(200);
    for (const path of ["/health/ready", "/", "/docs", "/nothing", "/predictions/abc", "/metrics"]) {
      const response = await client.fetch(path, { headers: { "X-Request-Id": "early" } });
      expect(response.headers.has("retry-after")).toBe(true);
      expect(response.headers.get("x-request-id")).toBe("early");
      const problem = await problemOf(response);
      expect(problem).toMatchObject({ status: 503, type: "urn:sconce:problem:not_ready" });
      expect(problem.detail).toBe("the model is being set up");
    }
    expect((await client.refused([{ x: 1 }])).status).toBe(503);
    const inference: [string, number, object][] = [
      ["/v2/health/live", 200, { live: true }],
      ["/v2/health/ready", 503, { ready: false }],
      ["/v2/models/gated/infer", 503, { error: "the model is being set up" }],
    ];
    for (const [path, status, body] of inference) {
      const response = await client.fetch(path);
      expect([response.status, await response.json()]).toEqual([status, body]);
    }
    gate.release("setup");
    await server.line("Listening on");
    expect((await client.predict([{ x: 1 }])).status).toBe("success");
  });

  test("with several models, answers for each as soon as it is loaded, and waits for no other", async () => {
    await using gate = hold();
    await using dir = await tempDir();
    await using both = await storeWith(await writeModel(dir, modelText({ setup })), "lab");
    const port = freePort();
    await using server = both.start(["small", "lab", "-p", String(port)], { GATE: gate.url("setup") });
    await gate.arrived("setup");
    const client = new Client(new URL(`http://127.0.0.1:${port}`));
    await client.ready("/models/lab/health/ready");
    expect((await client.predictAt("/models/lab", [{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    // The first model also answers paths without a name.
    for (const path of ["/models/small", "/models/small/health/ready", "/predictions/abc", "/health/ready"]) {
      const refused = { status: 503, detail: "the model is being set up" };
      expect(await problemOf(await client.fetch(path))).toMatchObject(refused);
    }
    expect(server.lines.join()).not.toContain("Listening on");
    gate.release("setup");
    await server.line("Listening on");
    expect((await client.predict([{ x: 1 }])).status).toBe("success");
  });

  test("again after the HTTP process was killed, it says so", async () => {
    await using gate = hold();
    const port = freePort();
    await using server = gated.start(["-p", String(port)], { GATE: gate.url("PID") });
    const front = async () => (await inRole(server.pid, "front"))[0];
    const inSetUp = async () => [...(await inRole(server.pid, "front")), ...(await inRole(server.pid, "engine"))];
    await until(async () => (await inSetUp()).length === 2);
    const killed = await front();
    for (const pid of await inSetUp()) gate.release(String(pid));
    await server.line("Listening on");
    process.kill(Number(killed), "SIGKILL");
    await until(async () => ![undefined, killed].includes(await front()));
    const again = String(await front());
    await gate.arrived(again);
    const client = new Client(new URL(`http://127.0.0.1:${port}`));
    const detail = "the process that answers HTTP requests has ended and is starting again";
    for (const path of ["/health/ready", "/predictions/abc"]) {
      expect(await problemOf(await client.fetch(path))).toMatchObject({ status: 503, detail });
    }
    expect(await client.json("/v2/models/gated/infer")).toEqual({ error: detail });
    gate.release(again);
    await server.line("The front process 1 is ready again");
    expect((await client.predict([{ x: 1 }])).status).toBe("success");
  });

  test("of a model whose setup throws fails with one line and code 1", async () => {
    await using server = gated.start([], { BREAK: "1" });
    expect(await server.exited).toBe(1);
    expect(await server.line("sconce: ")).toContain("no vocabulary here");
    expect(toldBy(server)).toHaveLength(2);
  });
});

/**
 * Sends a signal to a server that has accepted work: the server answers a waiting client and refuses new work. One
 * prediction still waits for the gate b afterwards.
 */
async function stopAtWork(server: RunningCli, gate: Hold, signal: NodeJS.Signals) {
  const client = await clientOf(server);
  const waiting = client.predict([{ x: 1, before: gate.url("a") }, { x: 2 }]);
  const { prediction_id: id } = await client.create([{ x: 3, after: gate.url("b") }]);
  await Promise.all([gate.arrived("a"), gate.arrived("b")]);
  const beganMs = performance.now();
  server.kill(signal);
  await server.line("Stopping");
  expect(await client.status("/health/live")).toBe(200);
  await until(async () => (await client.status("/health/ready")) === 503);
  const response = await client.post([{ x: 1 }]);
  expect(response.headers.has("retry-after")).toBe(true);
  expect(await problemOf(response)).toMatchObject({ status: 503, type: "urn:sconce:problem:not_ready" });
  gate.release("a");
  expect(await waiting).toMatchObject({ status: "success", outputs: [{ y: 3 }, { y: 5 }] });
  expect((await client.read(id)).status).toBe("running");
  return { client, id, beganMs };
}

describe("a signal", () => {
  test("SIGTERM finishes accepted work, answers waiting clients, refuses new work, and ends with code 0", async () => {
    await using gate = hold();
    await using server = store.start(["lab"]);
    const { client, id } = await stopAtWork(server, gate, "SIGTERM");
    const reading = client.end(id);
    gate.release("b");
    expect(await reading).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
    expect(await server.exited).toBe(0);
    expect(server.lines.at(-1)).toContain("Stopped");
  });

  test.each(["SIGTERM", "SIGINT"] as const)(
    "%s lets accepted work end; a repeated one ends the server at once, but not within a second, since npm sends it twice",
    async (signal) => {
      await using gate = hold();
      await using server = store.start(["lab"]);
      const { beganMs } = await stopAtWork(server, gate, signal);
      let code: number | undefined;
      while (code === undefined) {
        server.kill(signal);
        code = await Promise.race([server.exited, Bun.sleep(20).then(() => undefined)]);
      }
      expect(code).toBe(130);
      expect(performance.now() - beganMs).toBeGreaterThan(1000);
    },
  );

  test("SIGTERM during setup ends the server with code 0, since nothing was accepted", async () => {
    await using gate = hold();
    await using server = gated.start([], { GATE: gate.url("setup") });
    await gate.arrived("setup");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  });
});

test("a stopping server leaves unfinished predictions to the next server", async () => {
  await using dir = await tempDir();
  await using gate = hold();
  const args = ["lab", "--store", dir.join("left.sqlite"), "--drain-timeout", "0.1"];
  await using server = store.start(args);
  const client = await clientOf(server);
  const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }]);
  await gate.arrived("a");
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
  gate.release("a");
  await using next = store.start(args);
  expect(await (await clientOf(next)).end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
});
