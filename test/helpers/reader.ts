/** Runs the shell commands of a documentation page in a folder, as its reader does, with `sconce` on the PATH. */
import { expect } from "bun:test";
import { chmod, mkdir, readFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { pythonVariables, readLibtorch } from "../../scripts/setup/libtorch.ts";
import { clientOf, follow, program, type RunningCli, sources } from "./cli.ts";
import { tempDir } from "./fixture.ts";
import { freePort } from "./free-port.ts";
import { cacheFolder, machineEnv } from "./machine.ts";
import { blocksOf, commandsOf, isRun } from "./readme.ts";
import { hasRegistry, startRegistry } from "./registry.ts";
import { fastCompilation } from "./script-runner.ts";
import { addModels } from "./server.ts";

const root = join(import.meta.dir, "../..");

/** The registry host that the pages show. Commands get the host of a test registry instead. */
const shownRegistry = "registry.example.com";

const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(await Bun.file(join(root, "package.json")).json());

/** A shell in the reader's folder, for `await using`: the end of the scope stops the reader's server. */
export interface Reader extends AsyncDisposable {
  /** The reader's model store. */
  readonly home: string;
  /** `text` with the address of the running server in place of localhost:3000. */
  addressed(text: string): string;
  /** Runs shell commands. @returns their standard output @throws if a command fails */
  run(commands: string): Promise<string>;
  /** Stops the running server, and starts another with this command. Resolves when the new server listens. */
  serve(command: string): Promise<RunningCli>;
}

export interface ReaderOptions {
  /** Working folder of the commands. */
  readonly folder: string;
  /**
   * Whether the set-up's Python is on the PATH as `python3`. It must be false for pages with `npm` commands: the
   * set-up would look for torch again.
   */
  readonly python: boolean;
  /** Whether to run the sources, even under `npm test`. */
  readonly isSource?: boolean;
}

export async function startReader({ folder, python, isSource = false }: ReaderOptions): Promise<Reader> {
  const own = await tempDir();
  await mkdir(own.join("bin"));
  const { command: sconce, env } = isSource ? sources : program;
  await writeCommand(own.join("bin/sconce"), `${assigned(env)} exec ${sconce.join(" ")}`);
  if (python) await writeCommand(own.join("bin/python3"), pythonCommand());
  let server: RunningCli | undefined;
  let address = "localhost:3000";
  const addressed = (text: string) => text.replaceAll("localhost:3000", address);
  const bash = (script: string, port = 0) =>
    Bun.spawn(["bash", "-euo", "pipefail", "-c", addressed(script)], {
      cwd: folder,
      env: {
        ...process.env,
        ...machineEnv,
        ...fastCompilation,
        AOT_INDUCTOR_ENABLE_LINE_TABLES: "0",
        PATH: [own.join("bin"), dirname(process.execPath), process.env.PATH].join(":"),
        SCONCE_HOME: own.join("models"),
        SCONCE_CACHE_DIR: cacheFolder,
        SCONCE_HOST: "127.0.0.1",
        SCONCE_PORT: String(port),
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
  const stop = async () => {
    server?.kill("SIGTERM");
    const code = await server?.exited;
    await server?.[Symbol.asyncDispose]();
    server = undefined;
    return code ?? 0;
  };
  return {
    home: own.join("models"),
    addressed,
    async run(commands) {
      const child = bash(commands);
      const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      if (code !== 0) throw new Error(`${commands}\nended with ${code}: ${output}${errors}`);
      return output;
    },
    async serve(command) {
      expect(await stop()).toBe(0);
      // The server gets a free port instead of port 0, because `npm start` prints a sample request with the port of
      // its options.
      server = follow(bash(`exec ${command} >&2`, freePort()));
      address = (await clientOf(server)).url.host;
      return server;
    },
    async [Symbol.asyncDispose]() {
      await stop();
      await own[Symbol.asyncDispose]();
    },
  };
}

export interface PageOptions {
  /** Names of examples that are built before the page runs. */
  readonly models?: readonly string[];
  onServer?(server: RunningCli, reader: Reader): Promise<void>;
}

/** Runs the code blocks of a page in order. A block of JSON must match the output of the command before it. */
export async function runPage(path: string, { models = [], onServer }: PageOptions = {}): Promise<void> {
  const blocks = blocksOf(await readFile(join(root, path), "utf8"));
  const uses = (text: string) => blocks.some((block) => isRun(block) && block.content.includes(text));
  await using folder = await tempDir();
  await using registry = hasRegistry && uses(shownRegistry) ? await startRegistry() : undefined;
  const isSource = uses("sconce image");
  await using reader = await startReader({ folder: folder.path, python: uses("python3"), isSource });
  await symlink(join(root, "examples"), folder.join("examples"));
  await addModels(
    reader.home,
    models.map((model) => join(root, "examples", model)),
  );
  for (const [i, block] of blocks.entries()) {
    if (block.path !== undefined) {
      await mkdir(dirname(folder.join(block.path)), { recursive: true });
      await Bun.write(folder.join(block.path), block.content);
    }
    if (!isRun(block) || (registry === undefined && block.content.includes(shownRegistry))) continue;
    const commands = commandsOf(block).map((command) => localised(command, registry?.host ?? shownRegistry));
    const output = await reader.run(commands.filter((command) => !isServer(command)).join("\n"));
    for (const command of commands.filter(isServer)) {
      const server = await reader.serve(command);
      await onServer?.(server, reader);
    }
    const next = blocks[i + 1];
    if (next?.language !== "json") continue;
    const shown: unknown = JSON.parse(next.content);
    expect(shapeOf(abridgedAs(shown, asPending(shown, JSON.parse(output))))).toEqual(shapeOf(shown));
  }
}

function isServer(command: string): boolean {
  return command === "./server" || /\bsconce serve\b|\/start\.ts$/.test(command);
}

/**
 * The command as tests run it: with the test registry, a shorter tuning, and package.json's script in place of `npm
 * run`, which takes 0.3 s.
 */
function localised(command: string, registry: string): string {
  return command
    .replaceAll(shownRegistry, registry)
    .replaceAll("--seconds 5", "--seconds 1")
    .replace(/^npm (?:run (?:-s )?)?(\w+)((?: [^-\s]\S*)*)(?: --(?= )|$)/, (_, name: string, args: string) => {
      const script = scripts[name]?.replace("exec ", "").replaceAll("scripts/", `${root}/scripts/`);
      return `${script}${args}`;
    });
}

async function writeCommand(path: string, command: string): Promise<void> {
  await Bun.write(path, `#!/bin/sh\n${command} "$@"\n`);
  await chmod(path, 0o755);
}

function pythonCommand(): string {
  const python = readLibtorch()?.python;
  if (!python) throw new Error("the set-up found no Python that has torch");
  const paths = [python.path, process.env.PYTHONPATH].filter(Boolean).join(":");
  const variables = { ...pythonVariables(python), PYTHONPATH: paths };
  return `${assigned(variables)} exec ${python.command}`;
}

/** Variables as assignments before a shell command. */
function assigned(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}='${value}'`)
    .join(" ");
}

const pendingSchema = z.looseObject({ status: z.literal("pending") });
const startedSchema = z.looseObject({ status: z.enum(["running", "success"]) });

/**
 * The answer `given` without its progress, if the page shows a pending prediction: a fast prediction has already
 * started or ended.
 */
function asPending(shown: unknown, given: unknown): unknown {
  const [pending, started] = [pendingSchema.safeParse(shown).data, startedSchema.safeParse(given).data];
  if (pending === undefined || started === undefined) return given;
  const members = Object.entries({ ...started, status: "pending" });
  return Object.fromEntries(members.filter(([name]) => name in pending));
}

/**
 * The answer `given`, shortened where the page shortens it: "abc…" in the page stands for a text that begins with
 * abc, and "…" for any value.
 */
function abridgedAs(shown: unknown, given: unknown): unknown {
  if (shown === "…") return shown;
  if (typeof shown === "string" && shown.endsWith("…") && typeof given === "string") {
    return given.startsWith(shown.slice(0, -1)) ? shown : given;
  }
  if (Array.isArray(shown) && Array.isArray(given)) return given.map((part, i) => abridgedAs(shown[i], part));
  if (typeof shown === "object" && shown !== null && typeof given === "object" && given !== null) {
    const parts = new Map<string, unknown>(Object.entries(shown));
    return Object.fromEntries(Object.entries(given).map(([key, part]) => [key, abridgedAs(parts.get(key), part)]));
  }
  return given;
}

/** `value` without the parts that differ between runs: ids, times, tags, and the last digits of fractions. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, part]) => [
        key,
        /_id$|_at$|^tag$|^digest$/.test(key) ? "varies" : shapeOf(part),
      ]),
    );
  }
  return typeof value === "number" && !Number.isInteger(value) ? Math.round(value * 1000) : value;
}
