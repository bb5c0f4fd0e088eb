/** Changes of predictions that wait for their commit. */
import { expect, test } from "bun:test";
import { Changes } from "../src/predictions/sqlite/changes.ts";
import { endOf, keepAll, largeEndOf, requestOf } from "./helpers/predictions.ts";

const COUNT = 10_000;
const ids = Array.from({ length: COUNT }, (_, index) => `a${index}`);

function end(changes: Changes, record = endOf("a"), bytes = 700): void {
  changes.end({ record, bytes, atMs: performance.now() });
}

test("an outcome that waits is readable until its write begins", () => {
  const changes = new Changes(keepAll);
  for (const id of ids) end(changes, endOf(id));
  expect(ids.map((id) => changes.find(id))).toEqual(ids.map((id) => endOf(id)));
  const taken = changes.take().map(({ id }) => id);
  expect(taken).toEqual(ids.slice(0, taken.length));
  expect(ids.map((id) => changes.find(id))).toEqual(ids.map((id, i) => (i < taken.length ? undefined : endOf(id))));
});

test("a commit has a limit of bytes, whatever the number of its requests and outcomes", () => {
  const size = 60_000;
  const body = `["${"x".repeat(size)}"]`;
  for (const add of [
    (changes: Changes, id: string) => end(changes, largeEndOf(id, size), size),
    (changes: Changes, id: string) =>
      changes.create({ request: requestOf(id), body, file: undefined, atMs: 0 }, Promise.withResolvers()),
  ]) {
    const changes = new Changes(keepAll);
    for (const id of ids.slice(0, 1000)) add(changes, id);
    const counts: number[] = [];
    while (!changes.isEmpty) counts.push(changes.take().length);
    expect(counts.reduce((sum, count) => sum + count)).toBe(1000);
    expect(Math.max(...counts) * size).toBeLessThan(10_000_000);
  }
});

test("after a failed commit, outcomes and starts wait again before later ones; requests were refused", () => {
  const changes = new Changes({ ...keepAll, maxCount: 2 });
  const create = (id: string) =>
    changes.create({ request: requestOf(id), body: "[]", file: undefined, atMs: 0 }, Promise.withResolvers());
  create("refused");
  changes.begun("refused", 1);
  changes.begun("begun", 1);
  for (const id of ["first", "second"]) end(changes, endOf(id));
  changes.webhook("told", null);
  const failed = changes.take();
  end(changes, endOf("third"));
  end(changes, endOf("begun"));
  changes.putBack(failed);
  const kinds = changes.take().map(({ id, creation, end: ended, isDropped, webhook }) => {
    expect(creation).toBeUndefined();
    return `${id} ${isDropped ? "dropped" : (ended && "ended") || (webhook === null ? "webhook" : "begun")}`;
  });
  expect(kinds).toEqual(["begun dropped", "first dropped", "second ended", "told webhook", "third ended"]);
});
