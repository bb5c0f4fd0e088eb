/** `sconce config check [FILE]`: checks the options of `serve` in a file. */
import { readFileSync } from "node:fs";
import { messageOf } from "../../base/errors.ts";
import type { Option } from "../../base/option.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { modelStore } from "../../package/model-source.ts";
import { parseKeys } from "../../server/access/key-file.ts";
import { serveOptions } from "../../server/config.ts";
import { TlsFiles } from "../../server/http/tls-files.ts";
import { command, flagName, openFile, optionsInForce, type ReadOption, usage } from "../command-line/command.ts";
import type { OptionsFile } from "../command-line/options-file.ts";
import { serve } from "./serve.ts";
import { missingModels } from "./served-list.ts";

export const configCommand = command({
  details: `\`config check\` finds unknown names, wrong types and values out of range in an options file. Other findings are faults in the files that the options file names, and models that are not in the model store. The exit code is 1 if there is a fault.`,
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
    const faults = [...(file?.faults ?? [])];
    const read = optionsInForce(options, { file, onFault: (fault) => faults.push(fault) });
    if (file === undefined) throw usage(`there is no ${use.name} in this folder`);
    faults.push(...fileFaults(read), ...(await modelFaults(file, read)));
    console.log([...faults, summaryOf(file, faults.length)].join("\n"));
    if (faults.length > 0) process.exitCode = 1;
  },
});

function summaryOf({ path }: OptionsFile, faults: number): string {
  return faults === 0 ? `${path} has no faults` : `${path}: ${faults} fault${faults === 1 ? "" : "s"}`;
}

/** Faults in the files that options name, such as a missing file. */
function fileFaults(read: ReadonlyMap<string, ReadOption>): string[] {
  const found = Object.entries(serve.options).flatMap(([key, { isPath }]) => {
    const { text, origin } = read.get(key) ?? { text: undefined, origin: "" };
    // The store of predictions may be a file that does not exist yet.
    if (!isPath || text === undefined || key === "store") return [];
    try {
      const content = readFileSync(text, "utf8");
      if (key === "apiKeys") parseKeys(content, text);
      return [];
    } catch (error) {
      return [{ key, fault: `${origin}: ${flagName(key)}: ${messageOf(error)}` }];
    }
  });
  const faults = found.map(({ fault }) => fault);
  // Avoids a second message about a TLS file that cannot be read.
  return found.some(({ key }) => tlsKeys.some((each) => each === key)) ? faults : [...faults, ...tlsFaults(read)];
}

/** Faults of the models that the file names, such as a model that is not in the store. */
async function modelFaults(file: OptionsFile, read: ReadonlyMap<string, ReadOption>): Promise<string[]> {
  const parsed = <T>(key: string, { parse }: Option<T>) => parse.safeParse(read.get(key)?.text).data;
  const models = parsed("models", serveOptions.models);
  // Without models in the file, the command line of `serve` names them.
  if (models === undefined && file.positionals.length === 0) return [];
  const role = parsed("role", serveOptions.role) ?? serveOptions.role.default;
  const origin = file.find("models")?.origin ?? read.get("models")?.origin;
  const faults = await missingModels(modelStore, file.positionals, { models, role });
  return faults.map(({ code, message }) => {
    const isUnbuilt = code === "model_not_found" && !message.includes(" build ");
    return `${origin}: models: ${message}${isUnbuilt ? `; ${programName} build DIR packages a model` : ""}`;
  });
}

const tlsKeys = ["tlsCert", "tlsKey", "tlsClientCa"] as const;

/** A fault in the content of the TLS files, such as a key of another certificate, or an expired certificate. */
function tlsFaults(read: ReadonlyMap<string, ReadOption>): string[] {
  const [tlsCert, tlsKey, tlsClientCa] = tlsKeys.map((key) => read.get(key));
  const { origin = "" } = [tlsCert, tlsKey, tlsClientCa].find((option) => option?.text !== undefined) ?? {};
  try {
    const files = TlsFiles.of({ tlsCert: tlsCert?.text, tlsKey: tlsKey?.text, tlsClientCa: tlsClientCa?.text });
    return files?.dateFault === undefined ? [] : [`${origin}: TLS: ${files.dateFault}`];
  } catch (error) {
    return [`${origin}: ${messageOf(error)}`];
  }
}
