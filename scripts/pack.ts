/** Makes in dist/ what people install: the addons of each torch, packages of npm, a wheel, one executable file. */
import { parseArgs } from "node:util";

export interface PackOptions {
  /** Also tries out what was made, as somebody who has nothing else would: minutes. */
  readonly isTried: boolean;
}

/** In the order in which they need each other: all others hold the addons. */
const parts: Readonly<Record<string, () => Promise<{ pack(options: PackOptions): Promise<void> }>>> = {
  addons: () => import("./pack/addons.ts"),
  npm: () => import("./pack/npm.ts"),
  wheel: () => import("./pack/wheel.ts"),
  "one-file": () => import("./pack/one-file.ts"),
};

const usage = `USAGE pack [${Object.keys(parts).join("|")}]… [--try]`;

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { try: { type: "boolean", default: false }, help: { type: "boolean", short: "h", default: false } },
  });
  const unknown = positionals.filter((name) => !(name in parts));
  if (unknown.length > 0) throw new TypeError(`unknown: ${unknown.join(", ")}`);
  if (values.help) console.log(usage);
  else {
    for (const [name, load] of Object.entries(parts)) {
      if (positionals.length === 0 || positionals.includes(name)) await (await load()).pack({ isTried: values.try });
    }
  }
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  console.error(`pack: ${error.message}\n${usage}`);
  process.exitCode = 2;
}
