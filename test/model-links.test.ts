/** The list of models has paths that a client can follow, whatever the names of the models are. */
import { expect, test } from "bun:test";
import { ModelStore } from "../src/package/store/store.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

/** Two tags of a repository, which as relative links could be URLs with the scheme `lab`, and a name with a slash. */
const names = ["lab:latest", "lab:live", "team/ten"];
const store = fixture(async () => {
  await using dir = await tempDir();
  const made = await storeWith("lab", await writeModel(dir, modelText({ name: '"team/ten"' })));
  new ModelStore(made.home).tag("lab:latest", "lab:live");
  return made;
});

test.each(["", "/base"])(
  "the paths in the list of models lead to the models (base path %p)",
  async (base) => {
    const args = ["--fronts", "1", ...(base === "" ? [] : ["--base-path", base])];
    await using server = store.start([...names, ...args]);
    const { origin } = new URL((await clientOf(server)).url);
    for (const path of ["/models", "/models/"]) {
      const list = await fetch(`${origin}${base}${path}`);
      const { models } = (await list.json()) as { models: readonly { name: string; url: string }[] };
      expect(models.map(({ name }) => name)).toEqual(names);
      for (const { name, url } of models) {
        const model = await fetch(new URL(url, list.url));
        expect([model.url, model.status]).toEqual([`${origin}${base}/models/${name}`, 200]);
      }
    }
  },
  60_000,
);
