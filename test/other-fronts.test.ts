/**
 * Requests that one HTTP process forwards to another: connections of waiting clients are silent, but must not be closed
 * as idle.
 */
import { expect, test } from "bun:test";
import type { App } from "../src/http/app.ts";
import { OtherFronts } from "../src/http/other-fronts.ts";
import { RequestContext } from "../src/http/request.ts";
import { withContext } from "../src/http/with-context.ts";
import { tempDir } from "./helpers/fixture.ts";

/** The first of two fronts. @param socket path of the other's socket */
function frontBeside(socket: string): OtherFronts {
  return new OtherFronts({ index: 0, count: 2, socketOf: () => socket });
}

/** @param hold called with true when the request begins to wait for the other front, and with false when the wait ends */
function forward(
  otherFronts: OtherFronts,
  path: string,
  init: RequestInit = {},
  hold: (isHeld: boolean) => void = () => {},
): Promise<Response | undefined> {
  const request = new Request(`http://front${path}`, init);
  const context = new RequestContext(request);
  context.connections = { hold: (_, isHeld) => hold(isHeld), sending: () => {}, peerOf: () => undefined };
  return otherFronts.forward("1id", context);
}

test("a connection is held open until the other front has answered, or its event stream has ended", async () => {
  await using dir = await tempDir();
  const gates = { wait: Promise.withResolvers<void>(), events: Promise.withResolvers<void>() };
  await using _other = Bun.serve({
    unix: dir.join("1"),
    async fetch(request) {
      if (!request.url.endsWith("/demo/1id")) {
        await gates.wait.promise;
        return Response.json(1);
      }
      const events = async function* () {
        yield "event: start\n\n";
        await gates.events.promise;
      };
      return new Response(events(), { headers: { "Content-Type": "text/event-stream" } });
    },
  });
  const held: boolean[] = [];
  const otherFronts = frontBeside(dir.join("1"));
  const hold = (isHeld: boolean) => held.push(isHeld);
  const waiting = forward(otherFronts, "/predictions/1id", {}, hold);
  expect(held.splice(0)).toEqual([true]);
  gates.wait.resolve();
  expect(await (await waiting)?.json()).toBe(1);
  expect(held.splice(0)).toEqual([false]);
  const reader = (await forward(otherFronts, "/demo/1id", {}, hold))?.body?.getReader();
  expect(new TextDecoder().decode((await reader?.read())?.value)).toContain("start");
  expect(held.splice(0)).toEqual([true]);
  gates.events.resolve();
  expect(await reader?.read()).toMatchObject({ done: true });
  expect(held).toEqual([false]);
});

test("metrics leave out a front that is blocked, and have those of the others", async () => {
  await using dir = await tempDir();
  const blocked = Promise.withResolvers<Response>();
  const gauges = [{ name: "sconce_x", help: "x", type: "gauge", aggregator: "sum", values: [] }];
  await using _blocked = Bun.serve({ unix: dir.join("1"), fetch: () => blocked.promise });
  await using _other = Bun.serve({ unix: dir.join("2"), fetch: () => Response.json(gauges) });
  const otherFronts = new OtherFronts({ index: 0, count: 4, socketOf: (index) => dir.join(String(index)) });
  expect(await otherFronts.metrics()).toMatchObject(gauges);
  blocked.resolve(new Response());
});

test("HEAD is forwarded as HEAD, since nobody would read the body of a GET, which would block the connection", async () => {
  await using dir = await tempDir();
  await using _other = Bun.serve({
    unix: dir.join("1"),
    fetch: ({ method }) => new Response("12345", { headers: { "X-Method": method } }),
  });
  const otherFronts = frontBeside(dir.join("1"));
  const app: App = {
    answer: async (_, context) => (await otherFronts.forward("1id", context)) ?? new Response("not forwarded"),
    refused: () => new Response("refused"),
  };
  const head = withContext(app, { accessLog: false });
  const { headers, body } = await head(new Request("http://front/predictions/1id", { method: "HEAD" }));
  expect([headers.get("x-method"), headers.get("content-length"), body]).toEqual(["HEAD", "5", null]);
});

test("predictions of another front are left to the store if that process has ended, but not if it cannot be reached", async () => {
  await using dir = await tempDir();
  const otherFronts = frontBeside(dir.join("1"));
  expect(await forward(otherFronts, "/predictions/1id")).toBeUndefined();
  await Bun.write(dir.join("file"), "");
  // `file` is no folder, so connecting fails with a system error, as in a process without free descriptors. That does
  // not mean that the other process has ended.
  const unreachable = frontBeside(dir.join("file", "1"));
  await expect(forward(unreachable, "/predictions/1id")).rejects.toMatchObject({ code: "not_ready" });
  const put = { method: "PUT", body: "[]" };
  await expect(forward(otherFronts, "/predictions/1id", put)).rejects.toMatchObject({ code: "not_ready" });
});

test("an answer to a client that has left is no fault", async () => {
  await using dir = await tempDir();
  let arrived = Promise.withResolvers<void>();
  await using _other = Bun.serve({
    unix: dir.join("1"),
    async fetch({ body, signal }) {
      // The other front reads the body, and answers only when its request is aborted. The stream `half` never ends.
      for await (const part of body ?? []) if (String.fromCharCode(...part) === "half") break;
      arrived.resolve();
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve(new Response())));
    },
  });
  const otherFronts = frontBeside(dir.join("1"));
  const statusOf = async (init: RequestInit) => {
    arrived = Promise.withResolvers<void>();
    const client = new AbortController();
    const answer = forward(otherFronts, "/predictions/1id", { ...init, signal: client.signal });
    await arrived.promise;
    client.abort();
    return (await answer)?.status;
  };
  const half = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("half")) });
  expect(await statusOf({})).toBe(200);
  expect(await statusOf({ method: "PUT", body: half })).toBe(400);
});
