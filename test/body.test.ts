/** Answers that the server delays arrive completely, at any length. */
import { afterAll, expect, test } from "bun:test";
import { bodyOf } from "../src/http/record-json.ts";
import { nextTurn } from "./helpers/loop-turns.ts";

const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const text = (searchParams.get("of") ?? "n").repeat(Number(pathname.slice(1)));
    await nextTurn();
    return new Response(bodyOf(text), {
      headers: { "Content-Type": "text/plain", "X-Request-Id": "1" },
    });
  },
});
afterAll(() => server.stop(true));

test.each(["n", "語"])("texts of %s around the length where sending changes arrive whole", async (letter) => {
  for (const length of [0, 1, 15_359, 15_360, 15_361, 16_384, 40_000, 300_000]) {
    const answers = await Promise.all([1, 2, 3].map(() => fetch(new URL(`/${length}?of=${letter}`, server.url))));
    for (const answer of answers) {
      expect(answer.headers.get("content-type")).toBe("text/plain");
      expect(await answer.text()).toBe(letter.repeat(length));
    }
  }
});
