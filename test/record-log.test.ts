/**
 * Records of ended predictions in compact memory: a read gives the stored record, and removed records take no memory.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { hashOf } from "../src/base/id-hash.ts";
import { LargeText } from "../src/base/large-text.ts";
import { ModelVersion } from "../src/package/model-version.ts";
import { newId } from "../src/predictions/ids.ts";
import type { EndedRecord } from "../src/predictions/record.ts";
import { type Place, RecordLog } from "../src/predictions/record-log.ts";
import { endOf, largeEndOf } from "./helpers/predictions.ts";

const text = fc.string({ unit: "binary", maxLength: 300 });
const time = fc.integer({ min: 0, max: 2 ** 45 });
const record: fc.Arbitrary<EndedRecord> = fc.record({
  id: fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{15,63}$/),
  kind: fc.constantFrom("prediction", "demo"),
  count: fc.nat(),
  itemsDone: fc.nat(),
  createdAtMs: time,
  startedAtMs: fc.option(time, { nil: undefined }),
  finishedAtMs: time,
  outcome: fc.record({ status: fc.constantFrom("success", "failed"), members: text }),
  logs: text,
  digest: fc.option(fc.stringMatching(/^[A-Za-z0-9_-]{43}$/), { nil: undefined }),
  model: fc.constantFrom("", "digits@sha256:1", "digits@sha256:2", "lab@sha256:1").map(ModelVersion.of),
});

describe("a log of records", () => {
  test("returns records unchanged, oldest first", () => {
    fc.assert(
      fc.property(fc.array(record, { maxLength: 30 }), (records) => {
        const log = new RecordLog();
        const places = records.map((record, i) => log.push(record, i));
        expect(places.map((place) => log.record(place))).toEqual(records);
        for (const [i, record] of records.entries()) {
          const first = log.first ?? Number.NaN;
          expect(first).toBe(places[i] ?? Number.NaN);
          expect(log.keptMs(first)).toBe(i);
          expect(log.textBytes(first)).toBe(Buffer.byteLength(`${record.outcome.members}${record.logs}`));
          log.shift();
        }
        expect(log.first).toBeUndefined();
      }),
    );
  });

  test("holds far more than one block of memory, and uses freed blocks again", () => {
    const log = new RecordLog();
    const kept: { place: Place; record: EndedRecord }[] = [];
    for (let i = 0; i < 5000; i++) {
      // Sizes up to 17 kB. Records above 16 kB stay objects.
      const record = largeEndOf(newId("0"), (i * 7919) % 17_000);
      kept.push({ place: log.push(record, 0), record });
      if (i % 3 > 0) continue;
      kept.shift();
      log.shift();
    }
    expect(log.first).toBe(kept[0]?.place);
    for (const { place, record } of kept) expect(log.record(place)).toEqual({ ...record, digest: undefined });
  });

  test("keeps lone surrogates, which UTF-8 cannot encode", () => {
    const log = new RecordLog();
    const record = endOf("1", { kind: "demo", logs: "a\ud83d" });
    expect(log.record(log.push(record, 0)).logs).toBe("a\ud83d");
  });

  test("keeps a large outcome as an object", () => {
    const log = new RecordLog();
    const members = new LargeText(['"outputs":[', Buffer.from("1"), "]"]);
    const large = endOf("1", { outcome: { status: "success", members }, digest: "d".repeat(43) });
    const place = log.push(large, 0);
    expect(log.record(place)).toBe(large);
    expect(log.find("1")).toBe(place);
    log.shift();
    expect(log.first).toBeUndefined();
  });
});

test("each record is found by its id until it is removed, among many others", () => {
  const log = new RecordLog();
  const ids = Array.from({ length: 200_000 }, (_, i) => `id-${i}`);
  const places = ids.map((id) => log.push(endOf(id), 0));
  for (let removed = 0; removed < 100_000; removed++) log.shift();
  expect(log.size).toBe(100_000);
  const found = ids.filter((id, i) => log.find(id) === places[i]);
  expect(found).toEqual(ids.slice(100_000));
  expect(log.find("another")).toBeUndefined();
});

test("similar ids have different hashes, which are the same in every process", () => {
  const rest = "x".repeat(59);
  const ids = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(5, "0"));
  for (const whole of [
    (id: string) => id + rest,
    (id: string) => rest + id,
    (id: string) => rest.slice(30) + id + rest.slice(30),
  ]) {
    // Of 10,000 ids, two have the same 32-bit hash in one of 80 runs.
    expect(new Set(ids.map((id) => hashOf(whole(id)))).size).toBeGreaterThan(9990);
    expect(hashOf(whole("00007"))).toBe(hashOf(whole("00007")));
  }
});
