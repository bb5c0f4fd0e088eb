/** A server with a queue and several fronts: each front answers for all predictions, and claims its share of them. */
import { describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { capacityOf } from "../src/predictions/claims.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { queueOn } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { inRole, isRunning, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

describe.skipIf(!hasRedis)(`fronts (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);
  const store = fixture(() => storeWith("lab", "stage"));

  test("answer polls and cancellations while any other front is stopped", async () => {
    await using server = store.start(["lab", "--fronts", "2", "--queue", redis.url, "--queue-name", "fronts"]);
    const client = await clientOf(server);
    await using gate = hold();
    const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }]);
    const { port } = new URL(client.url);
    using connections = new DisposableStack();
    /** Connections that the kernel divides between both fronts. Each has been accepted. */
    const accepted = async () => {
      const sockets = Array.from({ length: 24 }, () => {
        const socket = connect(Number(port), "127.0.0.1");
        connections.defer(() => socket.destroy());
        return socket;
      });
      await Promise.all(sockets.map((socket) => answerOf(socket, "GET /health/live")));
      return sockets;
    };
    for (const pid of await inRole(server.pid, "front")) {
      // A stopped front leaves a request unanswered, so each request has its own connections.
      const requests = [
        { line: `GET /predictions/${id}`, sockets: await accepted() },
        { line: `POST /predictions/${id}/cancel`, sockets: await accepted() },
      ];
      process.kill(pid, "SIGSTOP");
      const ended = until(() => !isRunning(pid)).then(() => "the stopped front ended first");
      for (const { line, sockets } of requests) {
        const answers = sockets.map((socket) => answerOf(socket, line));
        expect(await Promise.race([ended, Promise.any(answers)])).toContain("200 OK");
      }
      process.kill(pid, "SIGCONT");
    }
  }, 60_000);

  test("return a running prediction at a stop, which counts as no failed attempt", async () => {
    const config = { queue: redis.url, queueName: "stops" };
    await using front = await store.serve("stage", { ...config, role: "front" });
    await using gate = hold();
    const { demos } = front.client;
    const { prediction_id: id } = await demos.create([{ x: 1, say: "aloha", before: gate.url("a") }]);
    for (let stops = 0; stops < 2; stops++) {
      await using worker = await store.serve("stage", { ...config, role: "worker", drainTimeout: 0 });
      await until(async () => (await demos.read(id)).logs?.includes("aloha") === true);
      await worker.stop();
    }
    // This worker dies while it has the prediction, because it neither renews its lease nor leaves.
    using died = await queueOn(redis.url, "stops", { repository: "stage", node: "dead" });
    expect(await died.take(1)).toHaveLength(1);
    await using _next = await store.serve("stage", { ...config, role: "worker", queueLease: 1 });
    gate.release("a");
    expect(await demos.end(id)).toMatchObject({ status: "success" });
  }, 60_000);
});

test("the fronts of a server claim together as many predictions as one front would", () => {
  const engine = { maxBatchSize: 64, instances: 2 };
  expect(capacityOf(engine, 1)).toEqual({ batch: 128, most: 384 });
  expect(capacityOf(engine, 8)).toEqual({ batch: 16, most: 48 });
  expect(capacityOf({ maxBatchSize: 1, instances: 1 }, 4)).toEqual({ batch: 0.25, most: 2 });
});

/** Sends a request without a body on a connection. @returns the answer's first chunk */
function answerOf(socket: Socket, request: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.once("data", (data) => resolve(data.toString()));
  socket.once("error", reject);
  socket.write(`${request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n`);
  return promise;
}
