/** Who to be for a registry: what `docker login` and its like left behind, in files or with a credential helper. */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { messageOf, SconceError } from "../../base/errors.ts";
import { mannersOf } from "./manners.ts";

/** A name with a password, or a token that stands for both at the registry's token server. */
export type Credentials =
  | { readonly kind: "password"; readonly username: string; readonly password: string }
  | { readonly kind: "identity"; readonly token: string };

export interface CredentialsLookup {
  readonly found: Credentials | undefined;
  /** The files that were looked for, for people. */
  readonly files: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

const authSchema = z.looseObject({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
});

const helperName = z.string().regex(/^[A-Za-z0-9._-]+$/, "must be the end of a program's name");

const configSchema = z.looseObject({
  auths: z.record(z.string(), authSchema).optional(),
  credsStore: helperName.or(z.literal("")).optional(),
  credHelpers: z.record(z.string(), helperName).optional(),
});
type Config = z.infer<typeof configSchema>;

const helperAnswerSchema = z.looseObject({ Username: z.string(), Secret: z.string() });

/** A helper may ask the user in a window of its own. */
const HELPER_TIMEOUT_MS = 30_000;

interface LookupContext {
  readonly file: string;
  readonly env: Environment;
  /** For one answer of a helper. */
  readonly timeoutMs: number;
}

/** The user name that helpers give with an identity token. */
const tokenUser = "<token>";

/**
 * Looks in `$REGISTRY_AUTH_FILE`, Docker's `config.json` and podman's `auth.json`, in this order.
 *
 * @throws SconceError `registry_denied` when a file or a helper can't be understood; it never tells a secret
 */
export async function findCredentials(
  remote: { readonly host: string; readonly repository: string },
  env: Environment = process.env,
  timeoutMs = HELPER_TIMEOUT_MS,
): Promise<CredentialsLookup> {
  const files = credentialFiles(env);
  for (const file of files) {
    const config = await readConfig(file);
    const found = config && (await lookUp(config, remote, { file, env, timeoutMs }));
    if (found) return { found, files };
  }
  return { found: undefined, files };
}

/** Where credentials are looked for, in this order. */
export function credentialFiles(env: Environment = process.env): string[] {
  const { REGISTRY_AUTH_FILE, DOCKER_CONFIG, XDG_RUNTIME_DIR, HOME } = env;
  return [
    ...(REGISTRY_AUTH_FILE ? [REGISTRY_AUTH_FILE] : []),
    join(DOCKER_CONFIG || join(HOME || homedir(), ".docker"), "config.json"),
    ...(XDG_RUNTIME_DIR ? [join(XDG_RUNTIME_DIR, "containers", "auth.json")] : []),
  ];
}

async function readConfig(file: string): Promise<Config | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) return;
    throw denied(`${file} can't be read: ${messageOf(error)}`, error);
  }
  if (text.trim() === "") return undefined;
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    // Without the cause: what a parser says of a text may quote it.
    throw denied(`${file} is not JSON; log in again, or correct it`);
  }
  const parsed = configSchema.safeParse(content);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues.map(({ path }) => path.join(".")).join(", ");
  throw denied(`${file} is not a configuration of Docker: ${where} has another form; log in again, or correct it`);
}

async function lookUp(
  config: Config,
  { host, repository }: { readonly host: string; readonly repository: string },
  context: LookupContext,
): Promise<Credentials | undefined> {
  const { logins = [host] } = mannersOf(host);
  const hosts = logins.map(plainName);
  const [server = host] = logins;
  const own = Object.entries(config.credHelpers ?? {}).find(([key]) => hosts.includes(plainName(key)))?.[1];
  if (own !== undefined) return askHelper(own, server, context);
  if (config.credsStore) {
    const found = await askHelper(config.credsStore, server, context);
    if (found) return found;
  }
  const auths = Object.entries(config.auths ?? {});
  for (const name of hosts.flatMap((each) => namesOf(each, repository))) {
    const entry = auths.find(([key]) => plainName(key) === name)?.[1];
    const found = entry && fromEntry(entry, context.file);
    if (found) return found;
  }
  return undefined;
}

/** What an entry may be named by, the nearest first: podman has them for repositories, too. */
function namesOf(host: string, repository: string): string[] {
  const parts = repository.split("/");
  return [...parts.map((_, index) => [host, ...parts.slice(0, parts.length - index)].join("/")), host];
}

/** Docker has written URLs as keys: `https://registry.example.com/v1/`. */
function plainName(key: string): string {
  return key.replace(/^https?:\/\//, "").replace(/\/(v[12]\/?)?$/, "");
}

function fromEntry({ auth, username, password, identitytoken }: z.infer<typeof authSchema>, file: string) {
  if (identitytoken) return { kind: "identity", token: identitytoken } as const;
  if (auth) {
    const decoded = Buffer.from(auth, "base64").toString();
    const colon = decoded.indexOf(":");
    if (colon < 0) throw denied(`${file} has an "auth" that is not name and password; log in again`);
    // Some tools fill the text up with zero bytes.
    const secret = decoded.slice(colon + 1).replace(/\0+$/, "");
    return { kind: "password", username: decoded.slice(0, colon), password: secret } as const;
  }
  return username ? ({ kind: "password", username, password: password ?? "" } as const) : undefined;
}

/** The protocol of `docker-credential-NAME get`: the host on standard input, JSON on standard output. */
async function askHelper(
  name: string,
  host: string,
  { file, env, timeoutMs }: LookupContext,
): Promise<Credentials | undefined> {
  const program = `docker-credential-${name}`;
  const path = Bun.which(program, { PATH: env.PATH ?? "" });
  if (path === null) throw denied(`${file} leaves credentials to ${program}, which is not on the PATH`);
  // A session of its own has no terminal, so the helper cannot prompt there.
  const child = Bun.spawn([path, "get"], {
    env,
    stdin: new Blob([host]),
    stdout: "pipe",
    stderr: "ignore",
    detached: true,
  });
  const timer = setTimeout(() => endGroup(child), timeoutMs);
  const [output, code] = await Promise.all([child.stdout.text(), child.exited]).finally(() => clearTimeout(timer));
  if (child.signalCode === "SIGKILL") {
    throw denied(
      `${program} gave no answer for ${host} within ${timeoutMs / 1000} s; if it prompts, unlock it first: echo ${host} | ${program} get`,
    );
  }
  if (code !== 0) {
    if (/credentials not found/i.test(output)) return undefined;
    throw denied(`${program} failed for ${host} with code ${code}; try: echo ${host} | ${program} get`);
  }
  const answer = helperAnswerSchema.safeParse(parseJson(output));
  if (!answer.success) throw denied(`${program} answered something else than Username and Secret as JSON`);
  const { Username: username, Secret: secret } = answer.data;
  return username === tokenUser
    ? { kind: "identity", token: secret }
    : { kind: "password", username, password: secret };
}

/** Ends a helper with the programs that it started. */
function endGroup({ pid }: Bun.Subprocess): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has just ended by itself.
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function denied(message: string, cause?: unknown): SconceError {
  return new SconceError("registry_denied", message, { cause });
}
