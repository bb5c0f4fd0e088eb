/** What pip is configured with: where packages are looked for, which versions are allowed, how to connect. Runs no Python. */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { pathToFileURL } from "node:url";

type Environment = Readonly<Record<string, string | undefined>>;

export interface PipConfig {
  /** URLs of indexes; the first is pip's `index-url`. May hold credentials. */
  readonly indexes: readonly string[];
  /** URLs of folders, or of pages, with links to wheels. */
  readonly links: readonly string[];
  /** Files that limit versions. */
  readonly constraints: readonly string[];
  /** A file of trusted authorities. */
  readonly cert: string | undefined;
  readonly proxy: string | undefined;
  /** The files and variables that said anything of this, for people. */
  readonly from: readonly string[];
}

const pypi = "https://pypi.org/simple";
const keys = ["index-url", "extra-index-url", "find-links", "no-index", "constraint", "cert", "proxy"] as const;

/** Files in their order, a later one going before, then variables: https://pip.pypa.io/en/stable/topics/configuration/ */
export function pipConfig(env: Environment = process.env, systemFile = "/etc/pip.conf"): PipConfig {
  const values = new Map<string, string>();
  const from: string[] = [];
  for (const file of configFiles(env, systemFile)) {
    const read = readConfig(file);
    for (const [key, value] of read) values.set(key, value);
    if (read.size > 0) from.push(file);
  }
  for (const key of keys) {
    const name = `PIP_${key.toUpperCase().replaceAll("-", "_")}`;
    const value = env[name];
    if (!value) continue;
    values.set(key, value);
    from.push(`$${name}`);
  }
  const words = (key: (typeof keys)[number]) => (values.get(key) ?? "").split(/\s+/).filter(Boolean);
  const hasIndex = !/^(1|true|yes|on)$/i.test(values.get("no-index") ?? "");
  return {
    indexes: hasIndex ? [words("index-url")[0] ?? pypi, ...words("extra-index-url")].map(asUrl) : [],
    links: words("find-links").map(asUrl),
    constraints: words("constraint"),
    cert: values.get("cert") ?? env.SSL_CERT_FILE,
    proxy: values.get("proxy"),
    from,
  };
}

/** A path as a URL. */
export function asUrl(text: string): string {
  return /^[a-z+]+:\/\//i.test(text) ? text : pathToFileURL(text.replace(/^file:/, "")).href;
}

function configFiles(env: Environment, systemFile: string): string[] {
  const named = env.PIP_CONFIG_FILE;
  // As pip: nothing but variables then.
  if (named === "/dev/null") return [];
  const home = env.HOME || homedir();
  const system = (env.XDG_CONFIG_DIRS || "/etc/xdg").split(":").filter(isAbsolute);
  const user = env.XDG_CONFIG_HOME && isAbsolute(env.XDG_CONFIG_HOME) ? env.XDG_CONFIG_HOME : join(home, ".config");
  return [
    ...system.reverse().map((folder) => join(folder, "pip", "pip.conf")),
    systemFile,
    join(home, ".pip", "pip.conf"),
    join(user, "pip", "pip.conf"),
    ...(env.VIRTUAL_ENV ? [join(env.VIRTUAL_ENV, "pip.conf")] : []),
    ...(named ? [named] : []),
  ];
}

/** The keys that matter, of the sections that `pip install` reads; what stands for installing alone goes before. */
function readConfig(file: string): Map<string, string> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return new Map();
  }
  const sections = { global: new Map<string, string>(), install: new Map<string, string>() };
  let section: Map<string, string> | undefined;
  let last: string | undefined;
  for (const line of text.split("\n")) {
    const header = /^\[(.+)\]\s*$/.exec(line)?.[1];
    const [, key, value = ""] = /^([\w-]+)\s*[=:]\s*(.*)$/.exec(line) ?? [];
    if (/^\s*([#;]|$)/.test(line)) continue;
    if (header !== undefined) {
      section = header === "global" || header === "install" ? sections[header] : undefined;
      last = undefined;
    } else if (key !== undefined) {
      last = keys.find((known) => known === key.replaceAll("_", "-"));
      if (last !== undefined) section?.set(last, value.trim());
    } else if (last !== undefined && /^\s/.test(line)) {
      // A value goes on in lines that are indented.
      section?.set(last, `${section.get(last) ?? ""} ${line.trim()}`);
    }
  }
  return new Map([...sections.global, ...sections.install]);
}
