/** Runs the Python client of the Model Context Protocol, and the protocol's conformance tests, against real servers. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { modelText, writeModel } from "../test/helpers/model-text.ts";
import { storeWith } from "../test/helpers/server.ts";
import { tempDir } from "../test/helpers/temp-dir.ts";
import { findPython } from "./setup/python.ts";
import { root } from "./setup/step.ts";

/** The conformance tests. Only alpha versions have scenarios for the protocol's revision 2026-07-28. */
const conformance = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const sources = join(root, "test", "clients");
const tools = join(root, ".sconce", "mcp-clients");
const python = join(tools, "bin", "python");

/** A model whose tool some scenarios call. */
const slowTool = modelText({
  name: '"slow_compute"',
  input: "z.object({ seconds: z.number(), label: z.string().optional() })",
  example: "{ seconds: 0 }",
  preprocess: `async ({ seconds }) => {
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    return { x: tensor(Float32Array.of(seconds), []), steps: tensor(BigInt64Array.of(0n), []) };
  }`,
});

interface Scenario {
  readonly name: string;
  /** Ids of checks that need tools, prompts or resources that the server does not have. */
  readonly fails?: readonly string[];
}

/**
 * Scenarios by the protocol's revision. The left-out scenarios call tools that a model cannot be, such as a tool that
 * asks the user for input.
 */
const scenarios: Readonly<Record<string, readonly Scenario[]>> = {
  "2025-11-25": ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"].map((name) => ({ name })),
  "2026-07-28": [
    {
      name: "server-stateless",
      fails: [
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
      ],
    },
    { name: "tools-list" },
    { name: "server-sse-multiple-streams" },
    { name: "dns-rebinding-protection" },
    {
      name: "caching",
      fails: [
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
      ],
    },
    { name: "http-header-validation" },
    { name: "input-required-result-unsupported-methods" },
  ],
  tasks: [
    {
      name: "tasks-lifecycle",
      fails: ["tasks-sync-tool-call", "sep-2663-tool-error-uses-completed-status", "sep-2663-tasks-get-status-failed"],
    },
    { name: "tasks-capability-negotiation" },
    { name: "tasks-wire-fields" },
    { name: "tasks-request-headers", fails: ["tasks-headers-tolerate-mcp-method-on-tools-call"] },
    {
      name: "tasks-dispatch-and-envelope",
      fails: [
        "tasks-server-directed-creation-no-hint",
        "sep-2663-legacy-task-param-ignored",
        "tasks-result-type-complete-on-non-task-responses",
      ],
    },
    { name: "tasks-request-state-removal" },
  ],
};
const checksSchema = z.array(z.object({ id: z.string(), status: z.string() }));

await installOnce("mcp.txt", async (requirements) => {
  const { executable = "python3" } = (await findPython()) ?? {};
  await run([executable, "-m", "venv", "--clear", tools]);
  await run([python, "-m", "pip", "install", "--quiet", "-r", requirements]);
  await Bun.write(join(tools, "package.json"), "{}");
  await run([process.execPath, "add", "--ignore-scripts", "--exact", conformance], { cwd: tools });
});
await using dir = await tempDir();
await using store = await storeWith("lab", await writeModel(dir, slowTool));
{
  await using server = await store.serve("lab");
  await run([python, join(sources, "mcp_client.py"), server.url.origin]);
  console.log("✓ mcp of PyPI: both revisions, outputs equal to POST /predictions, errors");
}
{
  await using server = await store.serve("slow_compute", { taskAfterMs: 500 });
  for (const [version, list] of Object.entries(scenarios)) {
    for (const scenario of list) await conform(new URL("/mcp", server.url), version, scenario);
  }
}

/** Runs a scenario. @throws Error if the failed checks are not the expected ones */
async function conform(url: URL, version: string, { name, fails = [] }: Scenario): Promise<void> {
  const out = dir.join(`${version}-${name}`);
  await mkdir(out);
  const program = join(tools, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const options = ["--url", url.href, "--scenario", name, "-o", out];
  if (version !== "tasks") options.push("--spec-version", version);
  // Ignores the exit code, because it counts the expected failures too.
  const report = await run([process.execPath, program, "server", ...options], { isChecked: false });
  const [path = ""] = new Bun.Glob("**/checks.json").scanSync({ cwd: out, absolute: true });
  const checks = checksSchema.parse(await Bun.file(path).json());
  const failed = [...new Set(checks.filter(({ status }) => status === "FAILURE").map(({ id }) => id))];
  if (failed.toSorted().join() !== fails.toSorted().join()) throw new Error(`${name}: failed ${failed}\n${report}`);
  const passed = checks.filter(({ status }) => status === "SUCCESS").length;
  console.log(`✓ ${version} ${name}: ${passed} checks, ${failed.length} without the tool or list that they need`);
}

/** Installs a list of packages into the checkout, unless the list is installed already. */
async function installOnce(name: string, install: (path: string) => Promise<void>): Promise<void> {
  const [path, stamp] = [join(sources, name), join(tools, "installed.txt")];
  const text = `${await Bun.file(path).text()}${conformance}\n`;
  if (existsSync(stamp) && (await Bun.file(stamp).text()) === text) return;
  await install(path);
  await Bun.write(stamp, text);
}

/** Runs a command. @returns its output @throws Error with the output, if the command fails */
async function run(
  command: string[],
  { cwd = root, isChecked = true }: { readonly cwd?: string; readonly isChecked?: boolean } = {},
): Promise<string> {
  const child = Bun.spawn(command, { cwd, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (isChecked && code !== 0) throw new Error(`${command.join(" ")} ended with ${code}:\n${out}${err}`);
  return `${out}${err}`;
}
