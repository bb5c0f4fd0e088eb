/** The shell scripts that find Bun and start the command line work from any folder and for any caller. */

import { expect, test } from "bun:test";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { run as runProgram } from "./helpers/child-output.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";

const root = dirname(import.meta.dir);
const dir = fixture(tempDir);
const folder = () => mkdtempSync(dir.join("launch-"));

test.each([
  ["1.4.5", "PATH"],
  ["1.4.6+a1b2c3", "PATH"],
  ["1.10.0", "PATH"],
  ["1.4.4", "checkout"],
  ["1.3.9", "checkout"],
  ["2.0.0", "checkout"],
  ["", "checkout"],
])("if the Bun on the PATH has version %p, Bun from the %s is used", async (version, taken) => {
  const checkout = copy();
  const path = folder();
  fakeBun(path, version, "PATH");
  fakeBun(join(checkout, ".sconce", "bun"), "1.4.5", "checkout");
  const { code, output } = await run(["/bin/sh", "scripts/bun", "a b", "c"], { cwd: checkout, path });
  expect({ code, output }).toEqual({ code: 0, output: `${taken}: <a b> <c>\n` });
});

test("without Bun and npm, the error names the command that installs npm", async () => {
  const { code, output } = await run(["/bin/sh", "scripts/bun", "--version"], { cwd: copy(), path: folder() });
  expect(code).toBe(1);
  expect(output).toMatch(
    /^✗ bun +Bun 1\.4\.5 is missing, and so is npm to get it with: (sudo )?(apt|dnf|brew) install (npm|node)\n$/,
  );
});

test("Bun is installed from its npm package, without the package's install script, and is on the PATH of child processes", async () => {
  const [checkout, path] = [copy(), folder()];
  linkTools(path);
  // A script in place of npm. It records its arguments, and installs a package for another platform too, as old
  // versions of npm do.
  script(
    join(path, "npm"),
    `echo "$@" >'${path}/arguments'
for platform in linux-musl linux; do
  mkdir -p node_modules/@oven/bun-$platform/bin
  cp '${path}/'$platform node_modules/@oven/bun-$platform/bin/bun
done`,
  );
  script(join(path, "node"), "exit 0");
  script(join(path, "linux-musl"), "exit 127");
  fakeBun(path, "1.4.5", "fetched", "linux");
  const first = await run(["/bin/sh", "scripts/bun", "x"], { cwd: checkout, path });
  expect(first.output).toMatch(/^fetched: <x>\n✓ bun +1\.4\.5 from the npm package +\d+ s\n$/);
  const given = readFileSync(join(path, "arguments"), "utf8");
  expect(given).toContain("--ignore-scripts");
  expect(given).toContain("bun@1.4.5");
  const second = await run(["/bin/sh", "scripts/bun", "y"], { cwd: checkout, path });
  expect(second).toMatchObject({ code: 0, output: "fetched: <y>\n" });
  fakeBun(join(checkout, ".sconce", "bun"), "1.4.5", "$(command -v bun)");
  const third = await run(["/bin/sh", "scripts/bun"], { cwd: checkout, path });
  expect(third.output).toBe(`${realpathSync(checkout)}/.sconce/bun/bun:\n`);
});

test.each(["--help", "-h"])("`npm start -- %s` prints help without Bun, npm and a set-up", async (flag) => {
  const checkout = copy();
  const { code, output } = await run(["/bin/sh", "scripts/run", "scripts/start.ts", flag], {
    cwd: checkout,
    path: folder(),
  });
  expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("USAGE npm start -- [OPTIONS]") });
  expect(existsSync(join(checkout, ".sconce"))).toBe(false);
});

