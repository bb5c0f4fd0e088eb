/** The position of an error in invalid JSON. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { faultPlace } from "../src/server/inputs/json-text.ts";

const placeIn = (text: string) => faultPlace(new TextEncoder().encode(text));

test.each([
  ['[{"x": 1},]', 10],
  ['[{"x": 1,}]', 9],
  ["[1 , \n]", 4],
  ["[,]", 2],
  ["[[], ]", 4],
  ["[{'x': 1}]", 3],
  ['[{"x" 1}]', 7],
  ['[{"x": NaN}]', 8],
  ["[1 2]", 4],
  ["[1}", 3],
  ["[{}", 4],
  ['["a\tb"]', 4],
  ['["\\x"]', 3],
  ["[01]", 3],
  ["[1.]", 3],
  ["[]]", 3],
  ['["never ends', 13],
])("of %p is column %d", (text, column) => {
  expect(placeIn(text)).toBe(`line 1, column ${column}`);
});

test("is counted in lines", () => {
  expect(placeIn('[\n  {"x": 1},\n  {"x": 2},\n]')).toBe("line 3, column 11");
});

test("is counted in characters, not in bytes", () => {
  expect(placeIn('["é€😀",]')).toBe("line 1, column 8");
});

test("is the wrong character, at any position in JSON", () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (json, place) => {
      // Every truncated text is invalid at its end, and not earlier.
      const cut = json.slice(0, place % json.length);
      let isWhole = true;
      try {
        JSON.parse(cut);
      } catch {
        isWhole = false;
      }
      fc.pre(!isWhole && !/[-.\d\\eE+truefalsn]$|\\u[\da-fA-F]{0,3}$/.test(cut));
      expect(placeIn(cut)).toBe(`line 1, column ${cut.length + 1}`);
    }),
  );
});
