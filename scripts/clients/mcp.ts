/** Runs the Python client of the Model Context Protocol, and the protocol's conformance tests, against real servers. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { messageOf } from "../../src/base/errors.ts";
import { tempDir } from "../../test/helpers/fixture.ts";
import { modelText, writeModel } from "../../test/helpers/model-text.ts";
import { storeWith } from "../../test/helpers/server.ts";
import { type Environment, environment, sources } from "./environment.ts";

/**
 * npm package of the protocol's conformance tests. Only alpha versions have scenarios for the protocol's revision
 * 2026-07-28.
 */
const conformance = "@modelcontextprotocol/conformance@0.2.0-alpha.12";

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
  /** Ids of checks that must fail, because they need tools, prompts or resources that the server does not have. */
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
};
const checksSchema = z.array(z.object({ id: z.string(), status: z.string() }));

export async function mcpClients(): Promise<void> {
  const tools = await environment("mcp", [conformance]);
  await using dir = await tempDir();
  await using store = await storeWith("lab", await writeModel(dir, slowTool));
  {
    await using server = await store.serve("lab");
    await tools.run(["python", join(sources, "mcp_client.py"), server.url.origin]);
    console.log("✓ mcp of PyPI: both revisions, outputs equal to POST /predictions, errors");
  }
  await using server = await store.serve("slow_compute");
  for (const [version, list] of Object.entries(scenarios)) {
    for (const scenario of list) {
      const out = dir.join(`${version}-${scenario.name}`);
      await mkdir(out);
      await conform(tools, { url: new URL("/mcp", server.url), version, out, ...scenario });
    }
  }
}

interface Trial extends Scenario {
  readonly url: URL;
  /** The revision of the protocol, a key of `scenarios`. */
  readonly version: string;
  readonly out: string;
}

/** Runs a scenario. @throws Error if the failed checks are not the expected ones */
async function conform({ folder, run }: Environment, { url, version, out, name, fails = [] }: Trial): Promise<void> {
  const program = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const options = ["--url", url.href, "--scenario", name, "-o", out, "--spec-version", version];
  // Ignores the exit code, because it counts the expected failures too.
  const report = await run([process.execPath, program, "server", ...options]).catch(messageOf);
  const [path = ""] = new Bun.Glob("**/checks.json").scanSync({ cwd: out, absolute: true });
  const checks = checksSchema.parse(await Bun.file(path).json());
  const failed = [...new Set(checks.filter(({ status }) => status === "FAILURE").map(({ id }) => id))];
  if (failed.toSorted().join() !== fails.toSorted().join()) throw new Error(`${name}: failed ${failed}\n${report}`);
  const passed = checks.filter(({ status }) => status === "SUCCESS").length;
  console.log(`✓ ${version} ${name}: ${passed} checks, ${failed.length} without the tool or list that they need`);
}
