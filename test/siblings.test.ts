/** Requests that a front hands to another one: meanwhile their connections are silent, and not idle. */
import { expect, test } from "bun:test";
import { RequestContext } from "../src/http/request-context.ts";
import { Siblings } from "../src/http/siblings.ts";
import { tempDir } from "./helpers/temp-dir.ts";

test("a connection is held until another front has answered, and for events until their end", async () => {
  await using dir = await tempDir();
  const gates = { wait: Promise.withResolvers<void>(), events: Promise.withResolvers<void>() };
  await using _other = Bun.serve({
    unix: dir.join("1"),
    async fetch(request) {
      if (!request.url.endsWith("/events")) {
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
  const siblings = new Siblings({ index: 0, count: 2, socketOf: (index) => dir.join(`${index}`) }, (_, isHeld) =>
    held.push(isHeld),
  );
  const forward = (path: string) => {
    const request = new Request(`http://front/predictions/${path}`);
    return siblings.forward("1id", request, new RequestContext(request));
  };
  const waiting = forward("1id");
  expect(held.splice(0)).toEqual([true]);
  gates.wait.resolve();
  expect(await (await waiting)?.json()).toBe(1);
  expect(held.splice(0)).toEqual([false]);
  const reader = (await forward("1id/events"))?.body?.getReader();
  expect(new TextDecoder().decode((await reader?.read())?.value)).toContain("start");
  expect(held.splice(0)).toEqual([true]);
  gates.events.resolve();
  expect(await reader?.read()).toMatchObject({ done: true });
  expect(held).toEqual([false]);
});
