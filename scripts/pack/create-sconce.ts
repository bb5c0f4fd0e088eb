#!/usr/bin/env bun
/** `bun create sconce DIR`: makes an npm package that depends on sconce, with the files of `sconce init`. */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";

const [given = "my-model", ...options] = process.argv.slice(2);
const dir = resolve(given);
const file = join(dir, "package.json");
if (given.startsWith("-")) fail("USAGE bun create sconce [DIR] [options of sconce init]");
if (existsSync(file)) fail(`${given} has a package.json already; in it: bun add sconce && bunx sconce init .`);
const { version } = await Bun.file(new URL("package.json", import.meta.url)).json();
const scripts = { build: "sconce build", serve: "exec sconce serve ." };
const described = { private: true, type: "module", scripts, dependencies: { sconce: version } };

mkdirSync(dir, { recursive: true });
await Bun.write(file, `${JSON.stringify(described, null, 2)}\n`);
await run("install");
await run("run", "sconce", "init", ".", ...options);
console.log(`
  cd ${given}
  bun run serve`);

async function run(...args: string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, ...args], { cwd: dir, stdio: ["inherit", "ignore", "inherit"] });
  const code = await child.exited;
  if (code !== 0) process.exit(code);
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
