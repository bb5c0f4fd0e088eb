import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, readFile, symlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Glob } from "bun";
import { z } from "zod";
import { cacheFolder } from "./helpers/executable.ts";
import { copyPreparedImages } from "./helpers/prepared-images.ts";
import { anchorsOf, blocksOf, commandsOf, linksOf, readPages } from "./helpers/readme.ts";
import { hasRegistry, startRegistry, type TestRegistry } from "./helpers/registry.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const root = resolve(import.meta.dir, "..");
const pages = await readPages(root);
const blocks = pages.flatMap(({ text }) => blocksOf(text));
const namedRegistry = "registry.example.com";
const isServer = (command: string) => command === "./server" || /^(npm start|(npm|bun) run serve)\b/.test(command);

const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(await Bun.file(join(root, "package.json")).json());

let checkout: TempDir;
let store: TempDir;
/** Stands for the one that the README names. */
let registry: TestRegistry | undefined;
let server: { process: Bun.Subprocess<"ignore", "pipe", "pipe">; port: number } | undefined;

beforeAll(async () => {
  checkout = await tempDir();
  store = await tempDir();
  if (hasRegistry) registry = await startRegistry();
  // A checkout of its own, since the reader's commands write into it; what the set-up made is shared.
  const files = await Bun.$`git ls-files -co --exclude-standard`.cwd(root).text();
  for (const file of files.trim().split("\n")) await cp(join(root, file), checkout.join(file)).catch(() => {});
  for (const made of ["node_modules", "build", ".sconce"]) await symlink(join(root, made), checkout.join(made));
  await copyPreparedImages(checkout.join("images"));
}, 120_000);

afterAll(async () => {
  await stop();
  await registry?.[Symbol.asyncDispose]();
  await checkout[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

test("every command of the README and of docs/ does what it says, in its order", async () => {
  for (const [i, block] of blocks.entries()) {
    if (block.path !== undefined) {
      await mkdir(dirname(checkout.join(block.path)), { recursive: true });
      await Bun.write(checkout.join(block.path), block.content);
    }
    if (block.language !== "sh" || block.content.trim() === "npm test") continue;
    if (block.content.includes(namedRegistry) && registry === undefined) continue;
    const commands = commandsOf(block);
    const output = await run(commands.filter((command) => !isServer(command)));
    for (const command of commands.filter(isServer)) {
      if (command === "npm start") await start(command);
      else await startServer(command);
    }
    const next = blocks[i + 1];
    if (next?.language !== "json") continue;
    const shown: unknown = JSON.parse(next.content);
    expect(shapeOf(abridgedAs(shown, JSON.parse(output)))).toEqual(shapeOf(shown));
  }
}, 900_000);

test("every model of the README and of docs/ type-checks", async () => {
  const models = blocks.filter(({ language, path }) => language === "ts" && path !== undefined);
  expect(models.length).toBeGreaterThan(4);
  for (const { path = "", content } of models) await Bun.write(checkout.join(path), content);
  const config = {
    extends: "./tsconfig.json",
    compilerOptions: { paths: { sconce: ["./src/index.ts"] } },
    include: models.map(({ path }) => path),
  };
  await Bun.write(checkout.join("tsconfig.readme.json"), JSON.stringify(config));
  const { exitCode, stdout } = await Bun.$`node_modules/.bin/tsc -p tsconfig.readme.json`
    .cwd(checkout.path)
    .nothrow()
    .quiet();
  expect({ exitCode, output: stdout.toString() }).toEqual({ exitCode: 0, output: "" });
}, 120_000);

test("the README's test command is the one that CI runs", async () => {
  expect(blocks.some(({ language, content }) => language === "sh" && content === "npm test\n")).toBe(true);
  expect(await readFile(join(root, ".ci", "run"), "utf8")).toMatch(/^(exec )?npm test$/m);
});

test("every link between pages leads to a file, and to a heading of it", async () => {
  const others = await Array.fromAsync(
    new Glob("{*.md,docs/tutorial.md,bench/**/*.md,deploy/**/*.md,examples/*/README.md}").scan(root),
  );
  const all = [...pages, ...others.map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }))];
  const dead = all.flatMap(({ path, text }) =>
    linksOf(text)
      .filter((link) => {
        const [to = "", anchor] = link.split("#");
        const file = to === "" ? join(root, path) : join(root, dirname(path), to);
        if (!existsSync(file)) return true;
        return anchor !== undefined && !anchorsOf(readFileSync(file, "utf8")).has(anchor);
      })
      .map((link) => `${path}: ${link}`),
  );
  expect(dead).toEqual([]);
  expect(all.flatMap(({ text }) => linksOf(text)).length).toBeGreaterThan(20);
});

