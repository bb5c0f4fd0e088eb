/** `sconce predict [repo[:tag]] field=value …`: runs a model once and prints the output. */
import { z } from "zod";
import { withConsole } from "../../base/captured-console.ts";
import { isLogJson, log } from "../../base/log.ts";
import { flagOff, listOption, openOption, option } from "../../base/option.ts";
import { SchemaNode } from "../../base/schemas/json-schema.ts";
import { slowStep } from "../../base/slow-step.ts";
import { openPackaged } from "../../package/code/load.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { decoded, LocalModel } from "../../pipeline/local-model.ts";
import { serveOptions } from "../../server/config.ts";
import { type Command, command, usage } from "../command-line/command.ts";
import { formatJson } from "../command-line/table.ts";
import { modelOptions, modelPositional, namedModel } from "./named-model.ts";
import { readInput } from "./predict/input.ts";
import { OutputTargets, shorten } from "./predict/output-files.ts";
import { PartPrinter } from "./predict/part-printer.ts";

export const predict = predictCommand(
  modelStore,
  `sconce predict digits image=examples/digits/samples/3.png
sconce predict digits image=examples/digits/samples/3.png --demo -o heatMap=heat-map.png
echo '{"x": 1.5}' | sconce predict lab:v1 --json -`,
);

export function predictCommand(source: ModelSource, example: string): Command {
  return command({
    details: `The type of a field determines the form of its value: a number, true or false, JSON for arrays and objects, or plain text. A list field may be repeated, once per element: tag=a tag=b. field=@FILE reads the value from a file. The file "-" is standard input.

A file field accepts a path, or a URL: http, https or data. A file in the output is a data URI. -o saves the file.

An ndarray() field also accepts the path of a file: JSON with lists, NumPy (.npy), or the raw bytes of the elements. Another form is a data URI with the raw bytes. Models built from a weights file have such fields.

The output goes to standard output: indented on a terminal, otherwise on one line. Standard error gets the parts of an output as they come, the console output of the model's code, and the logs of --demo.`,
    example,
    options: {
      json: openOption<string>({
        description: 'A whole input: JSON, @FILE, or "-" for standard input; single fields override it',
        valueHint: "json",
        described: "{}",
        variable: "SCONCE_INPUT",
        parse: z.string().min(1, 'must be JSON, "@" and a file, or "-"'),
      }),
      example: option({ description: "Use the model's example as input", ...flagOff }),
      demo: option({
        description: "Run the model's demo: print output and demo_output, and logs immediately",
        ...flagOff,
      }),
      output: listOption({
        description: 'Save a file of the output. field=FILE selects a field of the output. "-" is standard output',
        valueHint: "file",
        alias: "o",
        parse: z.string().min(1, "must be FILE or field=FILE"),
      }),
      device: serveOptions.device,
      threads: serveOptions.threads,
      ...(source.reference === undefined ? {} : modelOptions(source)),
    },
    positionals: [
      ...(source.reference === undefined ? [] : [modelPositional(source)]),
      { name: "field=value", description: "A field of the input", required: false, isVariadic: true },
    ],
    async run({ options, positionals }) {
      const [first, ...rest] = positionals;
      const isNamed = source.reference !== undefined && first !== undefined && !first.includes("=");
      const packaged = await namedModel(source, isNamed ? first : undefined, { ...options, withoutWeights: false });
      const { config, reference } = packaged;
      if (options.json !== undefined && options.example)
        throw usage("--json and --example are both a whole input; give one");
      if (options.example && config.example === undefined) throw usage(`${reference} has no example`);
      const targets = new OutputTargets(options.output);
      const input = await readInput({
        model: packaged.repository,
        schema: SchemaNode.of(config.inputSchema),
        json: options.json,
        example: options.example ? config.example : undefined,
        fields: isNamed ? rest : positionals,
      });
      await source.verify(packaged);
      await source.prepareLibraries();
      const output = await withConsole(writeLog, async () => {
        const opened = await openPackaged(packaged);
        const checked = decoded(opened, input, "usage");
        const { device, threads, demo } = options;
        // A single prediction needs no warm-up of batches.
        const batchSize = demo ? undefined : 1;
        await using model = await LocalModel.open(opened, {
          pathOf: (name) => packaged.layer(name).path,
          settings: { batchSize, maxQueueDelayMs: 0, device, instances: 1, threads },
        });
        using parts = new PartPrinter();
        if (demo) return await model.demo(checked, writeLog, parts);
        const [output] = await slowStep("Running the model", model.predict([checked], parts));
        return output;
      });
      const saved = await targets.save(output).catch((error: unknown) => {
        if (!targets.isStandardOutput) print(output);
        throw error;
      });
      if (targets.isStandardOutput) return;
      // The output is a file, so the command prints only its path.
      if (typeof saved === "string" && saved !== output) console.log(saved);
      else print(saved);
    },
  });
}

function writeLog(text: string): void {
  if (isLogJson()) log.info(text.trimEnd());
  else process.stderr.write(text);
}

function print(output: unknown): void {
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify(output));
    return;
  }
  const { output: shown, names } = shorten(output);
  console.log(formatJson(shown));
  const [name] = names;
  if (name === undefined) return;
  const target = names.length === 1 ? "FILE" : `${name}=FILE`;
  log.info(`${names.join(", ")} ${names.length === 1 ? "is" : "are"} cut short here; save with -o ${target}`);
}
