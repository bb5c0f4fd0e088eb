/** Tasks of the Model Context Protocol belong to the API key that began them. */
import { expect, test } from "bun:test";
import { makeKey } from "../src/server/access/key-file.ts";
import { clientOf, startCli } from "./helpers/cli.ts";
import { hold } from "./helpers/hold.ts";
import { knowsTasks, send } from "./helpers/mcp.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

type Headers = Readonly<Record<string, string>>;

test("a client reads, updates and cancels no task of another API key, whichever HTTP process answers", async () => {
  await using store = await storeWith("lab");
  await using dir = await tempDir();
  await using gate = hold();
  const keys = { owner: makeKey({ name: "owner" }), other: makeKey({ name: "other" }) };
  const bearer = (name: keyof typeof keys): Headers => ({ Authorization: `Bearer ${keys[name].secret}` });
  await Bun.write(dir.join("keys.toml"), `${keys.owner.entry}\n${keys.other.entry}`);
  const args = ["--host", "127.0.0.1", "-p", "0", "--fronts", "2", "--allow-private-urls"];
  await using server = startCli(["serve", "lab", ...args, "--api-keys", dir.join("keys.toml")], {
    env: { SCONCE_HOME: store.home },
  });
  const client = await clientOf(server);
  const mcp = async (method: string, params: Readonly<Record<string, unknown>>, headers: Headers) => {
    const options = { headers: { ...headers, Connection: "close" }, meta: knowsTasks };
    return (await send(client.url, method, params, options)).text();
  };
  const begun = await mcp("tools/call", { name: "lab", arguments: { x: 1, before: gate.url("a") } }, bearer("owner"));
  const { taskId = "" } = /"taskId":"(?<taskId>[^"]+)"/.exec(begun)?.groups ?? {};
  expect(taskId).toMatch(/^[\w-]{16,}\.[\w-]{6}$/);
  const [stem = ""] = taskId.split(".");
  const [, ownSuffix = ""] = (await client.predict([{ x: 2 }], bearer("other"))).prediction_id.split(".");
  const refused = async (headers: Headers, reason: string) => {
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      for (const id of [taskId, stem, `${stem}.${ownSuffix}`, `${taskId}.${ownSuffix}`]) {
        // The header Mcp-Name decides which HTTP process answers. It may name another task than the body.
        for (const named of [{}, {}, {}, { "Mcp-Name": stem }, { "Mcp-Name": "" }]) {
          const answer = await mcp(method, { taskId: id }, { ...headers, ...named });
          expect([method, id, answer]).toEqual([method, id, expect.stringContaining(reason)]);
          expect(answer).not.toContain("working");
        }
      }
    }
  };
  await refused(bearer("other"), "error");
  await refused({}, "an API key is required");
  expect(await mcp("tasks/get", { taskId }, bearer("owner"))).toContain('"status":"working"');
  gate.release("a");
  const ended = await client.read(taskId, { ...bearer("owner"), Prefer: "wait" });
  expect(ended).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  expect(await mcp("tasks/get", { taskId }, bearer("owner"))).toContain('"status":"completed"');
  await refused(bearer("other"), "error");
}, 60_000);
