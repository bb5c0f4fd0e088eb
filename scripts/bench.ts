/** The benchmark: ratios measured in one run, as a table. It fails nothing: its exit code is 0 unless something broke. */
import { parseArgs } from "node:util";
import { bench } from "../bench/bench.ts";
import { cases, casesNamed, groups } from "../bench/cases.ts";
import { publish } from "../bench/publish.ts";

const usage = `USAGE bench [CASE or GROUP…] [--seconds N] [--repeats N] [--json FILE]
      bench --plots FILE

  --seconds N   how long one turn takes (default: 2); five and ten times as long for images and minilm, whose batches are slow
  --repeats N   how often each comparison is made (default: 5)
  --json FILE   adds what was measured, repeat by repeat, to a file; a case that is in it is replaced
  --plots FILE  measures nothing: draws the plots in bench/plots and writes the table of docs/how-fast.md from such a file

mlp-binary and images-ready are mlp-256 and images-1 with inputs that come as the bytes of their tensors: how far a server gets that
need not read numbers from text, and not fetch and decode images.`;

const options = read(process.argv.slice(2));
if (typeof options === "string") {
  console.error(options);
  process.exitCode = 2;
} else if (options.help) {
  const listed = Object.entries(groups).map(([name, { title, cases }]) => {
    return `${name}: ${title}\n\n  ${Object.keys(cases).join("\n  ")}`;
  });
  console.log(`${usage}\n\nCASES, by group (default: sconce)\n\n${listed.join("\n\n")}`);
} else {
  try {
    if (options.plots !== undefined) console.log((await publish(options.plots)).join("\n"));
    else process.exitCode = (await bench(options)) === 0 ? 0 : 1;
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}

/** The options, or what is wrong with them in one line. */
function read(argv: string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        seconds: { type: "string", default: "2" },
        repeats: { type: "string", default: "5" },
        json: { type: "string" },
        plots: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
    const unknown = positionals.find((name) => casesNamed(name) === undefined);
    if (unknown !== undefined)
      return `bench: unknown case ${unknown}; known: ${[...Object.keys(groups), ...Object.keys(cases)].join(", ")}`;
    const names = (positionals.length > 0 ? positionals : ["sconce"]).flatMap((name) => casesNamed(name) ?? []);
    const [seconds, repeats] = [values.seconds, values.repeats].map((given) =>
      /^[1-9]\d{0,3}$/.test(given) ? +given : 0,
    );
    if (!seconds)
      return `bench: --seconds must be a whole number from 1 to 9999, not ${JSON.stringify(values.seconds)}`;
    if (!repeats)
      return `bench: --repeats must be a whole number from 1 to 9999, not ${JSON.stringify(values.repeats)}`;
    return { names, seconds, repeats, json: values.json, plots: values.plots, help: values.help };
  } catch (error) {
    return `bench: ${error instanceof Error ? error.message : error}`;
  }
}
