/** An unload waits for the predictions of its model, longer than the server lets a connection be idle. */
import { expect, test } from "bun:test";
import { fixture } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { storeWith } from "../helpers/server.ts";

const store = fixture(() => storeWith("lab"));

test("a request that unloads a model waits for longer than the idle timeout", async () => {
  await using held = hold();
  await using server = await store.serve("lab", { idleTimeout: 1, adminPort: { host: "127.0.0.1", port: 0 } });
  const { client, admin: port } = server;
  if (port === undefined) throw new Error("the server has no admin port");
  const { prediction_id: id } = await client.create([{ x: 1, after: held.url("last") }]);
  await held.arrived("last");
  const unloading = port
    .fetch("/v2/repository/models/lab/unload", { method: "POST" })
    .then(({ status }) => status, String);
  // Waits until the server has closed an idle connection that is newer than the request. So the request itself is not
  // closed as idle.
  const idle = Promise.withResolvers<void>();
  const { hostname, port: number } = port.url;
  await Bun.connect({ hostname, port: Number(number), socket: { data() {}, close: () => idle.resolve() } });
  await idle.promise;
  held.release("last");
  expect(await unloading).toBe(200);
  expect((await client.end(id)).outputs).toMatchObject([{ y: 3 }]);
});
