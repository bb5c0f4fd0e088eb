/** Outputs in parts: event streams carry the parts as the model yields them. */
import { describe, expect, test } from "bun:test";
import { EventStream } from "../src/http/event-stream.ts";
import { families } from "../src/http/record-json.ts";
import { RequestContext } from "../src/http/request.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { dataOf, eventsOf, type ServerEvent } from "./helpers/events.ts";
import { hold } from "./helpers/hold.ts";
import { livePrediction } from "./helpers/live.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["parts"], "parts");

const post = async (inputs: readonly unknown[]) => Array.fromAsync(eventsOf(await server.client.stream(inputs)));
const words = ["grüße", "to", "you"];
async function take(events: AsyncGenerator<ServerEvent>, count: number): Promise<ServerEvent[]> {
  const taken: ServerEvent[] = [];
  while (taken.length < count) {
    const { value, done } = await events.next();
    if (done) break;
    taken.push(value);
  }
  return taken;
}

describe("an event stream of POST", () => {
  test("has every part of a fast output, then the whole output, then the end", async () => {
    const events = await post([{ x: 1, words }]);
    expect(events.map(({ event }) => event)).toEqual(["start", "part", "part", "part", "output", "completed"]);
    expect(dataOf(events, "part")).toEqual(words.map((text, sequence) => ({ index: 0, sequence, part: { text } })));
    expect(dataOf(events, "output")).toEqual([{ index: 0, output: { y: 3, text: "grüße to you" } }]);
    expect(events.at(-1)?.data).toMatchObject({ status: "success", outputs: [{ y: 3, text: "grüße to you" }] });
  });

  test("has the parts of each input in order, and before its output", async () => {
    const events = await post([{ x: 1, words }, { x: 2 }, { x: 3, words: ["a", "b"] }]);
    const parts = dataOf(events, "part") as { index: number; sequence: number }[];
    for (const [index, count] of [3, 0, 2].entries()) {
      const sequences = parts.filter((part) => part.index === index).map(({ sequence }) => sequence);
      expect(sequences).toEqual([...Array(count).keys()]);
      const place = events.findIndex(
        ({ event, data }) => event === "output" && (data as { index: number }).index === index,
      );
      expect(
        events
          .slice(place)
          .filter(({ event, data }) => event === "part" && (data as { index: number }).index === index),
      ).toEqual([]);
    }
  });

  test("has pictures as data URIs", async () => {
    const [part] = dataOf(await post([{ x: 1, words: ["a"], draw: true }]), "part");
    expect(part).toEqual({
      index: 0,
      sequence: 0,
      part: { text: "a", picture: expect.stringMatching(/^data:image\/png;base64,/) },
    });
  });
});

test("parts are sent as they are yielded, before the output is known", async () => {
  await using gate = hold();
  const { prediction_id: id } = await server.client.create([{ x: 1, words, gate: gate.url("") }]);
  const events = eventsOf(await server.client.watch(id));
  expect(await take(events, 1)).toMatchObject([{ event: "start" }]);
  for (const [sequence, text] of words.entries()) {
    gate.release(`w${sequence}`);
    expect(await take(events, 1)).toMatchObject([{ event: "part", data: { index: 0, sequence, part: { text } } }]);
  }
  expect(await server.client.read(id)).not.toHaveProperty("outputs");
  gate.release("end");
  expect((await take(events, 9)).map(({ event }) => event)).toEqual(["output", "completed"]);
});

test("a reader that comes later gets all parts from the first on; a reader that reconnects continues after its last part", async () => {
  await using gate = hold();
  const { prediction_id: id } = await server.client.create([{ x: 1, words, gate: gate.url("") }]);
  for (const name of ["w0", "w1"]) gate.release(name);
  await gate.arrived("w2");
  const late = await take(eventsOf(await server.client.watch(id)), 3);
  expect(late.map(({ data }) => data)).toMatchObject([{}, { sequence: 0 }, { sequence: 1 }]);
  const resumed = eventsOf(await server.client.watch(id, { "Last-Event-ID": late[1]?.id ?? "" }));
  expect(await take(resumed, 1)).toMatchObject([{ event: "part", data: { sequence: 1 } }]);
  gate.release("w2");
  gate.release("end");
  expect((await take(resumed, 9)).map(({ event }) => event)).toEqual(["part", "output", "completed"]);
  // The prediction has ended, so its output has replaced the parts.
  const after = await Array.fromAsync(eventsOf(await server.client.watch(id)));
  expect(after.map(({ event }) => event)).toEqual(["start", "output", "completed"]);
});

