/** The path of a request, whatever host and path the client has sent. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { urlOf } from "../src/http/request.ts";

test("the URL of a request can always be parsed", () => {
  // Alone first: the last valid URL is remembered, and there is none yet.
  expect(URL.canParse(urlOf({ url: "" }))).toBe(true);
  const given = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "binary" }).map((host) => `http://${host}/predictions`),
    fc.constantFrom("", "*", "what", "\ufffd\ufffd", "//", "http://", "http://[::/a", "http://a:99999/b?c=d"),
  );
  fc.assert(
    fc.property(given, (url) => {
      expect(URL.canParse(urlOf({ url }))).toBe(true);
    }),
    { numRuns: 1000 },
  );
});

test("a path is kept if the host is missing or malformed", () => {
  for (const url of ["/a/b?c=d", "http://[::/a/b?c=d", "http://x:99999/a/b?c=d"])
    expect(urlOf({ url })).toBe("http://localhost/a/b?c=d");
});
