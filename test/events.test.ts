/** Server-sent events with the progress of a prediction. */
import { describe, expect, spyOn, test } from "bun:test";
import { EventStream } from "../src/http/event-stream.ts";
import { families } from "../src/http/record-json.ts";
import { RequestContext } from "../src/http/request.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { livePrediction } from "./helpers/live.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab", "stage", "parts"));
const lab = fixture(() => store.serve("lab", { accessLog: false }));
const stage = fixture(() => store.serve("stage"));

test("each output is sent when it is complete, and the last event equals the answer to GET", async () => {
  await using gate = hold();
  const { prediction_id: id } = await lab.client.create([{ x: 1, before: gate.url("a") }, { x: 2 }]);
  const events = eventsOf(await lab.client.watch(id));
  const next = async () => (await events.next()).value;
  expect(await next()).toMatchObject({ event: "start", data: { prediction_id: id } });
  expect(await next()).toMatchObject({ event: "output", data: { index: 1, output: { y: 5 } } });
  gate.release("a");
  expect(await next()).toMatchObject({ event: "output", data: { index: 0, output: { y: 3 } } });
  expect(await next()).toEqual({ event: "completed", id: "end", data: await lab.client.read(id) });
  expect(await next()).toBeUndefined();
});

test("a client that reconnects continues after its last event; after the end, it gets the outputs again, but not after the last event", async () => {
  await using gate = hold();
  const { prediction_id: id } = await lab.client.create([{ x: 1, before: gate.url("a") }, { x: 2 }, { x: 3 }]);
  let lastId = "";
  for await (const { event, id: eventId, data } of eventsOf(await lab.client.watch(id))) {
    if (event !== "output") continue;
    expect(data).toMatchObject({ index: 1 });
    lastId = eventId;
    break;
  }
  const resumed = await lab.client.watch(id, { "Last-Event-ID": lastId });
  gate.release("a");
  const seen = async (response: Response) =>
    (await Array.fromAsync(eventsOf(response))).map(({ event, data }) => [event, Object(data).index]);
  const completed = ["completed", undefined];
  expect(await seen(resumed)).toEqual([["output", 2], ["output", 0], completed]);
  const late = await lab.client.watch(id, { "Last-Event-ID": lastId });
  expect(await seen(late)).toEqual([["output", 0], ["output", 1], ["output", 2], completed]);
  expect((await lab.client.watch(id, { "Last-Event-ID": "end" })).status).toBe(204);
});

test("logs of a demo are sent as they are written", async () => {
  await using gate = hold();
  const demo = stage.client.demos;
  const { prediction_id: id } = await demo.create([{ x: 1, say: "grüße 👋", before: gate.url("a") }]);
  const events = eventsOf(await stage.client.demos.watch(id));
  let logs = "";
  for await (const { event, data } of events) {
    if (event === "log") logs += data;
    if (event === "log" && logs.includes("said")) gate.release("a");
    if (event === "completed") expect(data).toMatchObject({ logs, demo_outputs: [{ half: 1.5 }] });
  }
  expect(logs).toContain("begin 1\nsaid grüße 👋\ngrüße 👋 again\n");
});

test.each(["words", "40,000 words"])(
  "an event with %s has no character that some clients take for the end of a line",
  async (amount) => {
    await using parts = await store.serve("parts");
    const words = ["a\u2028b", "c\u2029d", "\u0085", "\u2018quoted\u2019"];
    if (amount !== "words") words.push(`${"\u2028\u0085é".repeat(13_000)}${"x\u2029".repeat(13_000)}`);
    const { prediction_id: id } = await parts.client.create([{ x: 1, words }]);
    const { outputs } = await parts.client.end(id);
    const text = await (await parts.client.watch(id)).text();
    expect(text).not.toMatch(/[\u0085\u2028\u2029]/);
    const events = text.split("\n\n").flatMap((event) => /^data: (.*)$/m.exec(event)?.[1] ?? []);
    const sent = JSON.parse(events.at(-1) ?? "");
    expect(sent.outputs).toEqual(outputs);
    expect(sent.outputs[0].text).toContain("a\u2028b");
  },
);

/**
 * The event stream of a prediction, without an engine. Each `read` is another client. When a stream sends the prediction's end, `overs` gets whether the prediction is over.
 */
