/** Slow uploads, while other uploads wait for memory. */
import { expect, test } from "bun:test";
import { readBody } from "../src/http/body-reader.ts";
import { problemOf, problemStatus } from "../src/http/problem.ts";
import { Uploads } from "../src/http/uploads.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { failureOf } from "./helpers/failure.ts";
import { loopTurns } from "./helpers/loop-turns.ts";

const length = 400_000;

/** Reads bodies as the server does, on a clock that the test sets. */
function receiving() {
  const clock = { ms: 0 };
  // Each body is charged three times, so memory suffices for little more than one body.
  const memory = new MemoryAccount({ maxBytes: 3_500_000 });
  const limits = { maxBytes: 2 ** 24, memory, uploads: new Uploads(() => clock.ms) };
  const read = async (body: ReadableStream<Uint8Array> | string, bytes?: number) => {
    const announced = bytes === undefined ? {} : { "Content-Length": String(bytes) };
    const headers = { "Content-Type": "application/json", ...announced };
    return readBody(new Request("http://x/", { method: "POST", body, headers }), limits);
  };
  return { clock, memory, read };
}

/** Creates a request body. It sends `bytes` bytes and stalls until `finish`. */
function begun(bytes: number) {
  let sender: ReadableStreamDefaultController<Uint8Array> | undefined;
  const taken = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      sender = controller;
      controller.enqueue(new Uint8Array(bytes).fill(32));
    },
    // The reader has taken the bytes and asks for more.
    pull: () => taken.resolve(),
  });
  return {
    body,
    taken: taken.promise,
    finish: () => {
      sender?.enqueue(new Uint8Array(length - bytes).fill(32));
      sender?.close();
    },
  };
}

test("slow uploads are refused when another upload needs their memory", async () => {
  const { clock, memory, read } = receiving();
  const slow = read(begun(1000).body, length).catch((error: unknown) => error);
  clock.ms = 5500;
  const { charge } = await read(" ".repeat(300_000), 300_000);
  const problem = problemOf(await slow);
  expect(problem).toMatchObject({ code: "body_too_slow", headers: { Connection: "close" } });
  expect(problemStatus(problem)).toBe(408);
  expect(memory.used).toBe(charge.bytes);
});

test("slow uploads continue while no other needs their memory, and while they are fast enough", async () => {
  const { clock, memory, read } = receiving();
  const upload = begun(100_000);
  const reading = read(upload.body, length);
  await upload.taken;
  await Bun.sleep(0);
  clock.ms = 5000;
  expect(await failureOf(read(" ".repeat(300_000), 300_000))).toMatchObject({ code: "queue_full" });
  clock.ms = 8000;
  expect(await failureOf(read(" ".repeat(300_000), 300_000))).toMatchObject({ code: "queue_full" });
  clock.ms = 60_000;
  upload.finish();
  expect((await reading).bytes).toBe(length);
  expect(memory.used).toBe(3 * length);
});

test("slow small uploads are refused, too, except one that began while most memory was free", async () => {
  const { clock, read } = receiving();
  const small = 100_000;
  const refused: number[] = [];
  for (let i = 0; i < 4; i++) read(begun(1000).body, small).catch(() => refused.push(i));
  await Bun.sleep(0);
  expect(await failureOf(read(" ".repeat(small), small))).toMatchObject({ code: "queue_full" });
  clock.ms = 60_000;
  for (let i = 0; i < 3; i++) await read(" ".repeat(small), small);
  expect(refused).toEqual([1, 2, 3]);
  expect(await failureOf(read(" ".repeat(small), small))).toMatchObject({ code: "queue_full" });
});

test("slow uploads without a Content-Length are refused when others need their memory", async () => {
  const { clock, read } = receiving();
  const slow = read(begun(1000).body, length).catch((error: unknown) => error);
  clock.ms = 5500;
  const { bytes } = await read(new Blob([" ".repeat(300_000)]).stream());
  expect(bytes).toBe(300_000);
  expect(problemStatus(problemOf(await slow))).toBe(408);
});

test("the event loop turns for each chunk of a fast upload", async () => {
  const chunk = new TextEncoder().encode(" ".repeat(1000));
  let left = 50;
  const body = new ReadableStream({
    pull(controller) {
      if (left-- > 0) controller.enqueue(chunk.slice());
      else controller.close();
    },
  });
  const memory = new MemoryAccount();
  const limits = { maxBytes: 1e6, memory, uploads: new Uploads() };
  using turns = loopTurns();
  const headers = { "Content-Type": "application/json" };
  const { bytes } = await readBody(new Request("http://x/", { method: "POST", body, headers }), limits);
  expect([bytes, turns.count >= 50]).toEqual([50_000, true]);
});
