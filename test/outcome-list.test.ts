/** The lists of outputs in the JSON text of a prediction's outcome. */
import { expect, test } from "bun:test";
import { LargeText } from "../src/predictions/large-text.ts";
import { listIn } from "../src/predictions/outcome-list.ts";

test("elements of a list are found in the text of its JSON, whatever they contain", () => {
  const value = {
    error: 'a "list":[1] \\',
    empty: [],
    list: [[1, [2]], { a: ["]", '\\"', "語"] }, "x,y", null, -1.5, {}],
    last: [true],
  };
  const members = JSON.stringify(value).slice(1, -1);
  const bytes = new TextEncoder().encode(members);
  // The text in two pieces, split at every byte.
  const cut = [...bytes.keys()].map((at) => new LargeText([bytes.subarray(0, at), bytes.subarray(at)]));
  for (const text of [members, new LargeText([members]), ...cut]) {
    for (const name of ["empty", "list", "last"] as const) {
      const elements = value[name].map((element) => JSON.stringify(element));
      expect(listIn(text, name)).toEqual(elements);
    }
    expect(listIn(text, "none")).toBeUndefined();
  }
});
