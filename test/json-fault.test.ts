/** Where invalid JSON is wrong: line and column of the first wrong character. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { jsonFault, MAX_LEVELS } from "../src/server/inputs/json-text.ts";

const placeIn = (text: string) => jsonFault(new TextEncoder().encode(text)).place;

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
])("the error in %p is at column %d", (text, column) => {
  expect(placeIn(text)).toBe(`line 1, column ${column}`);
});

test("the position of an error in JSON is given as line and column", () => {
  expect(placeIn('[\n  {"x": 1},\n  {"x": 2},\n]')).toBe("line 3, column 11");
});

test("the column of an error in JSON counts characters, not bytes", () => {
  expect(placeIn('["é€😀",]')).toBe("line 1, column 8");
});

test("a text with too many levels is reported at the first bracket beyond them", () => {
  const faultIn = (levels: number) => jsonFault(new TextEncoder().encode("[".repeat(levels)));
  expect(faultIn(MAX_LEVELS)).toEqual({ place: `line 1, column ${MAX_LEVELS + 1}`, isTooDeep: false });
  expect(faultIn(200_000)).toEqual({ place: `line 1, column ${MAX_LEVELS + 1}`, isTooDeep: true });
});

test("the position is that of the wrong character, wherever it is in the JSON", () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (json, place) => {
      // Truncated JSON is wrong at its end, not earlier.
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
