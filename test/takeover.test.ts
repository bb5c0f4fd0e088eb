/**
 * A server takes over the port of a running server only if it serves every model of that server, or after --replace or
 * a reload.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ModelStore } from "../src/package/store/store.ts";
import { lossOf, type Offer, offerOf } from "../src/server/offer.ts";
import { type BuildsStore, storeOfBuilds } from "./helpers/builds.ts";
import { clientOf, startCli } from "./helpers/cli.ts";
import { freePort } from "./helpers/free-port.ts";
import { isRunning, until } from "./helpers/running.ts";
import { tempDir } from "./helpers/temp-dir.ts";

let store: BuildsStore;

beforeAll(async () => {
  store = await storeOfBuilds();
  new ModelStore(store.home).tag("lab:v2", "other:v2");
});

afterAll(() => store[Symbol.asyncDispose]());

test("a server of another model does not start, unless the operator permits that with --replace or a reload", async () => {
  await using dir = await tempDir();
  const port = freePort();
  const config = dir.join("served.toml");
  await Bun.write(config, 'models = ["lab:v1"]');
  const serve = (...args: string[]) =>
    startCli(["serve", ...args, "--host", "127.0.0.1", "-p", String(port)], {
      env: { SCONCE_HOME: store.home, TMPDIR: dir.path },
    });
  await using first = serve("--config", config, "--admin-port", "0");
  const client = await clientOf(first);
  const predicted = async () => (await client.predict([{ x: 1 }], { Connection: "close" })).outputs?.[0]?.y;
  {
    await using refused = serve("other:v2");
    expect(await refused.line("Listening on").catch(() => refused.exited)).toBe(1);
    expect(refused.lines.at(-1)).toEndWith(
      `port ${port} of 127.0.0.1 is in use: its server serves lab, and the new one serves only other; choose another --port, or replace that server with --replace`,
    );
  }
  expect(await first.line("does not take over")).toContain("with other:v2 does not take over: its server serves lab");
  expect(await predicted()).toBe(3);
  expect(first.lines.join("\n")).not.toContain("starts beside");
  // A reload with another list of models is a change by the operator, so the newer server needs no --replace.
  await Bun.write(config, 'models = ["other:v2"]');
  const admin = /http:\S+/.exec(await first.line("Admin port"))?.[0];
  const answer = await fetch(`${admin}/reload`, { method: "POST", headers: { Prefer: "wait", Connection: "close" } });
  expect(answer.status).toBe(200);
  const { pid: reloaded } = (await answer.json()) as { pid: number };
  try {
    expect(await first.line("The newer server takes over")).toContain("takes over: other:v2 in place of lab:v1.");
    expect(await first.exited).toBe(0);
    await first.line("The older server has ended");
    expect(await predicted()).toBe(1003);
    await using last = serve("lab:v1", "--replace");
    expect(await last.line(`Port ${port} has a server`)).toContain(
      "with other:v2. This one starts beside it, and takes over with lab:v1 when it is ready",
    );
    await last.line("The older server has ended");
    expect(await predicted()).toBe(3);
  } finally {
    if (isRunning(reloaded)) process.kill(reloaded, "SIGTERM");
    await until(() => !isRunning(reloaded));
  }
}, 120_000);

test("a server with a model of a registry is not replaced by a server with another model of this registry", () => {
  const of = (name: string) => offerOf([{ name, packaged: { tag: "v1" } }], { role: "both" });
  const older = of("localhost:5000/digits:v1");
  expect(lossOf(older, of("localhost:5000/digits:v2"))).toBeUndefined();
  expect(lossOf(older, of("localhost:5000/upscale"))).toStartWith("its server serves localhost:5000/digits, and");
});

describe("a server with lab:v1 and ten:v1", () => {
  const offer = (models: readonly string[], answersClients = true): Offer => ({
    models: models.map((each) => {
      const [name = "", tag = ""] = each.split(":");
      return { name, tag };
    }),
    answersClients,
  });
  const older = offer(["lab:v1", "ten:v1"]);

  test.each([
    ["the same models in another order", ["ten:v1", "lab:v1"]],
    ["other tags", ["lab:v2", "ten:v0"]],
    ["two versions of a model", ["lab:v1", "lab:v2", "ten:v1"]],
    ["a further model", ["new:v1", "lab:v1", "ten:v1"]],
  ])("is replaced by a server with %s", (_, models) => {
    expect(lossOf(older, offer(models))).toBeUndefined();
  });

  test("is not replaced by a server without one of them, nor by a worker, which answers no clients", () => {
    expect(lossOf(older, offer(["lab:v2"]))).toStartWith("its server serves ten, and the new one serves only lab;");
    expect(lossOf(older, offer(["lab:v1", "ten:v1"], false))).toStartWith("its server answers clients, and a worker");
    expect(lossOf(offer(["lab:v1"], false), offer(["lab:v2"]))).toBeUndefined();
  });
});
