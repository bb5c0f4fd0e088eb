/** Inputs of clients whose inputs often fail run in separate batches, beside the inputs of other clients. */
import { afterAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { separateKey } from "../src/engine/item-check.ts";
import { clientOf } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { latenciesOf } from "./helpers/overloaded-flow.ts";
import { storeWith } from "./helpers/server.ts";
import { Simulation } from "./helpers/simulation.ts";

test("a client beside 64 clients with bad inputs waits at most twice as long as alone", async () => {
  const middle = (times: readonly number[]) => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0;
  const alone = await latenciesOf({ good: 16, bad: 0, seconds: 4 });
  const beside = await latenciesOf({ good: 16, bad: 64, seconds: 4 });
  expect(middle(alone)).toBeGreaterThan(0);
  expect(middle(beside)).toBeLessThanOrEqual(2 * middle(alone));
  expect(beside.length).toBeGreaterThan(0.3 * alone.length);
});

test("separate items share no batch with others, from the first item on", async () => {
  const simulation = new Simulation({ maxBatchSize: 8 });
  simulation.add({}, 1);
  const late = [{}, {}, {}, {}].flatMap((lane) => simulation.add(lane, 1, { isBad: true, key: separateKey("") }));
  const good = Array.from({ length: 20 }, () => simulation.add({}, 4)).flat();
  await simulation.clock.drain();
  expect(simulation.lost.toSorted((a, b) => a - b)).toEqual(late.map(({ id }) => id));
  expect(simulation.done.length).toBe(good.length + 1);
  for (const { items } of simulation.batches) expect(new Set(items.map(({ isBad }) => isBad)).size).toBe(1);
});

/** Address of a client, and the name that a proxy reports. */
type Address = readonly [address: string, forwarded?: string];

describe("a server", () => {
  const store = fixture(() => storeWith("lab"));
  // Connections stay open until the end: clients are known by their port, which a later connection could get again.
  const sockets: Socket[] = [];
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
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

  /** Sends two inputs at once, behind one that takes long. @returns the number of items in the batch of the second */
  const together = async (client: Client, [first, second]: readonly [Address, Address]) => {
    const [one, two] = [first, second].map(
      ([address, forwarded]) =>
        (input: object) =>
          sendFrom(address, client, input, forwarded),
    );
    const answers = await Promise.all([one?.({ x: 1, steps: 1000 }), one?.(good), two?.(good)]);
    return Number(/"together":(\d+)/.exec(answers[2] ?? "")?.[1]);
  };
  const expectSeparate = async (
    client: Client,
    clients: { readonly failing: Address; readonly others: readonly [Address, Address] },
  ) => {
    const {
      failing: [address, forwarded],
      others,
    } = clients;
    for (let i = 0; i < 32; i++) expect(await sendFrom(address, client, bad, forwarded)).toContain('"status":"failed"');
    // At the address of the failing client, other clients count as failing until their inputs succeed.
    for (const [address, name] of others) for (let i = 0; i < 30; i++) await sendFrom(address, client, good, name);
    for (let most = 0; most < 2; most = Math.max(most, await together(client, others)))
      expect(await together(client, [others[0], clients.failing])).toBe(1);
  };
  // Only Linux has more than one loopback address.
  const onLinux = test.skipIf(process.platform !== "linux");

  onLinux("separates items of an address that sent bad ones, and of no other", async () => {
    await using server = await store.serve("lab");
    await expectSeparate(server.client, { failing: ["127.0.0.5"], others: [["127.0.0.1"], ["127.0.0.6"]] });
  });

  test("tells clients behind a proxy apart by the proxy's headers", async () => {
    await using server = await store.serve("lab");
    const { client } = server;
    const [failing, first, second] = ["10.0.0.5", "10.0.0.1", "10.0.0.2"].map((name): Address => ["127.0.0.1", name]);
    if (failing === undefined || first === undefined || second === undefined) throw new Error("three clients");
    await expectSeparate(client, { failing, others: [first, second] });
  });

  onLinux("does so with a separate engine process", async () => {
    await using server = store.start(["lab"]);
    const client = await clientOf(server);
    await expectSeparate(client, { failing: ["127.0.0.5"], others: [["127.0.0.1"], ["127.0.0.6"]] });
  });
});
