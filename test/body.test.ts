/** Texts of answers that were waited for arrive whole, however long they are. */
import { expect, test } from "bun:test";
import { bodyOf } from "../src/http/body.ts";

test.each(["n", "語"])("texts of %s around the lengths at which they are sent in another way", async (letter) => {
  await using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const text = letter.repeat(Number(new URL(request.url).pathname.slice(1)));
      await new Promise((resolve) => setImmediate(resolve));
      return new Response(bodyOf(text), { headers: { "Content-Type": "text/plain" } });
    },
  });
  for (const length of [0, 1, 15_359, 15_360, 15_361, 16_384, 40_000, 300_000]) {
    const answers = await Promise.all([1, 2, 3].map(() => fetch(new URL(`/${length}`, server.url))));
    for (const answer of answers) {
      expect(answer.headers.get("content-type")).toBe("text/plain");
      expect(await answer.text()).toBe(letter.repeat(length));
    }
  }
});
