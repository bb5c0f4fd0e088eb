/** `sconce pull HOST/repo[:tag]`: copies a model from a registry to the store. */
import { z } from "zod";
import { openOption } from "../../base/option.ts";
import { parseRemoteReference } from "../../package/registry/remote-reference.ts";
import { parseReference, type TagReference } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command, usage } from "../command-line/command.ts";
import { credentialsHelp, registryOptions } from "./registry/registry-options.ts";
import { type LocalName, localName, pullModel } from "./registry/registry-pull.ts";

export const pull = command({
  details: `The command fetches missing files, and checks the digest of every file before the model gets its name. The next pull continues an interrupted pull. The command prints the model's name in the store: the full name in the registry, with the tag. The model also gets its generated tag. If the store has no model of that name, the model also gets latest.

${credentialsHelp}`,
  example: `sconce pull registry.example.com/team/digits:v1
sconce pull registry.example.com/team/digits:v1 --as team/digits:tried`,
  options: {
    as: openOption<string>({
      description: "Name of the model in the store",
      valueHint: "repo[:tag]",
      described: "its full name, with the host",
      parse: z.string().min(1, "must be a name"),
    }),
    ...registryOptions,
  },
  positionals: [
    { name: "model", description: "HOST[:PORT]/repo[:tag] or …@sha256:…; no tag means latest", required: true },
  ],
  async run({ options: { as, plainHttp }, positionals: [given = ""] }) {
    const remote = parseRemoteReference(given);
    const name = as === undefined ? localName(remote) : nameAs(as, localName(remote));
    const { tag } = await pullModel({ store: new ModelStore(), remote, name, plainHttp });
    console.log(`${name.repository}:${name.tag ?? tag}`);
  },
});

/** Parses the name in `--as`. A name without a tag gets the model's tag in the registry. */
function nameAs(as: string, { tag }: LocalName): LocalName {
  const name = parseReference(as);
  if (!("tag" in name)) throw usage(`--as ${JSON.stringify(as)} is a digest; expected name[:tag]`);
  return isTagged(as, name) ? name : { repository: name.repository, tag };
}

function isTagged(text: string, { repository }: TagReference): boolean {
  return text !== repository;
}