function environment(port: number): Record<string, string | undefined> {
  const path = `${dirname(process.execPath)}:${process.env.PATH}`;
  return {
    ...process.env,
    // Compiled sooner, run once.
    AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL: "O0",
    AOT_INDUCTOR_ENABLE_LINE_TABLES: "0",
    TORCHINDUCTOR_VEC_ISA_OK: "1",
    TORCHINDUCTOR_CACHE_DIR: join(root, ".sconce/inductor"),
    PATH: path,
    SCONCE_HOME: store.path,
    SCONCE_CACHE_DIR: cacheFolder,
    SCONCE_PORT: String(port),
    SCONCE_HOST: "127.0.0.1",
    // golden.test.ts compares with PyTorch; here it would cost seconds for each build.
    SCONCE_COMPARE: "false",
  };
}

/** What npm runs, without the third of a second of a processor that npm takes; where npm would take an option for its own it is left to npm. */
function withoutNpm(command: string): string {
  return command.replace(
    /^npm run (?:-s )?(\w+)((?: [^-\s]\S*)*)(?: --(?= )|$)/,
    (_, name: string, args: string) => `${scripts[name]?.replace("exec ", "")}${args}`,
  );
}

async function run(commands: readonly string[]): Promise<string> {
  if (commands.length === 0) return "";
  const script = commands
    .map(withoutNpm)
    .join("\n")
    .replaceAll("localhost:3000", `127.0.0.1:${server?.port}`)
    .replaceAll(namedRegistry, registry?.host ?? namedRegistry)
    // Every setting has its turn in one second, too; more rounds only keep both cores busy.
    .replaceAll("--seconds 5", "--seconds 1");
  const child = Bun.spawn(["bash", "-euo", "pipefail", "-c", script], {
    cwd: checkout.path,
    env: environment(server?.port ?? 0),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${script}\nended with ${code}: ${output}${errors}`);
  return output;
}

/** Starts what ends with a request to paste, and pastes it. */
async function start(command: string): Promise<void> {
  // The request names the port, so it must be known beforehand.
  const free = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = free;
  await free.stop(true);
  const output = await startServer(command, port);
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of output) {
    text += decoder.decode(chunk, { stream: true });
    const request = /^ *(curl .*)\n/m.exec(text)?.[1];
    if (request === undefined) continue;
    expect(request).toContain(`localhost:${port}/predictions`);
    expect(JSON.parse(await run([request]))).toMatchObject({
      status: "success",
      outputs: [{ digit: expect.any(Number) }],
    });
    return;
  }
  throw new Error(`${command} showed no request: ${text}`);
}

/** Starts a command that goes on, on a port of its own, and waits until it says that it listens; gives its standard output. */
async function startServer(command: string, wanted = 0): Promise<ReadableStream<Uint8Array>> {
  await stop();
  const child = Bun.spawn(
    ["bash", "-c", `exec ${withoutNpm(command).replaceAll(namedRegistry, registry?.host ?? namedRegistry)}`],
    {
      cwd: checkout.path,
      env: environment(wanted),
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  let text = "";
  const decoder = new TextDecoder();
  const reader = child.stderr.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`${command} ended before it listened: ${text}`);
    text += decoder.decode(value);
    const port = /Listening on http:\S+:(\d+)/.exec(text)?.[1];
    if (port === undefined) continue;
    server = { process: child, port: Number(port) };
    reader.releaseLock();
    child.stderr.pipeTo(new WritableStream()).catch(() => {});
    return child.stdout;
  }
}

async function stop(): Promise<void> {
  server?.process.kill("SIGTERM");
  expect((await server?.process.exited) ?? 0).toBe(0);
  server = undefined;
}

/** What was given, cut where the README cuts it: a text that ends in an ellipsis stands for all that begins like it, alone for anything. */
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

/** Keys and types, and the texts and whole numbers that do not differ from run to run. */
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
