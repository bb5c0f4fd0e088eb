/** The database of predictions when a process or the file fails. */
import { Database } from "bun:sqlite";
import { describe, expect, spyOn, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { log } from "../../src/base/log.ts";
import { clientOf } from "../helpers/cli.ts";
import { failure, failureOf } from "../helpers/failure.ts";
import { type TempDir, tempDir } from "../helpers/fixture.ts";
import { killedAfter } from "../helpers/killed-store.ts";
import { asText, endOf, largeEndOf, requestOf } from "../helpers/predictions.ts";
import { until } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";
import { claim, endIn, leftOf, open } from "../helpers/sqlite.ts";

const silent = Object.assign(() => {}, { raw() {} });

describe("a process that is killed", () => {
  test("at any moment leaves all stored predictions with their body or outcome, and another process can follow at once", async () => {
    await using dir = await tempDir();
    const path = dir.join("predictions.db");
    for (let round = 0; round < 6; round++) {
      const owner = "abcdef"[round] ?? "";
      const created = await killedAfter(1 + Math.floor(Math.random() * 600), path, { role: "main", owner });
      const store = await open(dir);
      const left = new Map((await leftOf(store, (each) => each === owner)).map((request) => [request.id, request]));
      for (const [id, { body, deaths }] of left) {
        expect(JSON.parse(Buffer.from(body).toString())[0]).toBe(id);
        // Every fifth prediction never began, so the death of its process does not count for it.
        if (Number(id.split("-")[1]) % 5 === 4) expect(deaths).toBe(0);
      }
      for (const id of created) {
        if (left.has(id)) continue;
        // The prediction has ended, and the process was killed before it could print so.
        const record = await store.read(id);
        expect(asText(record)?.outcome?.members).toStartWith(`"outputs":["${id}`);
      }
      await store.close();
      await using next = await open(dir);
      for await (const { id } of claim(next, (each) => each === owner)) next.finish(endOf(id), true);
    }
    await using last = await open(dir);
    expect(await leftOf(last)).toEqual([]);
  }, 120_000);

  test("beside other processes of the server leaves its predictions to these", async () => {
    await using dir = await tempDir();
    await using store = await open(dir);
    const members = await Promise.all(
      ["b", "c"].map((owner) => killedAfter(300, dir.join("predictions.db"), { role: "member", owner })),
    );
    const mine = Array.from({ length: 50 }, (_, index) => `a${index}`);
    await Promise.all(mine.map((id) => store.accept(requestOf(id))));
    const left = new Set<string>();
    for await (const { id } of claim(store, (owner) => owner !== "a")) left.add(id);
    for (const created of members) {
      for (const id of created) expect(left.has(id) || (await store.read(id))?.outcome !== undefined).toBe(true);
    }
    for (const id of mine) expect(left.has(id)).toBe(false);
  }, 120_000);
});

describe("a file that cannot be used is reported in one line", () => {
  const path = (dir: TempDir) => dir.join("predictions.db");
  const changes: [what: string, change: (path: string) => unknown, reason: string][] = [
    [
      "is no database",
      (file) => Bun.write(file, "no database ".repeat(1000)),
      "file is not a database (SQLITE_NOTADB)",
    ],
    ["is a folder", (file) => mkdirSync(file), "unable to open database file (SQLITE_CANTOPEN)"],
    [
      "is of another program",
      (file) => {
        using database = new Database(file);
        database.run("CREATE TABLE notes (text TEXT)");
      },
      "it is a database of another program; name another file",
    ],
  ];
  for (const [what, change, reason] of changes) {
    test(`if it ${what}`, async () => {
      await using dir = await tempDir();
      await change(path(dir));
      const message = await failure(open(dir));
      expect(message).toBe(`predictions_unusable: the predictions in ${path(dir)} cannot be used: ${reason}`);
      // A second try gives the same message, so the first has released the lock.
      expect(await failure(open(dir))).toBe(message);
    });
  }

  test("if a newer sconce wrote it", async () => {
    await using dir = await tempDir();
    await (await open(dir)).close();
    {
      using database = new Database(path(dir));
      database.run("PRAGMA user_version = 7");
    }
    expect((await failureOf(open(dir))).message).toEndWith(
      "a newer sconce wrote it (its format is 7 and this sconce knows 4); use that one, or name another file",
    );
  });

  test("if another server uses it, until that server ends", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    expect(await failure(open(dir))).toBe(
      `predictions_unusable: the predictions in ${path(dir)} cannot be used: another server uses them; stop it, or name another file`,
    );
    await (await open(dir, { role: "member" })).close();
    await store.close();
    await (await open(dir)).close();
  });
});

