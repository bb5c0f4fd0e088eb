/** `sconce tag SOURCE TARGET`: adds a tag to a model. */

import { ModelStore } from "../../package/store/store.ts";
import { command } from "../command-line/command.ts";

export const tag = command({
  details:
    "If the tag exists, it moves from its old model. TARGET may name another repository: the command copies no files. The output is the new reference.",
  example: "sconce tag digits digits:production",
  options: {},
  positionals: [
    { name: "source", description: "repo[:tag] or repo@sha256:…; no tag means latest", required: true },
    { name: "target", description: "The new repo[:tag]", required: true },
  ],
  async run({ positionals: [source = "", target = ""] }) {
    console.log(new ModelStore().tag(source, target));
  },
});
