/** `sconce inspect [repo[:tag]]` */
import { ModelStore } from "../store/store.ts";
import { command } from "./command.ts";
import { shorten } from "./predict/output-files.ts";
import { formatJson } from "./table.ts";

export const inspect = command({
  name: "inspect",
  description: "Print what a packaged model is made of, as JSON",
  details:
    "Sizes are in bytes. The config holds what is known without loading the model: the JSON Schemas of inputs and outputs, the tensors of one item, the batch size, the torch that it was built with, what compiled weights need of a processor, the example. On a terminal data URIs are cut short.",
  example: `sconce inspect digits:v1
sconce inspect digits | jq .config.inputSchema`,
  options: {},
  positionals: [
    {
      name: "model",
      description: "repo[:tag] or repo@sha256:…; no tag means latest, no name the most recent build of all",
      required: false,
    },
  ],
  async run({ positionals: [reference] }) {
    const store = new ModelStore();
    const model = await store.resolve(reference);
    const all = await store.list();
    const own = all.find(({ repository, digest }) => repository === model.repository && digest === model.digest);
    const { config, layers } = model;
    const described = {
      reference: model.reference,
      repository: model.repository,
      tags: own?.tags ?? [model.tag],
      digest: model.digest,
      size: model.size,
      created: model.created?.toISOString(),
      config,
      layers: layers.map(({ title, mediaType, digest, size }) => ({ title, mediaType, digest, size })),
    };
    console.log(formatJson(process.stdout.isTTY ? shorten(described).output : described));
  },
});
