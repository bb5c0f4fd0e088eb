/** Pushes and pulls that are interrupted, killed, aborted or concurrent. The registry is Debian's docker-registry. */
import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { ModelStore } from "../src/package/store/store.ts";
import { cli, startCli } from "./helpers/cli.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { hasRegistry, registryFixture } from "./helpers/registry.ts";
import { registryProxy, type SeenRequest, type Trick } from "./helpers/registry-proxy.ts";
import { pullFrom, pushTo, putModel } from "./helpers/transfer.ts";

const weightBytes = 600_000;

let weights: string;

const registry = registryFixture();
const dir = fixture(tempDir);
const store = fixture(async () => {
  const made = new ModelStore(dir.join("store"));
  await putModel(made, "one", weightBytes);
  weights = (await made.resolve("digits")).layer("digits.pt").digest;
  if (hasRegistry) await pushTo(made, "digits:v1", `${registry.host}/digits:v1`);
  return made;
});

/** Chooses the fault of each request for the weights, in order. Further requests are forwarded without a fault. */
function onWeights(method: string, ...tricks: readonly Trick[]): (request: SeenRequest) => Trick | undefined {
  const left = [...tricks];
  return (request) =>
    request.method === method && request.path.endsWith(`/blobs/${weights}`) ? left.shift() : undefined;
}

/**
 * A fault that closes the connection after `bytes` of the answer, once the pull has written `partBytes` of the
 * weights to disk.
 */
function cutAfter(bytes: number, { home }: ModelStore, partBytes = bytes): Trick {
  return { cutAnswerAfter: bytes, taken: () => untilPart(home, partBytes) };
}

const ranges = (requests: readonly SeenRequest[]) => requests.map(({ headers }) => headers.range);

async function expectWhole(pulled: ModelStore, name = "digits:v1"): Promise<void> {
  const model = await pulled.resolve(name);
  expect(model.digest).toBe((await store.resolve("digits:v1")).digest);
  await pulled.verify(model);
  expect(await readdir(`${pulled.home}/.tmp`)).toEqual([]);
}

