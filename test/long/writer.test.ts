/** The example writer: texts are written together in one batch, and each is as if it were written alone. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { clientOf } from "../helpers/cli.ts";
import { eventsOf, nextEvent, type ServerEvent } from "../helpers/events.ts";
import { writerDevices } from "../helpers/exports.ts";
import { fixture } from "../helpers/fixture.ts";
import { inRole } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";

const store = fixture(() => storeWith(join(import.meta.dir, "../../examples/writer")), 300_000);
const server = fixture(() => store.start(["writer", "--fronts", "1"]), 300_000);
const client = fixture(() => clientOf(server), 300_000);

const prompts = ["Return the ", "A", "class ", "This module ", "Raise an error if ", "\n\n"];
/** Texts of many lengths begin together, and leave the batch one after another. Further texts join meanwhile. */
const inputs = Array.from({ length: 40 }, (_, i) => ({
  prompt: prompts[i % prompts.length] ?? "",
  length: 1 + ((i * 7) % 60),
  temperature: i % 3 === 0 ? 0 : 0.8,
  seed: i,
}));
const long = { prompt: "Return the ", length: 150 };

async function texts(given: readonly object[]): Promise<string[]> {
  const { status, outputs, error_message: error } = await client.predict(given);
  if (status !== "success") throw new Error(`${status}: ${error}`);
  return (outputs as { text: string }[]).map(({ text }) => text);
}

const steps = () => client.metric('sconce_batches_total{cause="step"}');

async function opened(input: object): Promise<{ id: string; events: AsyncGenerator<ServerEvent> }> {
  const { prediction_id: id } = await client.create([input]);
  return { id, events: eventsOf(await client.watch(id)) };
}

/** Text of the next event `part`. */
async function nextPart(events: AsyncGenerator<ServerEvent>): Promise<string> {
  return ((await nextEvent(events, "part")).data as { part: string }).part;
}

describe("texts", () => {
  test("have the same characters alone and beside 39 others, which takes fewer steps", async () => {
    const before = await steps();
    const together = await texts(inputs);
    const characters = inputs.reduce((sum, { length }) => sum + length, 0);
    expect((await steps()) - before).toBeLessThan(characters / 4);
    // Twelve texts: each prompt and both temperatures are among them.
    for (const [i, input] of inputs.entries())
      if (i % 7 < 2) expect(await texts([input])).toEqual(together.slice(i, i + 1));
    expect(together.map(({ length }) => length)).toEqual(inputs.map(({ length }) => length));
  });

  test("reach event streams character by character, before the whole text", async () => {
    const { events } = await opened(long);
    let text = "";
    let whole: unknown;
    for await (const { event, data } of events) {
      if (event === "part") text += (data as { part: string }).part;
      if (event === "output") whole = (data as { output: { text: string } }).output.text;
    }
    expect(text).toHaveLength(150);
    expect(whole).toBe(text);
  });

  test("of a canceled prediction end, and texts in the same batch continue", async () => {
    const [canceled, other] = [await opened({ ...long, seed: 1 }), await opened({ ...long, seed: 2 })];
    await Promise.all([nextPart(canceled.events), nextPart(other.events)]);
    await client.cancel(canceled.id);
    const { outputs } = await client.end(other.id);
    expect(outputs).toEqual([{ text: (await texts([{ ...long, seed: 2 }]))[0] }]);
    const { status, error_message: error } = await client.end(canceled.id);
    expect([status, error]).toEqual(["failed", "Canceled"]);
  });

  test("start again and are complete if the engine process was killed", async () => {
    const [engine] = await inRole(server.pid, "engine");
    if (engine === undefined) throw new Error("there is no engine process");
    const running = await Promise.all([1, 2, 3].map((seed) => opened({ ...long, seed })));
    await Promise.all(running.map(({ events }) => nextPart(events)));
    process.kill(engine, "SIGKILL");
    const followed = await Promise.all(running.map(({ events }) => followedTexts(events)));
    await client.ready();
    const again = await texts([1, 2, 3].map((seed) => ({ ...long, seed })));
    expect(followed.map(({ whole }) => whole)).toEqual(again);
    // There is exactly one further run, and its parts are the whole text.
    expect(followed.map(({ runs: [, ...second] }) => second)).toEqual(again.map((text) => [text]));
  });
});

test("the weights compute on the device of their arguments", async () => {
  await writerDevices();
}, 300_000);

/**
 * Reads events to the end. @returns the text of each run of the input, joined from its parts, and the text of its
 * output
 */
async function followedTexts(events: AsyncGenerator<ServerEvent>): Promise<{ runs: string[]; whole: string }> {
  // The caller has read the first part, so the first run has begun.
  const runs = [""];
  let whole = "";
  for await (const { event, data } of events) {
    if (event === "part") {
      const { part, sequence } = data as { part: string; sequence: number };
      if (sequence === 0) runs.push("");
      runs.push(`${runs.pop()}${part}`);
    }
    if (event === "output") whole = (data as { output: { text: string } }).output.text;
  }
  return { runs, whole };
}