test("sconce runs through a symbolic link from any folder, and keeps folder, arguments and exit code", async () => {
  const [checkout, elsewhere] = [copy(), realpathSync(folder())];
  stubCommandLine(checkout, `console.log(process.cwd(), JSON.stringify(argv)); process.exitCode = 7;`);
  symlinkSync(join(checkout, "scripts", "sconce"), join(elsewhere, "first"));
  symlinkSync("first", join(elsewhere, "sconce"));
  const { code, output } = await run(["./sconce", "serve", "a b", "--port=1"], { cwd: elsewhere, path: pathWithBun() });
  expect({ code, output }).toEqual({ code: 7, output: `${elsewhere} ["serve","a b","--port=1"]\n` });
});

const starters = [
  ["scripts/sconce", "serve", "digits", "--port", "1"],
  ["bun", "run", "serve", "digits", "--port", "1"],
  ["npm", "run", "--silent", "serve", "--", "digits", "--port", "1"],
].filter(([client = ""]) => client !== "npm" || Bun.which(client));

// Time limit for tests with npm, which needs a second or two to start on a busy machine.
const npmTimeoutMs = 30_000;

test.each(starters)(
  "a signal to %s reaches the server, and the server's exit code is returned",
  async (...command) => {
    for (const [signal, expected] of [["SIGTERM", 5] as const, ["SIGINT", 6] as const]) {
      const checkout = copy();
      const handlers = `process.on("SIGTERM", () => process.exit(5)); process.on("SIGINT", () => process.exit(6));`;
      stubCommandLine(
        checkout,
        `${handlers} console.log(JSON.stringify(argv)); setTimeout(() => process.exit(9), 60_000);`,
      );
      const env = { ...process.env, PATH: pathWithBun(), HOME: folder() };
      const child = Bun.spawn(command, { cwd: checkout, env, stdout: "pipe", stderr: "pipe" });
      const output = child.stdout.getReader();
      const { value } = await output.read();
      expect(new TextDecoder().decode(value)).toBe(`["serve","digits","--port","1"]\n`);
      child.kill(signal);
      expect(await child.exited).toBe(expected);
    }
  },
  npmTimeoutMs,
);

/** Copies only the scripts into a new folder. @returns the folder, which serves as a checkout */
function copy(): string {
  const checkout = folder();
  for (const name of ["scripts", "package.json", ".npmrc"])
    cpSync(join(root, name), join(checkout, name), { recursive: true });
  return checkout;
}

/** Changes a checkout so that it counts as set up, and its command line runs these statements. */
function stubCommandLine(checkout: string, statements: string): void {
  writeFileSync(join(checkout, "scripts", "setup.ts"), "export const isSetUp = () => true;");
  const others = { "base/errors.ts": "SconceError", "package/model-source.ts": "setLibraries" };
  for (const [path, name] of Object.entries(others)) {
    mkdirSync(join(checkout, "src", dirname(path)), { recursive: true });
    writeFileSync(join(checkout, "src", path), `export const ${name} = () => {};`);
  }
  mkdirSync(join(checkout, "src", "cli"), { recursive: true });
  writeFileSync(join(checkout, "src", "cli", "cli.ts"), `export async function main(argv: string[]) { ${statements} }`);
}

/** Writes a script in place of Bun, which prints its version, or `name` and its arguments. */
function fakeBun(path: string, version: string, name: string, file = "bun"): void {
  const says = `[ "$1" != --version ] || { echo '${version}'; exit; }`;
  script(join(path, file), `${says}\nprintf '%s:' "${name}"; [ $# = 0 ] || printf ' <%s>' "$@"; echo`);
}

function script(path: string, body: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
}

/** Puts the system tools on the PATH that scripts/bun needs to install something. */
function linkTools(path: string): void {
  for (const tool of ["sh", "mkdir", "mv", "rm", "cp", "date", "tail"])
    symlinkSync(Bun.which(tool) ?? tool, join(path, tool));
}

/** A PATH on which this Bun is found as `bun`. */
function pathWithBun(): string {
  const path = folder();
  symlinkSync(process.execPath, join(path, "bun"));
  return `${path}:${process.env.PATH}`;
}

function run(command: string[], { cwd, path }: { cwd: string; path: string }) {
  return runProgram(command, { cwd, env: { ...process.env, PATH: path } });
}
