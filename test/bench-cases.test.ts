import { expect, test } from "bun:test";
import { join } from "node:path";
import { casesNamed } from "../bench/cases.ts";

const pages = ["docs/how-fast.md", "CONTRIBUTING.md", "deploy/README.md", "bench/peers/README.md"];

test("the documentation names only cases that the benchmark has", async () => {
  const texts = await Promise.all(pages.map((page) => Bun.file(join(import.meta.dir, "..", page)).text()));
  const named = [...texts.join("\n").matchAll(/npm run bench -- ([a-z][^`#\n]*)/g)].flatMap(([, names = ""]) => {
    return names.split(" ").filter((name) => /^[a-z][a-z0-9-]*$/.test(name));
  });
  expect(named.length).toBeGreaterThan(8);
  for (const name of named) expect(casesNamed(name)).not.toBeEmpty();
  expect(() => casesNamed("mlp-0")).toThrow("unknown case mlp-0");
});
