/** `sconce pull HOST/repo[:tag]`: copies a model from a registry to the store. */
import { parseRemoteReference } from "../../package/registry/remote-reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command } from "../command-line/command.ts";
import { credentialsHelp, registryOptions } from "./registry/registry-options.ts";
import { localName, pullModel } from "./registry/registry-pull.ts";

export const pull = command({
  details: `The command fetches missing files, and checks the digest of every file before the model gets its name. After an interruption, the next pull fetches incomplete files again. The command prints the model's name in the store: the full name in the registry, with the tag. The command tag gives another name. The model also gets its generated tag. If the store has no model of that name, the model also gets latest.

${credentialsHelp}`,
  example: `sconce pull registry.example.com/team/digits:v1
sconce tag registry.example.com/team/digits:v1 digits:v1`,
  options: registryOptions,
  positionals: [
    { name: "model", description: "HOST[:PORT]/repo[:tag] or …@sha256:…; no tag means latest", required: true },
  ],
  async run({ options: { plainHttp }, positionals: [given = ""] }) {
    const remote = parseRemoteReference(given);
    const name = localName(remote);
    const { tag } = await pullModel({ store: new ModelStore(), remote, name, plainHttp });
    console.log(`${name.repository}:${name.tag ?? tag}`);
  },
});
