/** `sconce config check [FILE]`: checks the options of `serve` in a file. */
import { command, openFile, usage, valueFaults } from "../command-line/command.ts";
import type { OptionsFile } from "../command-line/options-file.ts";
import { serve } from "./serve.ts";

export const configCommand = command({
  details: `\`config check\` finds unknown names, wrong types and values out of range in an options file. The command reads no other files and no models. The exit code is 1 if there is a fault.`,
  example: "sconce config check production.toml",
  options: {},
  positionals: [
    { name: "action", description: "check", required: true },
    { name: "file", description: "The options file; default: sconce.toml in this folder", required: false },
  ],
  async run({ positionals: [action = "", given = process.env.SCONCE_CONFIG || undefined] }) {
    if (action !== "check") throw usage(`unknown action ${JSON.stringify(action)}; expected check`);
    const { options, file: use } = serve;
    if (use === undefined) throw new RangeError("serve reads no file");
    const file = openFile(given, options, use);
    if (file === undefined) throw usage(`there is no ${use.name} in this folder`);
    const faults = [...file.faults, ...valueFaults(options, file)];
    console.log([...faults, summaryOf(file, faults.length)].join("\n"));
    if (faults.length > 0) process.exitCode = 1;
  },
});

function summaryOf({ path }: OptionsFile, faults: number): string {
  return faults === 0 ? `${path} has no faults` : `${path}: ${faults} fault${faults === 1 ? "" : "s"}`;
}
