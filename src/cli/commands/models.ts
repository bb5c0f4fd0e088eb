/** `sconce models`: lists the models in the store. */
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { flagOff, option } from "../../base/option.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command } from "../command-line/command.ts";
import { formatAge, formatTable } from "../command-line/table.ts";

export const models = command({
  details:
    "The first tag of a model is derived from its content. Users give the other tags. Sizes include files that models share, and weights that a pull for --role front left out. --json prints tags, full digests, sizes in bytes and times. An unreadable model has the field problem.",
  example: `sconce models
sconce models --json | jq -r '.[].repository'`,
  options: {
    json: option({ description: "Print JSON", ...flagOff }),
  },
  async run({ options }) {
    const store = new ModelStore();
    const summaries = await store.list();
    if (options.json) {
      console.log(JSON.stringify(summaries, null, 2));
    } else if (summaries.length === 0) {
      console.log(`There are no models in ${store.home}; build one with: ${programName} build DIR`);
    } else {
      const rows = summaries.map(({ repository, tags, digest, size, withoutWeights, created, problem }) => [
        repository,
        tags.join(", "),
        digest.slice("sha256:".length, "sha256:".length + 12),
        problem === undefined ? `${formatBytes(size)}${withoutWeights ? " without weights" : ""}` : "damaged",
        created === undefined ? "unknown" : formatAge(Date.now() - created.getTime()),
      ]);
      console.log(formatTable(["REPOSITORY", "TAGS", "DIGEST", "SIZE", "CREATED"], rows));
    }
    for (const { problem } of summaries) if (problem !== undefined) log.warn(problem);
  },
});
