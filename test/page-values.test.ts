/** Number formats and delays of the page, without a browser. */
import { expect, spyOn, test } from "bun:test";
import { pause } from "../src/server/page/client/pause.ts";
import { alignedTexts, grownBy, type Json } from "../src/server/page/client/value.ts";

test.each([
  ["shares of 1 as percent", [0.9012, 0.09876, 0.00004], ["90.1 %", "9.9 %", "0.0 %"]],
  ["with as many decimals each", [0.5, 12.3456, -1], ["0.50", "12.35", "-1.00"]],
  ["whole ones as they are", [3, 100], ["3", "100"]],
  ["very small ones with an exponent", [1e-7, 2e-5], ["1.000e-7", "2.000e-5"]],
])("numbers are aligned: %s", (_, values, texts) => {
  expect(alignedTexts(values)).toEqual(texts);
});

test("a pause removes its listener, however it ends", async () => {
  const { signal } = new AbortController();
  const added = spyOn(signal, "addEventListener");
  const removed = spyOn(signal, "removeEventListener");
  for (let i = 0; i < 3; i++) await pause(0, signal);
  expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(added.mock.calls.map(([, listener]) => listener));
  await expect(pause(60_000, AbortSignal.abort(new Error("over")))).rejects.toThrow("over");
});

test("parts of an output: texts grow, other values and pictures replace each other", () => {
  const parts = [
    { text: "Once ", step: 1, picture: "data:image/png;base64,AA", seen: { word: "a" } },
    { text: "upon", step: 2, picture: "data:image/png;base64,BB", seen: { word: "b" } },
    { step: 3 },
  ];
  expect(parts.reduce<Json | undefined>(grownBy, undefined)).toEqual({
    text: "Once upon",
    step: 3,
    picture: "data:image/png;base64,BB",
    seen: { word: "ab" },
  });
  expect(["a", "b"].reduce<Json | undefined>(grownBy, undefined)).toBe("ab");
  expect([[1], [2, 3]].reduce<Json | undefined>(grownBy, undefined)).toEqual([2, 3]);
});
