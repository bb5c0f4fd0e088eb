/** `sconce doctor`: checks whether this machine can serve models. */
import { colors } from "consola/utils";
import { flagOff, option } from "../../base/option.ts";
import { modelStore } from "../../package/model-source.ts";
import { serveOptions } from "../../server/config.ts";
import { command } from "../command-line/command.ts";
import type { Check } from "../doctor/check.ts";
import { memory, port, processor, system } from "../doctor/machine.ts";
import { native } from "../doctor/native.ts";
import { cache, data } from "../doctor/storage.ts";

export const doctor = command({
  details:
    "The command prints a line for each check: ✓ good, ! works but could be better, ✗ serving would not work. The end of the line has a fix. The command also loads libtorch and the addon. The exit code is 1 if serving would not work.",
  example: `sconce doctor
sconce doctor --json | jq -r '.checks[] | select(.state != "ok").fix'`,
  options: {
    port: serveOptions.port,
    host: serveOptions.host,
    json: option({ description: "Print JSON", ...flagOff }),
  },
  async run({ options }) {
    const checks: Check[] = [];
    const tell = (check: Check) => {
      checks.push(check);
      if (!options.json) print(check);
    };
    for (const check of [system, processor, memory, data, cache]) tell(check());
    tell(port(options.host, options.port));
    for (const check of await native(() => modelStore.prepareLibraries())) tell(check);
    const isAble = checks.every(({ state }) => state !== "fault");
    if (options.json) console.log(JSON.stringify({ ok: isAble, checks }, null, 2));
    if (!isAble) process.exitCode = 1;
  },
});

const marks = { ok: colors.green("✓"), warning: colors.yellow("!"), fault: colors.red("✗") };

function print({ name, state, found, fix }: Check): void {
  const line = `${marks[state]} ${name.padEnd(11)} ${found}${fix === undefined ? "" : `: ${fix}`}`;
  console.log(process.stdout.isTTY && !process.env.NO_COLOR ? line : Bun.stripANSI(line));
}
