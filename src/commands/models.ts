/** `sconce models` */
import { z } from "zod";
import { option } from "../config.ts";
import { ModelStore } from "../store/store.ts";
import { command } from "./command.ts";
import { formatAge, formatBytes, formatTable } from "./table.ts";

export const models = command({
  name: "models",
  description: "List the models of the store, the most recent build first",
  example: "sconce models --json",
  options: {
    json: option({ description: "Print JSON", default: false, parse: z.stringbool() }),
  },
  async run({ options }) {
    const store = new ModelStore();
    const summaries = await store.list();
    if (options.json) {
      console.log(JSON.stringify(summaries, null, 2));
    } else if (summaries.length === 0) {
      console.log(`There are no models in ${store.home}; build one with: sconce build DIR`);
    } else {
      const rows = summaries.map(({ repository, tags, digest, size, created }) => [
        repository,
        tags.join(", "),
        digest.slice("sha256:".length, "sha256:".length + 12),
        formatBytes(size),
        created === undefined ? "unknown" : formatAge(Date.now() - created.getTime()),
      ]);
      console.log(formatTable(["REPOSITORY", "TAGS", "DIGEST", "SIZE", "CREATED"], rows));
    }
  },
});
