/** Several processes with one model store, and what a killed process leaves. */
import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { ModelStore } from "../../src/package/store/store.ts";
import { tempDir } from "../helpers/fixture.ts";
import { nextTurn } from "../helpers/loop-turns.ts";
import { modelConfig, modelLayers, modelOf } from "../helpers/model-content.ts";

function build(home: string, name: string, count: number) {
  const script = require.resolve("../helpers/build-child.ts");
  return Bun.spawn([process.execPath, script, home, name, String(count)], { stdout: "pipe", stderr: "inherit" });
}

async function expectReadable(store: ModelStore): Promise<void> {
  for (const { repository, tags, problem } of await store.list()) {
    expect(problem).toBeUndefined();
    for (const tag of tags) await store.resolve(`${repository}:${tag}`);
    await store.verify(await store.resolve(`${repository}:${tags[0]}`));
  }
}

describe("a build", () => {
  test("that is killed at any moment leaves a store that can be read, and the next build removes what was left", async () => {
    await using dir = await tempDir();
    const home = dir.join("store");
    const store = new ModelStore(home);
    for (let round = 0; round < 6; round++) {
      const child = build(home, "digits", 1000);
      const killAfterLines = 1 + Math.floor(Math.random() * 12);
      let lines = 0;
      for await (const chunk of child.stdout) {
        lines += chunk.filter((byte) => byte === 0x0a).length;
        if (lines >= killAfterLines) child.kill("SIGKILL");
      }
      await child.exited;
      expect(child.signalCode).toBe("SIGKILL");
      await expectReadable(store);
    }
    await store.put(modelOf("after all"));
    expect(await readdir(dir.join("store/.tmp"))).toEqual([]);
    // A file has a digest as its name only when it is complete.
    for (const name of await readdir(dir.join("store/blobs/sha256"))) {
      const bytes = await Bun.file(dir.join("store/blobs/sha256", name)).bytes();
      expect(new Bun.CryptoHasher("sha256").update(bytes).digest("hex")).toBe(name);
    }
  }, 120_000);

  test("that still runs keeps its unfinished files while another build starts", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    await Bun.write(dir.join("weights.pt"), new Uint8Array(3_000_000));
    let other: Promise<unknown> | undefined;
    const put = await store.put({
      repository: "digits",
      config: modelConfig(),
      layers: modelLayers("one", dir.join("weights.pt")),
      onProgress: () => {
        other ??= store.put(modelOf("two", { repository: "other" }));
      },
    });
    await other;
    await store.verify(await store.resolve(put.reference));
    expect((await store.list()).length).toBe(2);
    expect(await readdir(dir.join("store/.tmp"))).toEqual([]);
  });
});

describe("concurrent builds", () => {
  test("by eight processes are all stored", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const names = Array.from({ length: 8 }, (_, index) => `model-${index % 4}`);
    const outputs = await Promise.all(
      names.map(async (name, index) => {
        // Each of the eight processes builds three models under its own name. All models share one layer.
        const child = build(store.home, index < 4 ? name : `${name}-too`, 3);
        const text = await new Response(child.stdout).text();
        expect(await child.exited).toBe(0);
        return text.split("\n").filter((line) => line.includes(":"));
      }),
    );
    const references = outputs.flat();
    expect(new Set(references).size).toBe(24);
    for (const reference of references) await store.resolve(reference);
    const list = await store.list();
    expect(list.length).toBe(24);
    expect(list.filter(({ tags }) => tags.includes("latest")).length).toBe(8);
    expect(list.flatMap(({ tags }) => tags).filter((tag) => tag.startsWith("build-")).length).toBe(24);
    await expectReadable(store);
  }, 120_000);

  test("of the same content by four processes give one model", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const children = Array.from({ length: 4 }, () => build(store.home, "same", 3));
    expect(await Promise.all(children.map((child) => child.exited))).toEqual([0, 0, 0, 0]);
    expect((await store.list()).length).toBe(3);
    await expectReadable(store);
  }, 120_000);

  test("keep their blobs while another process removes models that share blobs", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const children = [build(store.home, "one", 5), build(store.home, "two", 5)];
    const exits = Promise.all(children.map((child) => child.exited));
    let isRunning = true;
    const outputs = Promise.all(children.map((child) => new Response(child.stdout).text())).finally(() => {
      isRunning = false;
    });
    const shared = {
      mediaType: "application/vnd.sconce.asset.v1",
      title: "shared.txt",
      source: Buffer.from("shared"),
    } as const;
    while (isRunning) {
      const layers = [...modelLayers("short-lived"), shared];
      const { digest } = await store.put({ repository: "short-lived", config: modelConfig(), layers });
      store.remove(`short-lived@${digest}`);
      // Lets the event loop turn, which reads the output of the child processes: a small `put` may need no turn.
      await nextTurn();
    }
    expect(await exits).toEqual([0, 0]);
    const references = (await outputs).flatMap((text) => text.split("\n").filter((line) => line.includes(":")));
    expect(references.length).toBe(10);
    for (const reference of references) await store.verify(await store.resolve(reference));
  }, 120_000);
});
