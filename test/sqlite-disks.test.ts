/** The database of predictions on a disk that is full or read-only. */
import { describe, expect, spyOn, test } from "bun:test";
import { log } from "../src/base/log.ts";
import { problemOf, problemStatus } from "../src/http/problem.ts";
import { problemOf as problemOfResponse } from "./helpers/client.ts";
import { failure, failureOf } from "./helpers/failure.ts";
import { killedAfter } from "./helpers/killed-store.ts";
import { asText, largeEndOf, requestOf } from "./helpers/predictions.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { leftOf, open } from "./helpers/sqlite.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

const onDisks = describe.skipIf(!canMount);
const silent = Object.assign(() => {}, { raw() {} });

onDisks("a disk (skipped where file systems cannot be mounted)", () => {
  test("that is full refuses requests and keeps outcomes in memory until it has space, with one log line", async () => {
    using disk = tmpfs("3m");
    using warn = spyOn(log, "warn").mockImplementation(silent);
    using info = spyOn(log, "info").mockImplementation(silent);
    const store = await open(disk);
    await Promise.all(["a1", "a2", "a3", "a4"].map((id) => store.accept(requestOf(id))));
    disk.fill();

    const refused = await failureOf(store.accept(requestOf("b1", { body: `["${"x".repeat(60_000)}"]` })));
    const problem = problemOf(refused);
    expect(problem).toMatchObject({ code: "predictions_unwritable", headers: { "Retry-After": "1" } });
    expect(problemStatus(problem)).toBe(503);
    expect(refused.message).toBe("the prediction cannot be kept now: database or disk is full (SQLITE_FULL)");
    // Until the write is tried again, the store refuses each request at once.
    expect((await failureOf(store.accept(requestOf("b2")))).code).toBe("predictions_unwritable");
    const ends = [largeEndOf("a1", 60_000), largeEndOf("a2", 100_000), largeEndOf("a4", 60_000)];
    for (const end of ends) store.finish(end, true);
    expect((await failureOf(store.flush())).code).toBe("predictions_unwritable");
    for (const end of ends) expect(await store.read(end.id)).toEqual(end);
    expect([warn.mock.calls.length, store.outage]).toEqual([1, "disk"]);

    disk.clear();
    await until(() => store.outage === undefined);
    await store.accept(requestOf("b3"));
    expect([warn, info].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
    await store.close();
    const next = await open(disk);
    for (const end of ends) expect(asText(await next.read(end.id))).toEqual(end);
    expect((await leftOf(next)).map(({ id }) => id)).toEqual(["a3", "b3"]);
    await next.close();
  }, 120_000);

  test("that was full is found to have space without a further write", async () => {
    using disk = tmpfs("3m");
    using _warn = spyOn(log, "warn").mockImplementation(silent);
    using _info = spyOn(log, "info").mockImplementation(silent);
    const store = await open(disk);
    disk.fill();
    await failureOf(store.accept(requestOf("a1", { body: `["${"x".repeat(60_000)}"]` })));
    expect(store.outage).toBe("disk");
    disk.clear();
    await until(() => store.outage === undefined);
    await store.accept(requestOf("a2"));
    await store.close();
  }, 120_000);

  test("that is full makes a server not ready, and outcomes of refused requests are not reported as lost", async () => {
    using disk = tmpfs("3m");
    await using models = await storeWith("lab");
    using warn = spyOn(log, "warn").mockImplementation(silent);
    const server = await models.serve("lab", { store: `${disk.path}/predictions.sqlite` });
    disk.fill();
    const inputs = Array.from({ length: 2000 }, (_, x) => ({ x }));
    expect(await server.client.refused(inputs)).toMatchObject({ status: 503 });
    expect(await problemOfResponse(await server.client.fetch("/health/ready"))).toMatchObject({
      status: 503,
      detail: "predictions cannot be stored now: a write to their file has failed",
    });
    await server.stop();
    expect(warn.mock.calls.filter(([line]) => String(line).includes("lost"))).toEqual([]);
  }, 120_000);

  test("that is full answers waiting clients, however large their outputs are", async () => {
    using disk = tmpfs("3m");
    await using models = await storeWith("lab");
    using _warn = spyOn(log, "warn").mockImplementation(silent);
    await using server = await models.serve("lab", { store: `${disk.path}/predictions.sqlite` });
    disk.fill();
    for (const count of [1, 5000]) {
      const { status, outputs } = await server.client.predict(Array.from({ length: count }, (_, x) => ({ x })));
      expect([status, outputs?.length]).toEqual(["success", count]);
    }
  }, 120_000);

  test("that is read-only is reported at the start in one line, with or without a database", async () => {
    using disk = tmpfs("3m");
    const path = `${disk.path}/predictions.db`;
    const expected = `predictions_unusable: the predictions in ${path} cannot be used: the system refuses it (EROFS)`;
    disk.setReadOnly(true);
    expect(await failure(open(disk))).toBe(expected);
    disk.setReadOnly(false);
    await (await open(disk)).close();
    disk.setReadOnly(true);
    expect(await failure(open(disk))).toBe(expected);
    expect(await failure(open(disk, { role: "member" }))).toBe(expected);
  });
});

onDisks("a disk that is full at the start (skipped where file systems cannot be mounted)", () => {
  test("that is full can be read after a kill, and predictions that were left are claimed once", async () => {
    using disk = tmpfs("64m");
    const path = `${disk.path}/predictions.db`;
    const created = await killedAfter(60, path, { role: "main", owner: "a" });
    disk.fill();
    using warn = spyOn(log, "warn").mockImplementation(silent);
    const store = await open(disk);
    const left = await leftOf(store);
    const ended: string[] = [];
    for (const id of created) if ((await store.read(id))?.outcome !== undefined) ended.push(id);
    expect(ended.length).toBeGreaterThan(0);
    expect(left.length).toBeGreaterThan(0);
    expect(created.filter((id) => !ended.includes(id) && !left.some((each) => each.id === id))).toEqual([]);
    await until(() => store.outage === "disk");
    disk.clear();
    await until(() => store.outage === undefined);
    expect(warn).toHaveBeenCalledTimes(1);
    await store.close();
    await using next = await open(disk);
    const deaths = (requests: typeof left) => requests.map((each) => [each.id, each.deaths]);
    expect(deaths(await leftOf(next))).toEqual(deaths(left));
  });
});
