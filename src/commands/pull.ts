/** `sconce pull HOST/repo[:tag]` */
import { z } from "zod";
import { formatBytes } from "../bytes.ts";
import { SconceError } from "../errors.ts";
import { log } from "../log.ts";
import { openOption } from "../option.ts";
import { pull as pullModel } from "../registry/pull.ts";
import { Registry } from "../registry/registry.ts";
import { formatRemote, isLoopback, parseRemoteReference, type RemoteReference } from "../registry/remote-reference.ts";
import { latestTag, parseReference, type TagReference } from "../store/reference.ts";
import { ModelStore } from "../store/store.ts";
import { command } from "./command.ts";
import { Progress } from "./progress.ts";
import { abortable, credentialsHelp, registryOptions } from "./registry-options.ts";

export const pull = command({
  name: "pull",
  description: "Copy a model from a registry",
  details: `Fetches what the store lacks and checks the digest of every file before the model has a name; a pull that was cut short, or killed, goes on with the next one. Prints the model's name in the store: the last part of its repository, with the tag. The tag that is made of the content stands for it, too, and latest if the store has no model of that name.

${credentialsHelp}`,
  example: `sconce pull registry.example.com/team/digits:v1
sconce pull registry.example.com/team/digits:v1 --as team/digits:tried`,
  options: {
    as: openOption<string>({
      description: "What to call the model in the store",
      valueHint: "repo[:tag]",
      described: "the last part of its repository, with its tag",
      parse: z.string().min(1, "must be a name"),
    }),
    ...registryOptions,
  },
  positionals: [
    { name: "model", description: "HOST[:PORT]/repo[:tag] or …@sha256:…; no tag means latest", required: true },
  ],
  async run({ options: { as, plainHttp }, positionals: [given = ""] }) {
    const remote = parseRemoteReference(given);
    const own = localName(remote, as);
    const name = formatRemote(remote);
    const progress = new Progress({ verb: "Pulling" });
    const result = await abortable("interrupted; pull again to go on", (signal) =>
      pullModel({
        registry: new Registry({ remote, actions: "pull", isPlain: plainHttp || isLoopback(remote.host), signal }),
        store: new ModelStore(),
        repository: own.repository,
        tags: own.tag === undefined ? [] : [own.tag],
        onProgress: (step) => progress.update({ title: name, ...step }),
      }),
    ).finally(() => progress.end());
    const fetched = result.receivedBytes === 0 ? "all of it was here" : formatBytes(result.receivedBytes);
    log.info(`Pulled ${name}: ${fetched}`);
    console.log(`${own.repository}:${own.tag ?? result.tag}`);
  },
});

/** A model that was asked for by its digest has no tag but the generated one. */
function localName(remote: RemoteReference, as: string | undefined): { repository: string; tag: string | undefined } {
  const tag = remote.digest === undefined ? (remote.tag ?? latestTag) : undefined;
  if (as === undefined) return { repository: remote.repository.split("/").at(-1) ?? remote.repository, tag };
  const name = parseReference(as);
  if (!("tag" in name)) throw new SconceError("usage", `--as ${JSON.stringify(as)} is a digest; expected name[:tag]`);
  return isTagged(as, name) ? name : { repository: name.repository, tag };
}

function isTagged(text: string, { repository }: TagReference): boolean {
  return text !== repository;
}
