/** An unload waits for the predictions of its model, longer than the server lets a connection be idle. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { clientOf, startCli } from "../helpers/cli.ts";
import { Client } from "../helpers/client.ts";
import { hold } from "../helpers/hold.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";

let store: TestStore;

beforeAll(async () => {
  store = await storeWith("lab");
});

afterAll(() => store[Symbol.asyncDispose]());

test.each([
  ["the port", "Listening on", []],
  ["the admin port", "Admin port", ["--admin-port", "0"]],
])("a request to %s that unloads a model waits for longer than the idle timeout", async (_, name, args) => {
  await using held = hold();
  await using server = startCli(
    ["serve", "lab", "--host", "127.0.0.1", "-p", "0", "--linger", "0", "--idle-timeout", "1", ...args],
    {
      env: { SCONCE_HOME: store.home },
    },
  );
  const client = await clientOf(server);
  const port = new Client(new URL(/http:\S+/.exec(await server.line(name))?.[0] ?? ""));
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