function followed(keepAliveMs = 60_000, memory = new MemoryAccount()) {
  const live = livePrediction({ count: 2 });
  const overs: boolean[] = [];
  const [family] = families;
  if (family === undefined) throw new Error("no family");
  const read = () => {
    const context = new RequestContext(new Request("http://x/"));
    const hold = (_: unknown, isHeld: boolean) => isHeld || overs.push(live.isOver);
    context.connections = { hold, sending() {}, peerOf: () => undefined };
    const stream = new EventStream({
      family,
      memory,
      keepAliveMs,
      context,
      onLeave() {},
    });
    live.watch(stream);
    const watched = { record: live.record, events: live.events, [Symbol.dispose]: () => live.unwatch(stream) };
    const reader = stream.body(watched).getReader();
    const next = async () => {
      const { value, done } = await reader.read();
      return done ? undefined : new TextDecoder().decode(value);
    };
    return { next, leave: () => reader.cancel() };
  };
  return { live, memory, overs, read };
}

test("a silent stream gets keep-alive comments", async () => {
  const { next, leave } = followed(1).read();
  expect([await next(), await next(), await next(), await next()]).toEqual([
    "retry: 1000\n\n",
    expect.stringMatching(/^event: start\ndata: .*\nid: 0\n\n$/),
    ":\n\n",
    ":\n\n",
  ]);
  await leave();
});

test("a large output counts as memory for each slow client, and a large last event is sent only once", async () => {
  const { live, memory, read } = followed();
  const texts = ["a", "b"].map((letter) => `"${letter.repeat(1_000_000)}"`);
  for (const [index, text] of texts.entries()) live.events.addOutput(index, text);
  const readers = [read(), read(), read()];
  for (const reader of readers) for (let i = 0; i < 4; i++) await reader.next();
  expect(memory.parts.answers).toBeWithin(3_000_000, 3_100_000);
  live.finish({ status: "success", members: `"outputs":[${texts.join(",")}]` });
  for (const reader of readers) {
    let rest = "";
    for (let part = await reader.next(); part !== undefined; part = await reader.next()) rest += part;
    expect(rest.match(/^event: .*$/gm)).toEqual(["event: completed"]);
  }
  expect(memory.parts.answers).toBe(0);
});

test("large logs that wait for memory are made into an event only when there is memory", async () => {
  const memory = new MemoryAccount({ maxBytes: 1_000_000 });
  using waits = spyOn(memory, "onceRoom");
  using made = spyOn(JSON, "stringify");
  const { live, read } = followed(undefined, memory);
  const { next, leave } = read();
  for (let i = 0; i < 2; i++) await next();
  const full = memory.add("bodies", 1_000_000);
  const sent = next();
  for (let i = 1; i <= 5; i++) {
    live.addLog("x".repeat(100_000));
    await until(() => waits.mock.calls.length === i);
  }
  const lengths = () => made.mock.calls.map(([value]) => `${value}`.length).filter((length) => length >= 100_000);
  expect(lengths()).toEqual([]);
  full[Symbol.dispose]();
  expect(await sent).toBe("event: log\ndata: ");
  expect(lengths()).toEqual([500_000]);
  await leave();
});

test("an unread last event counts as memory, and its connection can become idle", async () => {
  const { live, memory, overs, read } = followed();
  const readers = [read(), read()];
  await readers[0]?.next();
  live.finish({ status: "success", members: `"outputs":["${"a".repeat(1_000_000)}"]` });
  expect(overs).toEqual([true, true]);
  expect(memory.parts.answers).toBeWithin(2_000_000, 2_100_000);
  for (const reader of readers) await reader.leave();
  expect(memory.parts.answers).toBe(0);
});

describe("POST", () => {
  test("is answered with events from the start", async () => {
    const response = await lab.client.stream([{ x: 1 }, { x: 2, fail: "postprocess" }]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      location: expect.stringMatching(/^\/predictions\/.+/),
    });
    const events = await Array.fromAsync(eventsOf(response));
    expect(events.map(({ event }) => event)).toEqual(["start", "output", "completed"]);
    const path = response.headers.get("location") ?? "";
    expect(events[0]?.data).toMatchObject({ prediction_id: path.split("/").at(-1), created_at: expect.any(String) });
    expect(events[2]?.data).toEqual(await lab.client.json(path));
  });

  test("cancels the prediction of a client that leaves before the end", async () => {
    await using gate = hold();
    let id = "";
    for await (const { data } of eventsOf(await lab.client.stream([{ x: 1, before: gate.url("a") }]))) {
      ({ prediction_id: id } = data as { prediction_id: string });
      break;
    }
    expect(await lab.client.end(id)).toMatchObject({ status: "failed", error_message: "Canceled" });
  });

  test("that is refused gets a problem", async () => {
    expect(await lab.client.refused([{ y: 1 }], { Accept: "text/event-stream" })).toMatchObject({ status: 422 });
    expect((await lab.client.watch("none")).status).toBe(404);
  });
});