describe.skipIf(!hasRegistry)("a pull (with Debian's docker-registry)", () => {
  test("that is interrupted requests only the missing part", async () => {
    const pulled = new ModelStore(dir.join("cut"));
    await using proxy = await registryProxy(
      registry.port,
      onWeights("GET", cutAfter(250_000, pulled), cutAfter(100_000, pulled, 350_000)),
    );
    const { receivedBytes } = await pullFrom(pulled, `${proxy.host}/digits:v1`);
    expect(ranges(proxy.of("GET", new RegExp(weights)))).toEqual([undefined, "bytes=250000-", "bytes=350000-"]);
    expect(receivedBytes).toBeLessThan(weightBytes + 10_000);
    await expectWhole(pulled);
  });

  test("that receives nothing for too long requests the rest over another connection", async () => {
    const pulled = new ModelStore(dir.join("silent"));
    const hold = { holdAnswerAfter: 250_000, held: () => {} };
    await using proxy = await registryProxy(registry.port, onWeights("GET", hold));
    await pullFrom(pulled, `${proxy.host}/digits:v1`, { silenceMs: 1000 });
    expect(ranges(proxy.of("GET", new RegExp(weights)))).toEqual([undefined, "bytes=250000-"]);
    await expectWhole(pulled);
  });

  test("starts again if the registry ignores the requested range", async () => {
    const pulled = new ModelStore(dir.join("ignored"));
    await using proxy = await registryProxy(
      registry.port,
      onWeights("GET", cutAfter(250_000, pulled), { withoutHeader: "range" }),
    );
    await pullFrom(pulled, `${proxy.host}/digits:v1`);
    expect(proxy.of("GET", new RegExp(weights)).length).toBe(2);
    await expectWhole(pulled);
  });

  test("starts again if the registry sends another range, or refuses the range", async () => {
    const part = { "Content-Range": `bytes 0-9/${weightBytes}`, "Content-Length": "10" };
    for (const trick of [
      { status: 206, headers: part, body: "0123456789" },
      { status: 416, headers: { "Content-Length": "0" } },
    ]) {
      const pulled = new ModelStore(dir.join(`other-part-${trick.status}`));
      await using proxy = await registryProxy(registry.port, onWeights("GET", cutAfter(250_000, pulled), trick));
      await pullFrom(pulled, `${proxy.host}/digits:v1`);
      expect(ranges(proxy.of("GET", new RegExp(weights)))).toEqual([undefined, "bytes=250000-", undefined]);
      await expectWhole(pulled);
    }
  });

  test("is repeated while the registry is overloaded, and in the end reports its last answer", async () => {
    const busy = { status: 503, body: '{"errors":[{"code":"TOOMANYREQUESTS","message":"too\\nbusy"}]}' };
    await using passing = await registryProxy(registry.port, onWeights("GET", busy, { ...busy, status: 429 }));
    const pulled = new ModelStore(dir.join("busy"));
    await pullFrom(pulled, `${passing.host}/digits:v1`);
    await expectWhole(pulled);

    await using always = await registryProxy(registry.port, (request) =>
      /blobs/.test(request.path) ? busy : undefined,
    );
    const left = new ModelStore(dir.join("too-busy"));
    expect(await failure(pullFrom(left, `${always.host}/digits:v1`))).toBe(
      `registry_unavailable: ${always.host} can't serve digits now: 503 TOOMANYREQUESTS: too busy; try again later (tried 5 times)`,
    );
    expect(await left.list()).toEqual([]);
  });

  test("that is killed or interrupted leaves the store unchanged, and the next pull begins again", async () => {
    for (const [signal, code] of [
      ["SIGKILL", null],
      ["SIGINT", 130],
    ] as const) {
      const held = Promise.withResolvers<void>();
      await using proxy = await registryProxy(
        registry.port,
        onWeights("GET", { holdAnswerAfter: 400_000, held: held.resolve }),
      );
      const pulled = new ModelStore(dir.join(signal));
      const env = { SCONCE_HOME: pulled.home, HOME: dir.path };
      await using child = startCli(["pull", `${proxy.host}/digits:v1`], { env });
      await held.promise;
      await untilPart(pulled.home, 400_000);
      child.kill(signal);
      const ended = await child.exited;
      if (code !== null) expect(ended).toBe(code);
      expect(await pulled.list()).toEqual([]);
      await pullFrom(pulled, `${proxy.host}/digits:v1`);
      expect(ranges(proxy.of("GET", new RegExp(weights)))).toEqual([undefined, undefined]);
      await expectWhole(pulled);
    }
  });

  test("beside concurrent pulls of the same model gives one complete model", async () => {
    const pulled = new ModelStore(dir.join("twice"));
    const remote = `${registry.host}/digits:v1`;
    const [first] = await Promise.all([
      cli(["pull", remote], { env: { SCONCE_HOME: pulled.home, HOME: dir.path } }),
      pullFrom(pulled, remote),
      pullFrom(pulled, remote),
    ]);
    expect(first).toMatchObject({ code: 0 });
    await expectWhole(pulled);
    expect(new Set((await pulled.list()).map(({ digest }) => digest)).size).toBe(1);
  });
});

describe.skipIf(!hasRegistry)("a push (with Debian's docker-registry)", () => {
  test("whose last answer is lost finds that the registry has everything", async () => {
    const lost = new Set<string>();
    await using proxy = await registryProxy(registry.port, ({ method, path }) => {
      const isFirst = method === "PUT" && !lost.has(path.replace(/\?.*/, ""));
      if (isFirst) lost.add(path.replace(/\?.*/, ""));
      return isFirst ? { dropAnswer: true } : undefined;
    });
    await pushTo(store, "digits:v1", `${proxy.host}/lost/digits:v1`);
    // No blob was sent twice: each has one upload. The manifest was sent twice.
    expect(proxy.of("POST", /uploads/).length).toBe(3);
    expect(proxy.of("PUT", /manifests/).length).toBe(2);
    await expectPushed("lost/digits:v1");
  });

  async function expectPushed(name: string): Promise<void> {
    const pulled = new ModelStore(dir.join(`pushed-${name.replaceAll(/\W/g, "-")}`));
    await pullFrom(pulled, `${registry.host}/${name}`);
    await expectWhole(pulled);
  }
});

/** Resolves once a file of `bytes` bytes is in the store's folder for unfinished downloads. */
async function untilPart(home: string, bytes: number): Promise<void> {
  const glob = new Bun.Glob(".tmp/*/*");
  for (;;) {
    for (const path of glob.scanSync({ cwd: home, dot: true })) if (Bun.file(`${home}/${path}`).size >= bytes) return;
    await nextTurn();
  }
}
