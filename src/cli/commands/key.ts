/** `sconce key new`: prints a new API key. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { log } from "../../base/log.ts";
import { filePath, openOption } from "../../base/option.ts";
import { hashOfSecret, keyName, type Permission, parseKeys } from "../../http/access/key-file.ts";
import { command, usage } from "../command-line/command.ts";

export const key = command({
  details: `The command prints a new API key once, on standard output. The entry for the file of keys has only the hash of the key. docs/security.md lists fields for the share and the permissions, which you can add to the entry. --file appends the entry to the file. Without --file, the entry goes to standard error. \`serve --api-keys FILE\` reads the file again when it changes.

Two entries with one name are one client. To replace a key without a gap, add the new entry, change the client, and remove the old entry. The new entry gets the share and the permissions of the old entry. The fields of the last entry apply to both keys.`,
  example: `sconce key new --name team-a --file keys.toml
sconce serve digits --api-keys keys.toml`,
  options: {
    name: openOption<string>({
      description: "Name of the client. A key of another name cannot read the results",
      valueHint: "name",
      described: "required",
      variable: "SCONCE_KEY_NAME",
      parse: keyName,
    }),
    file: openOption<string>({
      description: "File of API keys to which the entry is appended",
      described: "standard error",
      variable: "SCONCE_KEY_FILE",
      ...filePath,
    }),
  },
  positionals: [{ name: "action", description: "new", required: true }],
  async run({ options: { name, file }, positionals: [action = ""] }) {
    if (action !== "new") throw usage(`unknown action ${JSON.stringify(action)}; the action is new`);
    if (name === undefined) throw usage("missing --name (see --help)");
    const old = file !== undefined && existsSync(file) ? readFileSync(file, "utf8") : "";
    const earlier = parseKeys(old, file ?? "").findLast((each) => each.name === name);
    const { hash: _, ...inherited } = earlier ?? { hash: undefined };
    const { secret, entry } = makeKey({ ...inherited, name });
    if (file === undefined) {
      console.error(entry);
    } else {
      append(file, old, entry);
      const as = earlier === undefined ? "" : " as another key of this client, with its share and permissions";
      log.info(`Added ${name} to ${file}${as}`);
    }
    console.log(secret);
  },
});

/**
 * Appends an entry to the file of keys.
 * @throws SconceError `usage` if the file with the entry is not a valid file of keys
 */
function append(file: string, old: string, entry: string): void {
  const gap = old === "" || old.endsWith("\n\n") ? "" : old.endsWith("\n") ? "\n" : "\n\n";
  parseKeys(old + gap + entry, file);
  appendFileSync(file, gap + entry, { mode: 0o600 });
}

export interface NewKey {
  readonly name: string;
  readonly share?: number;
  readonly only?: readonly Permission[];
}

/** Creates a random secret, and the key's entry for the file. */
export function makeKey(key: NewKey): { readonly secret: string; readonly entry: string } {
  // The prefix lets scanners of source code recognise leaked secrets.
  const secret = `sconce_${crypto.getRandomValues(new Uint8Array(32)).toBase64({ alphabet: "base64url", omitPadding: true })}`;
  const { name, ...more } = key;
  const entry = { name, hash: `sha256:${hashOfSecret(secret)}`, ...more };
  // JSON of texts, numbers and lists is TOML.
  const lines = Object.entries(entry).map(([field, value]) => `${field} = ${JSON.stringify(value)}\n`);
  return { secret, entry: `[[key]]\n${lines.join("")}` };
}
