/**
 * Parts of outputs that `predict` yields in the engine process, when predictions are canceled and when runs start
 * again.
 */
import { describe, expect, test } from "bun:test";
import { clientOf } from "./helpers/cli.ts";
import { dataOf, eventsOf, nextEvent, type ServerEvent } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { type Hold, hold } from "./helpers/hold.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => (await storeWith("parts")).starting(["parts", "--fronts", "1"]));
const server = fixture(() => store.start());
const client = fixture(() => clientOf(server));

interface PartData {
  readonly index: number;
  readonly sequence: number;
  readonly part: { readonly text: string; readonly pid: number };
}

/** The data of the next event `part` of a stream, with the event's id. */
async function nextPart(events: AsyncGenerator<ServerEvent>): Promise<PartData & { readonly id: string }> {
  const { data, id } = await nextEvent(events, "part");
  return { ...(data as PartData), id };
}

const partsOf = (events: readonly ServerEvent[], index: number): PartData[] =>
  (dataOf(events, "part") as PartData[]).filter((part) => part.index === index);

/**
 * Texts of the parts that a client has at the end. A part with sequence 0 begins a new run, and replaces all earlier
 * parts.
 */
function lastRun(parts: readonly PartData[]): string[] {
  const texts: string[] = [];
  for (const { sequence, part } of parts) {
    texts.length = sequence === 0 ? 0 : texts.length;
    expect(texts.length).toBe(sequence);
    texts.push(part.text);
  }
  return texts;
}

/** Starts a prediction, reads its first part, and leaves it waiting for its second round. */
async function begun(gate: Hold, from = client, rounds = 3) {
  const { prediction_id: id } = await from.create([{ x: 1, rounds, gate: gate.url("") }]);
  const events = eventsOf(await from.watch(id));
  gate.release("r0");
  const first = await nextPart(events);
  expect(first).toMatchObject({ index: 0, sequence: 0, part: { text: "round 0" } });
  return { id, events, first };
}

describe("parts of predict", () => {
  test("are sent as they are yielded, before the parts of postprocess and the whole output", async () => {
    await using gate = hold();
    const input = { x: 1, rounds: 2, words: ["a"], gate: gate.url("") };
    const events = eventsOf(await client.stream([input]));
    for (const round of [0, 1]) {
      gate.release(`r${round}`);
      expect(await nextPart(events)).toMatchObject({ index: 0, sequence: round, part: { text: `round ${round}` } });
    }
    gate.release("w0");
    expect(await nextPart(events)).toMatchObject({ sequence: 2, part: { text: "a" } });
    gate.release("end");
    const rest = await Array.fromAsync(events);
    expect(rest.map(({ event }) => event)).toEqual(["output", "completed"]);
    expect(rest[0]?.data).toEqual({ index: 0, output: { y: 3, text: "a" } });
  });

  test("are separate for each item of a batch: items with fewer rounds have fewer parts", async () => {
    const events = await Array.fromAsync(
      eventsOf(await client.stream([{ x: 1, rounds: 3 }, { x: 2, rounds: 1 }, { x: 3 }])),
    );
    expect([0, 1, 2].map((index) => lastRun(partsOf(events, index)))).toEqual([
      ["round 0", "round 1", "round 2"],
      ["round 0"],
      [],
    ]);
    expect(events.at(-1)?.data).toMatchObject({ outputs: [{ y: 3 }, { y: 5 }, { y: 7 }] });
  });

  test("start again with sequence 0 if the batch fails and runs again in halves", async () => {
    const inputs = [
      { x: 1, rounds: 2 },
      { x: 2, rounds: 2, fail: "predict" },
    ];
    const events = await Array.fromAsync(eventsOf(await client.stream(inputs)));
    expect(lastRun(partsOf(events, 0))).toEqual(["round 0", "round 1"]);
    expect(events.at(-1)?.data).toMatchObject({
      status: "failed",
      errors: [{ index: 1 }],
      partial_outputs: [{ y: 3 }, null],
    });
  });

  test("fail their input if postprocessPart throws", async () => {
    const inputs = [
      { x: 1, rounds: 3 },
      { x: 2, rounds: 3, fail: "postprocessPart" },
    ];
    const events = await Array.fromAsync(eventsOf(await client.stream(inputs)));
    expect([0, 1].map((index) => partsOf(events, index).length)).toEqual([3, 1]);
    expect(events.at(-1)?.data).toMatchObject({
      errors: [{ index: 1, message: "the model failed in postprocessPart" }],
      partial_outputs: [{ y: 3 }, null],
    });
  });

  test("end at the next yield if the prediction is canceled, and the next batch runs", async () => {
    await using gate = hold();
    const { id, events } = await begun(gate, client, 1000);
    await gate.arrived("r1");
    await client.cancel(id);
    expect((await Array.fromAsync(events)).at(-1)?.data).toMatchObject({ error_message: "Canceled" });
    // The model has one instance, so this prediction runs after the canceled one.
    const next = client.predict([{ x: 2 }]);
    let isRunning = true;
    void next.finally(() => {
      isRunning = false;
    });
    // The canceled prediction may run some more rounds until the engine process knows of the cancellation.
    let round = 1;
    for (; isRunning; round++) {
      gate.release(`r${round}`);
      await Promise.race([next, gate.arrived(`r${round + 1}`)]);
    }
    expect(await next).toMatchObject({ outputs: [{ y: 5 }] });
    expect(round).toBeLessThan(100);
  });

  test("continue for the other predictions of a batch if one is canceled", async () => {
    await using gate = hold();
    const { id: blocker } = await begun(gate);
    await using other = hold();
    const input = { rounds: 2, gate: other.url("") };
    // The two predictions wait while a batch runs, so they share the next batch.
    const [canceled, stays] = await Promise.all([
      client.create([{ x: 3, ...input }]),
      client.create([{ x: 4, ...input }]),
    ]);
    const events = eventsOf(await client.watch(stays.prediction_id));
    for (const round of ["r1", "r2"]) gate.release(round);
    await client.end(blocker);
    other.release("r0");
    expect(await nextPart(events)).toMatchObject({ sequence: 0 });
    await other.arrived("r1");
    await client.cancel(canceled.prediction_id);
    other.release("r1");
    expect(
      lastRun([...partsOf(await Array.fromAsync(events), 0)].map((part) => ({ ...part, sequence: part.sequence - 1 }))),
    ).toEqual(["round 1"]);
    expect(await client.read(stays.prediction_id)).toMatchObject({ outputs: [{ y: 9 }] });
  });
});

