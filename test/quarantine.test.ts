/** Quarantine: inputs of clients whose inputs often fail run in separate batches, after the inputs of other clients. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { Quarantine, type Sender } from "../src/server/flow/quarantine.ts";
import { clientOf, startCli } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { Simulation } from "./helpers/simulation.ts";

describe("a client", () => {
  const from = (address: string, name = "") => ({ address, name });
  const [good, bad, proxy, other] = [from("good"), from("bad"), from("proxy"), from("other")];
  const after = (ends: readonly (readonly [client: Sender, hasFailed: boolean])[]) => {
    let now = 0;
    const quarantine = new Quarantine(() => now);
    for (const [client, hasFailed] of ends) quarantine.ended(client, hasFailed);
    return { quarantine, pass: (ms: number) => (now += ms) };
  };
  const times = <T>(count: number, value: T) => Array<T>(count).fill(value);

  test("is quarantined if more than a quarter of its items fail, until its items succeed again", () => {
    const { quarantine } = after(times(5, [bad, true]));
    expect([quarantine.holds(good), quarantine.holds(bad), quarantine.holds(undefined)]).toEqual([false, true, false]);
    for (let i = 0; i < 20; i++) quarantine.ended(bad, false);
    expect(quarantine.holds(bad)).toBe(false);
  });

  test("is not quarantined for a few failures among many items", () => {
    const mixed = from("mixed");
    const { quarantine } = after(times(20, [[mixed, true], ...times(9, [mixed, false] as const)] as const).flat());
    expect([quarantine.holds(good), quarantine.holds(mixed)]).toEqual([false, false]);
  });

  test("is not quarantined if there are no other clients, as behind a proxy that names no client", () => {
    const { quarantine, pass } = after(times(50, [proxy, true]));
    expect(quarantine.holds(proxy)).toBe(false);
    for (let i = 0; i < 50; i++) quarantine.ended(proxy, false);
    expect(quarantine.holds(proxy)).toBe(false);
    for (let i = 0; i < 50; i++) quarantine.ended(proxy, true);
    expect(quarantine.holds(proxy)).toBe(false);
    quarantine.holds(other);
    expect(quarantine.holds(proxy)).toBe(true);
    pass(2000);
    expect(quarantine.holds(proxy)).toBe(false);
  });

  test("is not quarantined because of others at its address, once its own items have succeeded", () => {
    const bads = Array.from({ length: 64 }, (_, i) => from("proxy", `bad ${i}`));
    const one = from("proxy", "good");
    const { quarantine } = after(
      times(
        8,
        bads.map((each) => [each, true] as const),
      ).flat(),
    );
    expect(quarantine.holds(one)).toBe(false);
    quarantine.holds(other);
    expect(quarantine.holds(one)).toBe(true);
    for (let i = 0; i < 25; i++) quarantine.ended(one, false);
    for (const each of bads) quarantine.ended(each, true);
    expect(quarantine.holds(one)).toBe(false);
    expect(bads.filter((each) => !quarantine.holds(each))).toEqual([]);
    expect(quarantine.holds(from("proxy", "new"))).toBe(true);
  });

  test("is not tracked while nothing fails", () => {
    const { quarantine, pass } = after([[good, false]]);
    expect(quarantine.isWatching).toBe(false);
    quarantine.ended(undefined, true);
    expect(quarantine.isWatching).toBe(true);
    pass(60_000);
    expect(quarantine.isWatching).toBe(false);
  });

  test("is forgotten after ten thousand other clients", () => {
    const { quarantine } = after([...times(9, [from("first"), true] as const), [good, false]]);
    for (let i = 0; i < 5000; i++) quarantine.ended(from(`client ${i}`), true);
    quarantine.holds(good);
    expect(quarantine.holds(from("first"))).toBe(false);
  });
});

test("quarantined items share no batch with others, from the first item on", async () => {
  const simulation = new Simulation({ maxBatchSize: 8 });
  simulation.add({}, 1);
  const late = [{}, {}, {}, {}].flatMap((lane) => simulation.add(lane, 1, { isBad: true, isDeprioritised: true }));
  const good = Array.from({ length: 20 }, () => simulation.add({}, 4)).flat();
  await simulation.clock.drain();
  expect(simulation.lost.toSorted((a, b) => a - b)).toEqual(late.map(({ id }) => id));
  expect(simulation.done.length).toBe(good.length + 1);
  for (const { items } of simulation.batches) expect(new Set(items.map(({ isBad }) => isBad)).size).toBe(1);
});

describe("a server", () => {
  let store: TestStore;
  beforeAll(async () => {
    store = await storeWith("lab");
  });
  // Connections stay open until the end: clients are known by their port, which a later connection could get again.
  const sockets: Socket[] = [];
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await store[Symbol.asyncDispose]();
  });

  /** Sends one input over a new connection from a local address. @returns the answer */
  const sendFrom = (localAddress: string, { url }: Client, input: object, forwarded = "") => {
    const body = JSON.stringify([input]);
    const head = `POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPrefer: wait${forwarded && `\r\nX-Forwarded-For: ${forwarded}`}`;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const socket = connect({ host: url.hostname, port: Number(url.port), localAddress });
    let answer = "";
    socket.on("connect", () => socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`));
    sockets.push(socket);
    socket.on("data", (chunk) => {
      answer += chunk;
      const [, length, got] = /\r\ncontent-length: (\d+)\b.*?\r\n\r\n(.*)$/is.exec(answer) ?? [];
      if (Number(length) === got?.length) resolve(answer);
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`the connection was closed after ${answer}`)));
    return promise;
  };
  const [bad, good] = [{ x: 1, steps: -1 }, { x: 1 }];

  const expectLate = async (client: Client) => {
    const late = () => client.metric('sconce_batches_total{cause="late"}');
    for (let i = 0; i < 8; i++) expect(await sendFrom("127.0.0.5", client, bad)).toContain('"status":"failed"');
    expect(await sendFrom("127.0.0.5", client, good)).toContain('"status":"success"');
    expect(await late()).toBe(0);
    // Quarantine delays an item only if another client's last item was less than 2 s ago. A machine that stalls takes
    // longer, so the test repeats.
    for (let tries = 0; (await late()) === 0 && tries < 20; tries++) {
      expect(await sendFrom("127.0.0.1", client, good)).toContain('"status":"success"');
      expect(await late()).toBe(0);
      expect(await sendFrom("127.0.0.5", client, good)).toContain('"status":"success"');
    }
    expect(await late()).toBe(1);
  };
  // Only Linux has more than one loopback address.
  const onLinux = test.skipIf(process.platform !== "linux");

  onLinux("quarantines items of an address that sent bad ones, and of no other", async () => {
    await using server = await store.serve("lab");
    await expectLate(server.client);
  });

  test("tells clients behind a proxy apart by the proxy's headers", async () => {
    await using server = await store.serve("lab");
    const { client } = server;
    const late = () => client.metric('sconce_batches_total{cause="late"}');
    const send = (forwarded: string, input: object) => sendFrom("127.0.0.1", client, input, forwarded);
    for (let i = 0; i < 8; i++) expect(await send("10.0.0.5", bad)).toContain('"status":"failed"');
    for (let i = 0; i < 30; i++) expect(await send("10.0.0.1", good)).toContain('"status":"success"');
    for (let tries = 0; (await late()) === 0 && tries < 20; tries++) {
      expect(await send("10.0.0.1", good)).toContain('"status":"success"');
      expect(await late()).toBe(0);
      expect(await send("10.0.0.5", good)).toContain('"status":"success"');
    }
    expect(await late()).toBe(1);
  });

  onLinux("does so with a separate engine process", async () => {
    await using server = startCli(["serve", "lab", "--host", "127.0.0.1", "--port", "0"], {
      env: { SCONCE_HOME: store.home },
    });
    await expectLate(await clientOf(server));
  });
});
