/**
 * A stopping server waits until clients have read their answers, at most for the linger time, and for
 * nothing else.
 */
import { expect, test } from "bun:test";
import { connect } from "node:net";
import { storeWith, type TestServer } from "./helpers/server.ts";

/** Characters of an answer: more than the kernel buffers for a client that does not read. */
const LENGTH = 40_000_000;

/** Starts to read an answer. @returns a function that reads the rest */
async function beginReading({ url }: TestServer): Promise<() => Promise<string>> {
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const body = JSON.stringify([{ length: LENGTH }]);
  const head = `Host: localhost\r\nContent-Type: application/json\r\nPrefer: wait\r\nContent-Length: ${body.length}`;
  const pieces: Buffer[] = [];
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  socket.write(`POST /predictions HTTP/1.1\r\n${head}\r\nConnection: close\r\n\r\n${body}`);
  socket.on("data", (piece) => {
    pieces.push(Buffer.from(piece));
    if (pieces.length === 1) socket.pause();
    begun.resolve();
  });
  socket.on("close", () => ended.resolve());
  socket.on("error", () => {});
  await begun.promise;
  return async () => {
    socket.resume();
    await ended.promise;
    return Buffer.concat(pieces).toString("latin1");
  };
}

test("slow clients can read answers during the linger time", async () => {
  await using store = await storeWith("greedy");
  await using hasty = await store.serve("greedy", { linger: 0 });
  await using patient = await store.serve("greedy", { linger: 600 });
  const readers = [await beginReading(patient), await beginReading(hasty)] as const;
  const stopped = patient.stop();
  // `stop` resolves when the server has closed the connections of its slow readers.
  await hasty.stop();
  const [whole, torn] = [await readers[0](), await readers[1]()];
  expect(whole.length).toBeGreaterThan(LENGTH);
  expect(whole).toEndWith("\r\n0\r\n\r\n");
  expect(torn).not.toEndWith("\r\n0\r\n\r\n");
  await stopped;
});

test("an incomplete request does not keep a stopping server until the end of the linger time", async () => {
  await using store = await storeWith("greedy");
  await using server = await store.serve("greedy", { linger: 600 });
  const answered = Promise.withResolvers<void>();
  const socket = connect({ host: server.url.hostname, port: Number(server.url.port) });
  socket.on("data", () => answered.resolve());
  socket.on("error", () => {});
  const head =
    "POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n";
  socket.write(`${head}Expect: 100-continue\r\n\r\n[`);
  // The server has answered 100 Continue, so it has received the head of the incomplete request.
  await answered.promise;
  await server.stop();
  socket.destroy();
}, 60_000);
