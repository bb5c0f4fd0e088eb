/**
 * Installs the npm packages in a root folder with only Bun and glibc, uses them, and prints how long each step takes.
 */
import { join } from "node:path";
import { bareRoot } from "../../test/helpers/bare-root.ts";
import { clientOf, follow, type RunningCli } from "../../test/helpers/cli.ts";
import { systemLibraries } from "../../test/helpers/executable.ts";
import { npmRegistry } from "../../test/helpers/npm-registry.ts";
import { hasRegistry, startRegistry } from "../../test/helpers/registry.ts";
import { root as checkout } from "../setup/step.ts";

const folder = "/tmp/my-model";

export async function tryPackages(tarballs: readonly string[]): Promise<void> {
  await using packages = await npmRegistry(tarballs);
  await using root = await bareRoot();
  await root.add({
    "/usr/bin/bun": process.execPath,
    "/usr/bin/env": "/usr/bin/env",
    "/bin/sh": "/bin/sh",
    ...(await systemLibraries()),
  });
  const env = { HOME: "/tmp/home", PATH: "/usr/bin:/bin", BUN_CONFIG_REGISTRY: packages.url };
  const start = (command: readonly string[], cwd = folder) => root.run(command, { env, cwd });
  const began = performance.now();

  await step("bun create sconce my-model", start(["/usr/bin/bun", "create", "sconce", "my-model"], "/tmp"));
  const server = start(["/usr/bin/bun", "run", "serve", "--host", "127.0.0.1", "--port", "0"]);
  const client = await clientOf(server);
  const { status, outputs } = await client.predict([{ colour: "#ff8800" }]);
  console.log(`  first answer after ${seconds(began)}: ${status} ${JSON.stringify(outputs)}`);
  server.kill("SIGTERM");
  await server.exited;

  const sconce = (...args: string[]) =>
    step(`sconce ${args.join(" ")}`, start(["/usr/bin/bun", "x", "sconce", ...args]));
  // Checks the installed types with the compiler of the checkout.
  const compiler = [process.execPath, join(checkout, "node_modules/typescript/bin/tsc"), "-p", root.path + folder];
  await step("tsc", follow(Bun.spawn(compiler, { stdin: "ignore", stdout: "pipe", stderr: "pipe" })));
  await sconce("build");
  await sconce("predict", "--example");
  await sconce("compile", "-o", "/tmp/server");
  await step("/tmp/server predict --example", start(["/tmp/server", "predict", "--example"]));
  await sconce("image", "-o", "/tmp/image");
  if (!hasRegistry) return console.log("  sconce push: skipped, docker-registry is not here");
  await using registry = await startRegistry();
  await sconce("push", "my-model", `${registry.host}/my-model:1`);
}

async function step(what: string, program: RunningCli): Promise<void> {
  const began = performance.now();
  const output = await program.stdout;
  if ((await program.exited) !== 0) throw new Error(`${what}:\n${output}${program.lines.join("\n")}`);
  console.log(`  ${what}: ${seconds(began)}`);
}

function seconds(began: number): string {
  return `${((performance.now() - began) / 1000).toFixed(1)} s`;
}
