/** `sconce inspect [repo[:tag]]`: prints a model's manifest and config. */

import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { type Command, command } from "../command-line/command.ts";
import { formatJson } from "../command-line/table.ts";
import { storedModel } from "./named-model.ts";
import { shorten } from "./predict/output-files.ts";

export const inspect = inspectCommand(
  modelStore,
  `sconce inspect digits:v1
sconce inspect digits | jq .config.inputSchema`,
);

export function inspectCommand(source: ModelSource, example: string): Command {
  return command({
    details:
      "Sizes are in bytes. The config has the example, the batch size, the tensors of one item, and the JSON Schemas of inputs, outputs and parameters. Further fields are the version of torch at build time, and the processor features that compiled weights need. A model pulled for --role front has no weights. Data URIs in the example are shortened.",
    example,
    options: {},
    positionals: source.reference === undefined ? [] : [source.reference],
    async run({ positionals: [reference] }) {
      const model = await storedModel(source, reference, { withoutWeights: true });
      const { config, layers } = model;
      const described = {
        reference: model.reference,
        repository: model.repository,
        tags: await source.tagsOf(model),
        digest: model.digest,
        size: model.size,
        ...(model.missingLayers.length > 0 && { withoutWeights: true }),
        created: model.created?.toISOString(),
        config,
        layers: layers.map(({ title, mediaType, digest, size }) => ({ title, mediaType, digest, size })),
      };
      console.log(formatJson(shorten(described).output));
    },
  });
}
