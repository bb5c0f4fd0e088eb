/** `sconce rm REF…`: removes models from the store. */
import { formatBytes } from "../../base/bytes.ts";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { parseReference } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command } from "../command-line/command.ts";

export const rm = command({
  details: `A model has a generated tag, and tags given by users. The command removes the model and its generated tag together with the last tag given by users. Until then, the model stays and no space becomes free. A digest (repo@sha256:…) removes all tags of the model in the repository. Files that other models use stay.

The command removes as much as possible, then reports the failures. A running server keeps the model that it has open.`,
  example: `sconce rm digits:v1
sconce rm digits:v1 flowers`,
  options: {},
  positionals: [
    {
      name: "ref",
      description: "repo[:tag] or repo@sha256:…; no tag means latest",
      required: true,
      isVariadic: true,
    },
  ],
  async run({ positionals }) {
    // Parses all references first, so that a misspelled one leaves nothing half removed.
    for (const reference of positionals) parseReference(reference);
    const store = new ModelStore();
    const faults: SconceError[] = [];
    let freedBytes = 0;
    for (const reference of positionals) {
      try {
        const result = store.remove(reference);
        for (const removed of result.removed) console.log(`Untagged ${removed}`);
        freedBytes += result.freedBytes;
        if (result.remaining.length > 0) {
          log.info(`The model stays: its other tags are ${result.remaining.join(", ")}; its digest removes it`);
        }
      } catch (error) {
        if (!(error instanceof SconceError)) throw error;
        faults.push(error);
      }
    }
    if (freedBytes > 0) console.log(`Freed ${formatBytes(freedBytes)}`);
    const [first] = faults;
    if (first === undefined) return;
    throw new SconceError(first.code, faults.map(({ message }) => message).join("; "), { cause: first });
  },
});
