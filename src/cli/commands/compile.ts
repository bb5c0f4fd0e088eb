/** `sconce compile [repo[:tag]] -o FILE`: makes one executable file of a model and its server. */
import { z } from "zod";
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { filePath, openOption, option } from "../../base/option.ts";
import { compileExecutable } from "../../package/executable/executable.ts";
import { modelStore } from "../../package/model-source.ts";
import { command } from "../command-line/command.ts";
import { storedModel } from "./named-model.ts";

const places = ["embedded", "external"] as const;

export const compile = command({
  details:
    "The file runs on Linux machines with the same processor architecture, and needs only glibc and libstdc++. The file accepts the options of serve, and has the commands predict and inspect. The first start unpacks libtorch, once for all executables with the same libtorch. The embedded libtorch runs on CPUs only. With --libtorch external, the file has no libtorch, and uses PyTorch of the same release on the serving machine. GPUs need --libtorch external. The command prints the file's name.",
  example: `sconce compile digits:v1 -o server
./server --port 8080`,
  options: {
    output: openOption<string>({
      description: "The executable file",
      alias: "o",
      described: "the model's name",
      ...filePath,
    }),
    libtorch: option<(typeof places)[number]>({
      description: "Put libtorch into the file, or find it on the serving machine",
      valueHint: places.join("|"),
      default: "embedded",
      parse: z.enum(places, `must be ${places.join(" or ")}`),
    }),
  },
  positionals: modelStore.reference === undefined ? [] : [modelStore.reference],
  async run({ options, positionals: [reference] }) {
    const model = await storedModel(modelStore, reference);
    await modelStore.verify(model);
    await modelStore.prepareLibraries();
    const outfile = options.output ?? model.repository.split("/").at(-1) ?? "server";
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
    const compiled = await compileExecutable({
      outfile,
      model,
      libtorch: options.libtorch,
      onPacking: (bytes) => {
        if (options.libtorch === "external") return;
        log.info(`Compressing libraries (${formatBytes(bytes)}), once for all executables that have them`);
      },
    });
    const { size, librariesSize, modelSize } = compiled;
    log.info(
      `${model.reference} in ${formatBytes(size)}: the libraries are ${formatBytes(librariesSize)} of it, the model ${formatBytes(modelSize)}`,
    );
    console.log(outfile);
  },
});
