/**
 * Finds a user's credentials for a registry in the files of `docker login` and podman, or with a credential helper
 * program.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";
import { parsedJson } from "../../base/json.ts";
import { loginKeys } from "./remote-reference.ts";

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

export interface CredentialsLookup {
  readonly found: Credentials | undefined;
  /** Paths of all searched files, for error messages. */
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

/** Time limit of a credential helper program in milliseconds. The user may have to answer its prompt. */
const HELPER_TIMEOUT_MS = 30_000;

interface LookupContext {
  readonly file: string;
  readonly env: Environment;
  readonly timeoutMs: number;
}

/** User name in a credential helper's answer if the secret is an identity token, not a password. */
const tokenUser = "<token>";

/**
 * Finds credentials in `$REGISTRY_AUTH_FILE`, Docker's `config.json` or podman's `auth.json`, in this order.
 * @throws SconceError `registry_denied` when a file is invalid or a helper fails; the message has no secrets
 */
export async function findCredentials(
  host: string,
  env: Environment = process.env,
  timeoutMs = HELPER_TIMEOUT_MS,
): Promise<CredentialsLookup> {
  const files = credentialFiles(env);
  for (const file of files) {
    const config = await readConfig(file);
    const found = config && (await lookUp(config, host, { file, env, timeoutMs }));
    if (found) return { found, files };
  }
  return { found: undefined, files };
}

/** Paths of the files that may contain credentials, in search order. */
function credentialFiles(env: Environment = process.env): string[] {
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
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return;
    throw denied(`${file} can't be read: ${messageOf(error)}`, error);
  }
  if (text.trim() === "") return undefined;
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    // The error has no `cause`, because the JSON parser's message may quote a secret.
    throw denied(`${file} is not JSON; log in again, or correct it`);
  }
  const parsed = configSchema.safeParse(content);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues.map(({ path }) => path.join(".")).join(", ");
  throw denied(`${file} is not a Docker configuration: ${where} is invalid; log in again, or correct it`);
}

async function lookUp(config: Config, host: string, context: LookupContext): Promise<Credentials | undefined> {
  const keys = loginKeys(host);
  const hosts = keys.map(withoutScheme);
  const [server = host] = keys;
  const helper = Object.entries(config.credHelpers ?? {}).find(([key]) => hosts.includes(withoutScheme(key)))?.[1];
  if (helper !== undefined) return askHelper(helper, server, context);
  if (config.credsStore) {
    const found = await askHelper(config.credsStore, server, context);
    if (found) return found;
  }
  const auths = Object.entries(config.auths ?? {});
  for (const name of hosts) {
    const entry = auths.find(([key]) => withoutScheme(key) === name)?.[1];
    const found = entry && fromEntry(entry, context.file);
    if (found) return found;
  }
  return undefined;
}

/** Reduces a key such as `https://registry.example.com/v1/`, which older Docker versions wrote, to the host. */
function withoutScheme(key: string): string {
  return key.replace(/^https?:\/\//, "").replace(/\/(v[12]\/?)?$/, "");
}

function fromEntry(
  { auth, username, password, identitytoken }: z.infer<typeof authSchema>,
  file: string,
): Credentials | undefined {
  if (identitytoken) throw identityToken(file);
  if (auth) {
    const decoded = Buffer.from(auth, "base64").toString();
    const colon = decoded.indexOf(":");
    if (colon < 0) throw denied(`${file} has an "auth" that is not name and password; log in again`);
    const secret = decoded.slice(colon + 1).replace(/\0+$/, "");
    return { username: decoded.slice(0, colon), password: secret };
  }
  return username ? { username, password: password ?? "" } : undefined;
}

/**
 * Asks a credential helper for the credentials of a host. The helper `docker-credential-NAME get` reads the host from
 * standard input and prints JSON.
 */
async function askHelper(
  name: string,
  host: string,
  { file, env, timeoutMs }: LookupContext,
): Promise<Credentials | undefined> {
  const program = `docker-credential-${name}`;
  const path = Bun.which(program, { PATH: env.PATH ?? "" });
  if (path === null) throw denied(`${file} names ${program} for credentials, but it is not on the PATH`);
  // With `detached`, the helper has no terminal, so it cannot prompt in the middle of the command's output.
  const child = Bun.spawn([path, "get"], {
    env,
    stdin: new Blob([host]),
    stdout: "pipe",
    stderr: "ignore",
    detached: true,
  });
  const timer = setTimeout(() => killGroup(child), timeoutMs);
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
  const answer = helperAnswerSchema.safeParse(parsedJson(output));
  if (!answer.success) throw denied(`${program} did not print Username and Secret as JSON`);
  const { Username: username, Secret: secret } = answer.data;
  if (username === tokenUser) throw identityToken(program);
  return { username, password: secret };
}

/** Kills a credential helper and its child processes. */
function killGroup({ pid }: Bun.Subprocess): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {}
}

function identityToken(where: string): SconceError {
  return denied(`${where} has an identity token; log in with a name and a password or an access token`);
}

function denied(message: string, cause?: unknown): SconceError {
  return new SconceError("registry_denied", message, { cause });
}