test("parts of a killed engine process are replaced by the parts of the next one", async () => {
  await using gate = hold();
  const { id, events, first } = await begun(gate);
  await gate.arrived("r1");
  const [engine = 0] = await inRole(server.pid, "engine");
  expect(first.part.pid).toBe(engine);
  process.kill(engine, "SIGKILL");
  const again = await nextPart(events);
  expect(again).toMatchObject({ sequence: 0, part: { text: "round 0" } });
  expect(again.part.pid).not.toBe(engine);
  // A reader that comes later gets no part of the killed process.
  expect((await nextPart(eventsOf(await client.watch(id)))).part.pid).toBe(again.part.pid);
  for (const round of ["r1", "r2"]) gate.release(round);
  const rest = await Array.fromAsync(events);
  expect(lastRun([again, ...partsOf(rest, 0)])).toEqual(["round 0", "round 1", "round 2"]);
  expect(rest.at(-1)?.data).toMatchObject({ outputs: [{ y: 3 }] });
});

test("a client that reconnects after the HTTP process was killed gets the parts of the new run from sequence 0 on", async () => {
  await using own = store.start(["--store", dir.join("parts.sqlite")]);
  const from = await clientOf(own);
  await using gate = hold();
  const { id, first } = await begun(gate, from);
  await gate.arrived("r1");
  const [front = 0] = await inRole(own.pid, "front");
  process.kill(front, "SIGKILL");
  gate.release("r1");
  let response: Response | undefined;
  while (!response?.ok) {
    response = await from.watch(id, { "Last-Event-ID": first.id, Connection: "close" }).catch(() => undefined);
  }
  // The prediction waits for the gate, so it has not ended when the client reconnects.
  gate.release("r2");
  const rest = await Array.fromAsync(eventsOf(response));
  expect(lastRun(partsOf(rest, 0))).toEqual(["round 0", "round 1", "round 2"]);
  expect(rest.at(-1)?.data).toMatchObject({ outputs: [{ y: 3 }] });
});