test("slow readers share the parts in memory, get every part even after the end, and free the memory when they leave", async () => {
  const memory = new MemoryAccount();
  const live = livePrediction({ memory, hasParts: true });
  const { events, parts: receiver } = live;
  const [family] = families;
  if (family === undefined) throw new Error("no family");
  const read = () => {
    const context = new RequestContext(new Request("http://x/"));
    const stream = new EventStream({ family, memory, context, onLeave() {} });
    const watched = {
      record: live.record,
      events: events.hold(),
      [Symbol.dispose]: () => events[Symbol.dispose](),
    };
    return stream.body(watched);
  };
  const [slow, leaving] = [read(), read()];
  for (let i = 0; i < 20; i++) receiver?.add(0, JSON.stringify("a".repeat(10_000)));
  const bytes = 20 * 3 * 10_002;
  expect(memory.parts.outputs).toBe(bytes);
  live.finish({ status: "success", members: '"outputs":[1]' });
  expect(memory.parts.outputs).toBe(bytes);
  await leaving.cancel();
  expect(memory.parts.outputs).toBe(bytes);
  const text = await new Response(slow).text();
  expect(text.match(/^event: .*$/gm)).toEqual([
    "event: start",
    ...Array(20).fill("event: part"),
    "event: output",
    "event: completed",
  ]);
  expect(memory.parts.outputs).toBe(0);
});

test("parts count as outputs, once if a run starts again: too many bytes of them fail the prediction", () => {
  const memory = new MemoryAccount();
  const live = livePrediction({ memory, hasParts: true, maxResultBytes: 10_000 });
  const { parts: receiver } = live;
  const text = JSON.stringify("a".repeat(4000));
  for (let run = 0; run < 5; run++) {
    receiver?.add(0, text);
    receiver?.add(0, text);
    expect(live.isOver).toBe(false);
    receiver?.restart(0);
    expect(memory.parts.outputs).toBe(0);
  }
  for (let i = 0; i < 3; i++) receiver?.add(0, text);
  expect([live.failedFor, memory.parts.outputs]).toEqual(["size", 0]);
});

test("GET / has the schema of a part", async () => {
  const model = await server.client.json("/");
  expect(model).toMatchObject({ part_schema: { properties: { text: { type: "string" } }, required: ["text"] } });
});

test.each([
  ["postprocess", "the model failed in postprocess"],
  ["part", "the model's part does not fit its declared part: part.pid: "],
])("an error in %s after a part fails the input, and the part was sent", async (fail, message) => {
  const events = await post([{ x: 1, words, fail }, { x: 2 }]);
  expect(dataOf(events, "part")).toEqual([{ index: 0, sequence: 0, part: { text: "grüße" } }]);
  expect(events.at(-1)?.data).toMatchObject({
    status: "failed",
    errors: [{ index: 0, message: expect.stringContaining(message) }],
    partial_outputs: [null, { y: 5 }],
  });
});

test("cancelling stops postprocess at its next yield, and its finally blocks run", async () => {
  await using gate = hold();
  const { prediction_id: id } = await server.client.create([{ x: 1, words, gate: gate.url("") }]);
  await gate.arrived("w0");
  await server.client.cancel(id);
  gate.release("w0");
  await gate.arrived("end");
  let isAsked = false;
  void gate.arrived("w1").then(() => {
    isAsked = true;
  });
  gate.release("end");
  await server.client.predict([{ x: 1 }]);
  expect(isAsked).toBe(false);
});

test("the demo of a model without a demo has parts, too", async () => {
  await using gate = hold();
  const { prediction_id: id } = await server.client.demos.create([{ x: 1, words, gate: gate.url("") }]);
  const events = eventsOf(await server.client.demos.watch(id));
  for (const name of ["w0", "w1", "w2", "end"]) gate.release(name);
  const all = await Array.fromAsync(events);
  expect(dataOf(all, "part")).toHaveLength(3);
  expect(dataOf(all, "output")).toEqual([{ index: 0, output: { y: 3, text: "grüße to you" } }]);
});
