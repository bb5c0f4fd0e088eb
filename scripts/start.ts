/**
 * Builds and serves the model examples/digits on this machine only, and prints a request to paste. Arguments go to
 * `serve`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { main } from "../src/cli/cli.ts";
import { thisProgram } from "../src/machine/processes/program.ts";
import { root } from "./setup/step.ts";

const options = process.argv.slice(2);
const example = join(root, "examples", "digits");

const build = Bun.spawn([...thisProgram(), "build", example], { env: process.env, stdout: "pipe", stderr: "inherit" });
/** The reference of this build. It is not `latest`, which another checkout with the same store may move. */
const reference = (await build.stdout.text()).trim();
process.exitCode = await build.exited;
if (process.exitCode === 0) {
  console.log(reference);
  // `main` resolves when the server is ready; the server keeps running.
  const isHostGiven = process.env.SCONCE_HOST !== undefined || options.some((each) => /^--host(=|$)/.test(each));
  await main(["serve", reference, ...(isHostGiven ? [] : ["--host", "127.0.0.1"]), ...options]);
  if (!process.exitCode) await showRequest(portOf(options));
}

async function showRequest(port: string): Promise<void> {
  // With `--port 0` the port is unknown. Then no request is shown.
  const health = await fetch(`http://localhost:${port}/health/ready`).catch(() => undefined);
  if (!health?.ok) return;
  const input = JSON.stringify([{ image: smallestSample() }]);
  console.log(`\nTry it from another terminal:\n\n  ${request(port, input)}\n`);
}

/** The request as a command on one line, for pasting. */
function request(port: string, input: string): string {
  return `curl -s localhost:${port}/predictions -H 'Prefer: wait' -H 'Content-Type: application/json' -d '${input}'`;
}

/** The smallest sample as a data URI, which needs no file server. */
function smallestSample(): string {
  const folder = join(example, "samples");
  const images = readdirSync(folder).filter((name) => extname(name) === ".png");
  const [smallest] = images.map((name) => readFileSync(join(folder, name))).sort((a, b) => a.length - b.length);
  if (!smallest) throw new Error(`there is no PNG in ${folder}`);
  return `data:image/png;base64,${smallest.toString("base64")}`;
}

function portOf(given: string[]): string {
  const named = given.findIndex((option) => option === "--port" || option === "-p");
  const apart = named < 0 ? undefined : given[named + 1];
  const joined = given.find((option) => option.startsWith("--port="))?.slice("--port=".length);
  return apart ?? joined ?? (process.env.SCONCE_PORT || process.env.PORT || "3000");
}
