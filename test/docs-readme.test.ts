/** Every command of the README works, and prints the JSON that the README shows. Its model gives the shown output. */
import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { dataUri } from "./helpers/data-uri.ts";
import { testPageModels } from "./helpers/page-models.ts";
import { runPage } from "./helpers/reader.ts";
import { blocksOf } from "./helpers/readme.ts";

const root = join(import.meta.dir, "..");
const digits = join(root, "examples/digits");
const three = await readFile(join(digits, "samples/3.png"));

testPageModels("README.md", {
  "digits/model.ts": {
    input: { image: dataUri(three) },
    files: { "digits.pt2": await readFile(join(digits, "digits.pt2")), "samples/3.png": three },
    async check(output) {
      const blocks = blocksOf(await readFile(join(root, "README.md"), "utf8"));
      const scored = z.object({ digit: z.int(), scores: z.array(z.number()) });
      const shown = scored.parse(JSON.parse(blocks.find(({ language }) => language === "json")?.content ?? ""));
      const { digit, scores } = scored.parse(output);
      expect({ digit, scores: scores.map((score) => Number(score.toFixed(3))) }).toEqual(shown);
    },
  },
});

test("the commands of the README run in the order of the page, and npm start prints a request that works", async () => {
  let requests = 0;
  await runPage("README.md", {
    async onServer(server, reader) {
      const request = await server.line("curl ");
      const prediction: unknown = JSON.parse(await reader.run(request));
      expect(prediction).toMatchObject({ status: "success", outputs: [{ digit: expect.any(Number) }] });
      requests++;
    },
  });
  expect(requests).toBe(1);
}, 300_000);
