/** Makes the published files in dist/: addons for each torch, npm packages, a wheel and one executable file. */
import { parseArgs } from "node:util";
import { type Architecture, architectures, isArchitecture } from "../src/base/platform-package.ts";
import { releases } from "./pack/releases.ts";
import { Failure } from "./setup/command.ts";

export interface PackOptions {
  /** Processor architecture of the files. Another one than this machine's is cross-compiled, and not tried. */
  readonly arch: Architecture;
  /** Minor releases of torch for which addons are compiled. */
  readonly minors: readonly string[];
  /** Whether to keep the downloaded torches for the next run. */
  readonly keepsTorch: boolean;
  /** Whether to also install and use the results in an empty environment, which takes minutes. */
  readonly isTried: boolean;
}

/** Modules that make the published files. `addons` comes first, because all other files contain the addons. */
const parts: Readonly<Record<string, () => Promise<{ pack(options: PackOptions): Promise<void> }>>> = {
  addons: () => import("./pack/addons.ts"),
  npm: () => import("./pack/npm.ts"),
  wheel: () => import("./pack/wheel.ts"),
  "one-file": () => import("./pack/one-file.ts"),
};

const known = Object.keys(releases);
const usage = `USAGE pack [${Object.keys(parts).join("|")}]… [--torch ${known.join("|")}]… [--arch ${Object.keys(architectures).join("|")}] [--keep-torch] [--try]`;

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      arch: { type: "string", default: process.arch },
      try: { type: "boolean", default: false },
      torch: { type: "string", multiple: true, default: known },
      "keep-torch": { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const minors = known.filter((minor) => values.torch.includes(minor));
  const unknown = [
    ...positionals.filter((name) => !(name in parts)),
    ...values.torch.filter((minor) => !known.includes(minor)),
    ...(isArchitecture(values.arch) ? [] : [values.arch]),
  ];
  const { arch } = values;
  if (!isArchitecture(arch) || unknown.length > 0) throw new TypeError(`unknown: ${unknown.join(", ")}`);
  if (values.help) console.log(usage);
  else {
    for (const [name, load] of Object.entries(parts)) {
      if (positionals.length === 0 || positionals.includes(name))
        await (await load()).pack({
          arch,
          isTried: values.try,
          minors,
          keepsTorch: values["keep-torch"],
        });
    }
  }
} catch (error) {
  if (!(error instanceof TypeError) && !(error instanceof Failure)) throw error;
  console.error(`pack: ${error.message}${error instanceof TypeError ? `\n${usage}` : ""}`);
  process.exitCode = error instanceof TypeError ? 2 : 1;
}
