/** Every command of docs/apis.md works, and prints the JSON that the page shows. */
import { expect, test } from "bun:test";
import { testPageModels } from "../helpers/page-models.ts";
import { runPage } from "../helpers/reader.ts";

testPageModels("docs/apis.md", {
  "guide/sentences.ts": {
    input: { text: "ab" },
    check: (output) =>
      expect(output).toEqual({
        embedding: Array.from({ length: 256 }, (_, i) => expect.closeTo(i + 0.195, 3)),
        tokens: 2,
      }),
  },
});

test(
  "the commands of docs/apis.md run in the order of the page",
  () => runPage("docs/apis.md", { models: ["digits"] }),
  300_000,
);
