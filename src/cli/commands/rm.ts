/** `sconce rm REF…`: removes models from the store. */
import { formatBytes } from "../../base/bytes.ts";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { flagOff, option } from "../../base/option.ts";
import { parseReference } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command } from "../command-line/command.ts";

export const rm = command({
  details: `A model has a generated tag, and tags given by users. The command removes the model and its generated tag together with the last tag given by users. Until then, the model stays and no space becomes free. --all-tags, or a digest (repo@sha256:…), removes all tags of the model in the repository. Files that other models use stay.

The command removes as much as possible, then reports the failures. A running server keeps the model that it has open.`,
  example: `sconce rm digits:v1
sconce rm --all-tags digits:v1 flowers`,
  options: {
    allTags: option({
      description: "Remove the models with all their tags in the repository",
      alias: "a",
      ...flagOff,
    }),
    force: option({
      description: "Ignore models that do not exist",
      alias: "f",
      ...flagOff,
    }),
  },
  positionals: [
    {
      name: "ref",
      description: "repo[:tag] or repo@sha256:…; no tag means latest",
      required: true,
      isVariadic: true,
    },
  ],
  async run({ options, positionals }) {
    // Parses all references first, so that a misspelled one leaves nothing half removed.
    for (const reference of positionals) parseReference(reference);
    const store = new ModelStore();
    const faults: SconceError[] = [];
    let freedBytes = 0;
    for (const reference of positionals) {
      try {
        const result = store.remove(reference, { allTags: options.allTags });
        for (const removed of result.removed) console.log(`Untagged ${removed}`);
        freedBytes += result.freedBytes;
        if (result.remaining.length > 0) {
          log.info(`The model stays: its other tags are ${result.remaining.join(", ")}; --all-tags removes it`);
        }
      } catch (error) {
        if (!(error instanceof SconceError)) throw error;
        if (!(options.force && error.code === "model_not_found")) faults.push(error);
      }
    }
    if (freedBytes > 0) console.log(`Freed ${formatBytes(freedBytes)}`);
    const [first] = faults;
    if (first === undefined) return;
    throw new SconceError(first.code, faults.map(({ message }) => message).join("; "), { cause: first });
  },
});
