/** The benchmark: ratios measured in one run, as a table. It fails nothing: its exit code is 0 unless something broke. */
import { parseArgs } from "node:util";
import { bench } from "../bench/bench.ts";
import { cases, peerCases } from "../bench/cases.ts";

const usage = `USAGE bench [CASE…] [--seconds N] [--repeats N] [--json FILE]

  --seconds N   how long one turn takes (default: 2); five times as long for images and minilm, whose batches are slow
  --repeats N   how often each comparison is made (default: 5)
  --json FILE   saves what was measured, repeat by repeat`;

const options = read(process.argv.slice(2));
if (typeof options === "string") {
  console.error(options);
  process.exitCode = 2;
} else if (options.help) {
  const [own, beside] = [cases, peerCases].map((each) => Object.keys(each).join("\n  "));
  console.log(
    `${usage}\n\nCASES (default: all of these)\n\n  ${own}\n\nBESIDE OTHER SERVERS, which are installed first (peers: all of these)\n\n  ${beside}`,
  );
} else {
  try {
    process.exitCode = (await bench(options)) === 0 ? 0 : 1;
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
        help: { type: "boolean", short: "h", default: false },
      },
    });
    const known = Object.keys({ ...cases, ...peerCases });
    const names = positionals.flatMap((name) => (name === "peers" ? Object.keys(peerCases) : [name]));
    const unknown = names.find((name) => !known.includes(name));
    if (unknown !== undefined) return `bench: unknown case ${unknown}; known: ${known.join(", ")}, peers`;
    const [seconds, repeats] = [values.seconds, values.repeats].map((given) =>
      /^[1-9]\d{0,3}$/.test(given) ? +given : 0,
    );
    if (!seconds)
      return `bench: --seconds must be a whole number from 1 to 9999, not ${JSON.stringify(values.seconds)}`;
    if (!repeats)
      return `bench: --repeats must be a whole number from 1 to 9999, not ${JSON.stringify(values.repeats)}`;
    return { names, seconds, repeats, json: values.json, help: values.help };
  } catch (error) {
    return `bench: ${error instanceof Error ? error.message : error}`;
  }
}
