/** Parts and outputs of a running prediction reach the event streams of every replica. */
import { describe, expect, test } from "bun:test";
import { clientOf } from "./helpers/cli.ts";
import { dataOf, eventsOf, nextEvent, type ServerEvent } from "./helpers/events.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

describe.skipIf(!hasRedis)(`event streams of replicas (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);
  const store = fixture(() => storeWith("parts", "lab"));
  const replica = (role: "front" | "worker") => store.serve("parts", { queue: redis.url, queueName: "parts", role });
  fixture(() => replica("worker"));
  /** Two replicas that answer clients, and run no predictions. */
  const front = fixture(() => replica("front"));
  const other = fixture(() => replica("front"));

  const watch = async ({ client }: TestServer, id: string, headers: Record<string, string> = {}) =>
    eventsOf(await client.watch(id, headers));
  const words = ["one", "two", "three"];

  test("have parts as they are yielded, from the first one on, and continue on another replica", async () => {
    await using gate = hold();
    const { prediction_id: id } = await front.client.create([{ x: 1, words, gate: gate.url("") }]);
    const events = await watch(front, id);
    expect(await nextEvent(events)).toMatchObject({ event: "start" });
    gate.release("w0");
    const first = await nextEvent(events);
    expect(first).toMatchObject({ event: "part", data: { index: 0, sequence: 0, part: { text: "one" } } });
    const late = await watch(other, id);
    expect(await nextEvent(late)).toMatchObject({ event: "start" });
    expect(await nextEvent(late)).toEqual(first);
    gate.release("w1");
    const second = await nextEvent(late);
    expect(second).toMatchObject({ event: "part", data: { sequence: 1 } });
    expect(await nextEvent(events)).toEqual(second);
    const resumed = await watch(other, id, { "Last-Event-ID": first.id });
    expect(await nextEvent(resumed)).toEqual(second);
    for (const name of ["w2", "end"]) gate.release(name);
    for (const stream of [events, late, resumed]) {
      expect((await Array.fromAsync(stream)).map(({ event }) => event)).toEqual(["part", "output", "completed"]);
    }
    await until(async () => (await front.client.metric('sconce_memory_bytes{part="outputs"}')) === 0);
  });

  test("have each part of a fast prediction", async () => {
    const stream = eventsOf(
      await front.client.stream([
        { x: 1, words, rounds: 2 },
        { x: 2, words },
      ]),
    );
    const events = await Array.fromAsync(stream);
    const parts = dataOf(events, "part") as { index: number; part: object }[];
    const textsOf = (index: number) => parts.flatMap((each) => (each.index === index ? [each.part] : []));
    expect(textsOf(0)).toMatchObject(["round 0", "round 1", ...words].map((text) => ({ text })));
    expect(textsOf(1)).toMatchObject(words.map((text) => ({ text })));
    expect(events.at(-1)).toMatchObject({ event: "completed", data: { status: "success" } });
  });

  test("have each output once, also for a later client, if a worker was killed that had reported one of two", async () => {
    const args = ["--queue", redis.url, "--queue-name", "outputs-killed", "--queue-lease", "1"];
    const start = () => store.start(["lab", "--role", "worker", ...args]);
    const queue = { queue: redis.url, queueName: "outputs-killed", queueLease: 1 };
    await using own = await store.serve("lab", { ...queue, role: "front" });
    await using gate = hold();
    await using killed = start();
    const { prediction_id: id } = await own.client.create([{ x: 1, after: gate.url("a") }, { x: 2 }]);
    const events = await watch(own, id);
    expect(await nextEvent(events)).toMatchObject({ event: "start" });
    expect(await nextEvent(events)).toMatchObject({ event: "output", data: { index: 1 } });
    killed.kill("SIGKILL");
    await using saving = start();
    await clientOf(saving);
    const later = await watch(own, id);
    expect(await nextEvent(later)).toMatchObject({ event: "start" });
    gate.release("a");
    const outputsOf = async (stream: AsyncGenerator<ServerEvent>) => dataOf(await Array.fromAsync(stream), "output");
    expect(await outputsOf(events)).toMatchObject([{ index: 0, output: { y: 3 } }]);
    const outputs = (await outputsOf(later)) as { index: number }[];
    expect(outputs.sort((one, other) => one.index - other.index)).toMatchObject([
      { index: 0, output: { y: 3 } },
      { index: 1, output: { y: 5 } },
    ]);
  });

  test("start again with sequence 0 if another worker runs the prediction after a kill", async () => {
    const args = ["--queue", redis.url, "--queue-name", "killed", "--queue-lease", "1"];
    const start = () => store.start(["parts", "--role", "worker", ...args]);
    const queue = { queue: redis.url, queueName: "killed", queueLease: 1 };
    await using own = await store.serve("parts", { ...queue, role: "front" });
    await using gate = hold();
    await using killed = start();
    await clientOf(killed);
    const { prediction_id: id } = await own.client.create([{ x: 1, rounds: 3, gate: gate.url("") }]);
    const events = await watch(own, id);
    gate.release("r0");
    expect(await nextEvent(events)).toMatchObject({ event: "start" });
    const engine = (await inRole(killed.pid, "engine"))[0];
    expect(await nextEvent(events)).toMatchObject({ event: "part", data: { sequence: 0, part: { pid: engine } } });
    await gate.arrived("r1");
    await using saving = start();
    await clientOf(saving);
    const pid = (await inRole(saving.pid, "engine"))[0];
    killed.kill("SIGKILL");
    expect(await nextEvent(events)).toMatchObject({ event: "part", data: { sequence: 0, part: { pid } } });
    for (const name of ["r1", "r2"]) gate.release(name);
    const rest = await Array.fromAsync(events);
    expect(rest.filter(({ event }) => event !== "").map(({ event, data }) => [event, data])).toMatchObject([
      ["part", { sequence: 1, part: { text: "round 1", pid } }],
      ["part", { sequence: 2, part: { text: "round 2", pid } }],
      ["output", { index: 0 }],
      ["completed", { status: "success" }],
    ]);
  });
});
