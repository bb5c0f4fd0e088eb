/** `sconce push [REF] HOST/repo[:tag]`: copies a model from the store to a registry. */
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { Progress } from "../../base/progress.ts";
import { isLoopback } from "../../machine/network/host-name.ts";
import { push as pushModel } from "../../package/registry/push.ts";
import { Registry } from "../../package/registry/registry.ts";
import { formatRemote, parseRemoteReference } from "../../package/registry/remote-reference.ts";
import { parseReference } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { command, usage } from "../command-line/command.ts";
import { credentialsHelp, registryOptions } from "./registry/registry-options.ts";
import { abortable } from "./registry/registry-pull.ts";

export const push = command({
  details: `The command sends only missing files. After a broken connection, it sends the file again. The pushed model has the same bytes and the same digest. The command prints the reference with the digest. This reference can be pulled, and never refers to another model.

${credentialsHelp}`,
  example: `sconce push digits:v1 registry.example.com/team/digits
sconce push registry.example.com/team/digits:v1`,
  options: registryOptions,
  positionals: [
    {
      name: "model",
      description: "repo[:tag] or repo@sha256:… of the store. With TARGET alone: the model with the name TARGET",
      required: true,
    },
    { name: "target", description: "HOST[:PORT]/repo[:tag]; the tag of MODEL by default", required: false },
  ],
  async run({ options: { plainHttp }, positionals }) {
    const [target = "", source] = positionals.toReversed();
    const remote = parseRemoteReference(target);
    if (remote.digest !== undefined) {
      throw usage(`${JSON.stringify(target)} is a digest, which is made of the content; expected a tag`);
    }
    const store = new ModelStore();
    const own = source ?? target;
    const reference = parseReference(own);
    const model = await store.resolve(own);
    const tag = remote.tag ?? ("tag" in reference ? reference.tag : model.tag);
    const name = formatRemote({ ...remote, tag });
    const progress = new Progress({ verb: "Pushing" });
    const result = await abortable("interrupted; push again: files that arrived whole are not sent again", (signal) =>
      pushModel({
        registry: new Registry({
          remote,
          actions: "pull,push",
          isPlain: plainHttp || isLoopback(remote.host),
          signal,
        }),
        store,
        model,
        tag,
        onProgress: (step) => progress.update({ title: name, ...step }),
      }),
    ).finally(() => progress.end());
    const { sentBlobs, sentBytes, blobs } = result;
    const sent =
      sentBlobs === 0 ? "the registry had all files" : `${sentBlobs} of ${blobs} files, ${formatBytes(sentBytes)}`;
    log.info(`Pushed ${model.reference} to ${name}: ${sent}`);
    console.log(formatRemote({ ...remote, tag: undefined, digest: model.digest }));
  },
});