describe("a file that cannot be read is moved aside, and the server begins anew", () => {
  const damages: [what: string, change: (path: string) => Promise<unknown>, reason: string][] = [
    [
      "it is damaged",
      async (path) => {
        const bytes = await Bun.file(path).bytes();
        await Bun.write(path, bytes.fill(0x5a, 4096, bytes.length / 2));
      },
      "it is damaged (SQLITE_CORRUPT)",
    ],
    [
      "an earlier sconce wrote it",
      async (path) => {
        using database = new Database(path);
        database.run("PRAGMA user_version = 1");
      },
      "an earlier sconce wrote it",
    ],
  ];
  test.each(damages)("if %s", async (_, change, reason) => {
    await using dir = await tempDir();
    const path = dir.join("predictions.db");
    const store = await open(dir);
    await endIn(store, ...Array.from({ length: 100 }, (_, index) => largeEndOf(`a${index}`, 5000)));
    await store.accept(requestOf("b1", { body: `["${"x".repeat(100_000)}"]` }));
    await store.close();
    await change(path);
    const bytes = await Bun.file(path).bytes();
    using error = spyOn(log, "error").mockImplementation(silent);
    await using next = await open(dir);
    expect(error.mock.calls.flat()).toEqual([
      expect.stringContaining(`${path} cannot be used: ${reason}. They are in `),
    ]);
    const [, aside = ""] = /They are in (\S+) now/.exec(String(error.mock.calls[0]?.[0])) ?? [];
    expect(await Bun.file(aside).bytes()).toEqual(bytes);
    expect(await leftOf(next)).toEqual([]);
    await endIn(next, endOf("a1"));
    expect(await next.read("a1")).toEqual(endOf("a1"));
  });
});

test.each(["deleted", "replaced"])(
  "a file that is %s under a running server: the server is not ready, accepts nothing, and can read its predictions",
  async (how) => {
    await using dir = await tempDir();
    const path = dir.join("predictions.db");
    await using models = await storeWith("lab");
    await using server = models.start(["lab", "--store", path]);
    const client = await clientOf(server);
    const { prediction_id: id } = await client.create([{ x: 1 }]);
    expect(await client.end(id)).toMatchObject({ status: "success" });
    rmSync(path);
    if (how === "replaced") await Bun.write(path, "");
    const ready = () => client.fetch("/health/ready");
    await until(async () => (await ready()).status === 503);
    expect(await (await ready()).json()).toMatchObject({
      detail: "the file of the predictions was deleted or replaced",
    });
    expect(await client.refused([{ x: 1 }])).toMatchObject({
      status: 503,
      detail: expect.stringContaining("its file was deleted or replaced; restart the server"),
    });
    expect(await client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    // Each process that has opened the file reports it once.
    const errors = server.lines.filter((line) => line.includes("ERROR"));
    expect(errors).not.toEqual([]);
    for (const line of errors) expect(line).toContain("were deleted or replaced");
  },
);

test("a store that is closed stores nothing more, and may be closed again", async () => {
  await using dir = await tempDir();
  const store = await open(dir);
  await store.close();
  await store.close();
  expect((await failureOf(store.accept(requestOf("a1")))).code).toBe("predictions_unwritable");
  store.finish(endOf("a2"), true);
  await store.flush();
  await using next = await open(dir);
  expect(next.retained.count).toBe(0);
});
