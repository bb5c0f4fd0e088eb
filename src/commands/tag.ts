/** `sconce tag SOURCE TARGET` */

import { command } from "../command-line/command.ts";
import { ModelStore } from "../store/store.ts";

export const tag = command({
  name: "tag",
  description: "Give a packaged model one more tag",
  details:
    "A tag that stood for another model moves. TARGET may also name another repository; nothing is copied. Prints the new reference.",
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
