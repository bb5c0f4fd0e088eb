import { describe, expect, test } from "bun:test";
import { closest } from "../src/base/closest.ts";

describe("the closest word", () => {
  const commands = ["serve", "build", "models", "rm", "tag", "port", "host"];
  test.each([
    ["a swap of neighbours", "sevre", "serve"],
    ["a swap in a short word", "prot", "port"],
    ["a swap at the end", "hots", "host"],
    ["a swap of two letters in all", "mr", "rm"],
    ["a letter too many", "buiild", "build"],
    ["a letter too few", "modls", "models"],
    ["another letter", "bui1d", "build"],
    ["a swap and another letter", "omdelz", "models"],
  ])("after %s", (_, given, meant) => {
    expect(closest(given, commands)).toBe(meant);
  });

  test("is the most similar of several, or the first of equally similar ones", () => {
    expect(closest("port", ["sort", "prot", "post"])).toBe("sort");
    expect(closest("models", ["nodes", "model"])).toBe("model");
  });
});

describe("is undefined if no word is similar", () => {
  test.each([
    ["beyond a third of its length", "xxxve"],
    ["two swaps in a short word", "rpto"],
    ["letters apart that changed places", "terp"],
  ])("%s", (_, given) => {
    expect(closest(given, ["serve", "port", "pert"])).toBeUndefined();
  });

  test("is undefined without words", () => {
    expect(closest("serve", [])).toBeUndefined();
  });
});
