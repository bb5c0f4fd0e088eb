/**
 * Files of `deploy/`: checked with the published schemas of Compose, Kubernetes, KEDA and Grafana, and against a
 * started server.
 */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import Ajv from "ajv";
import { z } from "zod";
import { routes } from "../src/base/labels.ts";
import { variableName } from "../src/cli/command-line/command.ts";
import { registryOptions } from "../src/cli/commands/registry/registry-options.ts";
import { commonOptions, serveOptions } from "../src/server/config.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const root = resolve(import.meta.dir, "..");
const folder = join(root, "deploy");
const filesOf = (pattern: string) => [...new Bun.Glob(pattern).scanSync(folder)].map((path) => join(folder, path));
const read = (path: string) => readFile(path, "utf8");
const kubectl = Bun.which("kubectl");

/** Types for each resource kind, generated from the schemas of its project. */
const kinds: Readonly<Record<string, readonly [module: string, type: string]>> = {
  "v1 Secret": ["kubernetes-types/core/v1", "Secret"],
  "v1 ConfigMap": ["kubernetes-types/core/v1", "ConfigMap"],
  "v1 Service": ["kubernetes-types/core/v1", "Service"],
  "apps/v1 Deployment": ["kubernetes-types/apps/v1", "Deployment"],
  "apps/v1 StatefulSet": ["kubernetes-types/apps/v1", "StatefulSet"],
  "policy/v1 PodDisruptionBudget": ["kubernetes-types/policy/v1", "PodDisruptionBudget"],
  "autoscaling/v2 HorizontalPodAutoscaler": ["kubernetes-types/autoscaling/v2", "HorizontalPodAutoscaler"],
  "networking.k8s.io/v1 NetworkPolicy": ["kubernetes-types/networking/v1", "NetworkPolicy"],
  "keda.sh/v1alpha1 ScaledObject": ["@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject", "IScaledObject"],
};

const resource = z.looseObject({ apiVersion: z.string(), kind: z.string() });
const environment = z.array(z.looseObject({ name: z.string(), value: z.string().optional() }));
const probe = z.looseObject({ httpGet: z.looseObject({ path: z.string() }) });
const server = z.looseObject({
  env: environment,
  startupProbe: probe,
  readinessProbe: probe,
  livenessProbe: probe,
});
const podSchema = z.looseObject({ terminationGracePeriodSeconds: z.number(), containers: z.tuple([server]) });
const deployment = z.looseObject({ spec: z.looseObject({ template: z.looseObject({ spec: podSchema }) }) });
const kustomization = z.looseObject({
  resources: z.array(z.string()).default([]),
  components: z.array(z.string()).default([]),
  patches: z.array(z.looseObject({ path: z.string() })).default([]),
});
const composition = z.looseObject({
  services: z.record(
    z.string(),
    z.looseObject({
      environment: z.record(z.string(), z.string()).default({}),
      stop_grace_period: z.string().regex(/^\d+s$/),
    }),
  ),
});

function documentsOf(text: string): z.infer<typeof resource>[] {
  return z.array(resource).parse([Bun.YAML.parse(text)].flat());
}

/** The resources of an overlay as kubectl builds them; without kubectl, the listed resources. */
async function resourcesOf(overlay: string): Promise<z.infer<typeof resource>[]> {
  if (kubectl !== null) return documentsOf(await Bun.$`${kubectl} kustomize ${overlay}`.text());
  const paths = filesOf("kubernetes/{base,components}/*/*.yaml").concat(filesOf("kubernetes/base/*.yaml"));
  const all = await Promise.all(paths.map(async (path) => documentsOf(await read(path))));
  return all.flat().filter(({ apiVersion, kind }) => `${apiVersion} ${kind}` in kinds);
}

const overlays = ["cpu", "gpu"].map((name) => join(folder, "kubernetes", "overlays", name));

test("resources and the dashboard have only fields that their projects publish", async () => {
  const resources = (await Promise.all(overlays.map(resourcesOf))).flat();
  expect(resources.length).toBeGreaterThan(10);
  const typed = resources.map((one): [readonly [string, string], unknown] => {
    const type = kinds[`${one.apiVersion} ${one.kind}`];
    if (type === undefined) throw new Error(`no schema for ${one.apiVersion} ${one.kind}`);
    return [type, one];
  });
  typed.push([["@grafana/schema", "Dashboard"], JSON.parse(await read(join(folder, "grafana", "sconce.json")))]);
  await using dir = await tempDir();
  const lines = typed.map(
    ([[module, type], value], i) =>
      `import type { ${type} as T${i} } from "${module}";\nexport const v${i}: T${i} = ${JSON.stringify(value)};\n`,
  );
  await Bun.write(dir.join("all.ts"), lines.join(""));
  await Bun.$`ln -s ${join(root, "node_modules")} ${dir.join("node_modules")}`;
  const config = {
    compilerOptions: {
      strict: true,
      noEmit: true,
      module: "Preserve",
      skipLibCheck: true,
      lib: ["ESNext", "DOM"],
      types: [],
    },
    files: ["all.ts"],
  };
  await Bun.write(dir.join("tsconfig.json"), JSON.stringify(config));
  const { exitCode, stdout } = await Bun.$`node_modules/.bin/tsc -p .`.cwd(dir.path).nothrow().quiet();
  expect({ exitCode, output: stdout.toString() }).toEqual({ exitCode: 0, output: "" });
});

test("the compose file follows the Compose specification", async () => {
  const schema = z
    .looseObject({ $schema: z.string() })
    .parse(JSON.parse(await read(join(root, "node_modules/dclint/schemas/compose.schema.json"))));
  const { $schema: _, ...rules } = schema;
  // Formats such as `duration` only concern programs that parse the values.
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(rules);
  validate(Bun.YAML.parse(await read(join(folder, "compose.yaml"))));
  expect(validate.errors).toBeNull();
});

test("every file in a kustomization exists", async () => {
  const paths = filesOf("kubernetes/**/kustomization.yaml");
  expect(paths.length).toBe(6);
  for (const path of paths) {
    const { resources, components, patches } = kustomization.parse(Bun.YAML.parse(await read(path)));
    const named = [...resources, ...components, ...patches.map((patch) => patch.path)];
    expect(named.filter((each) => !existsSync(join(dirname(path), each)))).toEqual([]);
  }
});

/** The longest stop time of a server with these variables, in seconds. */
function stopSeconds(variables: Readonly<Record<string, string>>): number {
  const { SCONCE_SHUTDOWN_DELAY = "0", SCONCE_DRAIN_TIMEOUT = "Infinity", SCONCE_LINGER = "5" } = variables;
  // The last answers take up to 2 seconds, and the engine ends within 5.
  return Number(SCONCE_SHUTDOWN_DELAY) + Number(SCONCE_DRAIN_TIMEOUT) + Number(SCONCE_LINGER) + 7;
}

test("servers have existing options, time to drain, and probes of existing routes", async () => {
  const options = Object.entries({ ...serveOptions, ...registryOptions, ...commonOptions });
  const known = new Set(options.map(([key, option]) => variableName(key, option)));
  const unknown = (names: readonly string[]) => names.filter((name) => name.startsWith("SCONCE_") && !known.has(name));
  const { services } = composition.parse(Bun.YAML.parse(await read(join(folder, "compose.yaml"))));
  for (const { environment: variables, stop_grace_period: grace } of Object.values(services)) {
    expect(unknown(Object.keys(variables))).toEqual([]);
    if ("SCONCE_ROLE" in variables) expect(stopSeconds(variables)).toBeLessThanOrEqual(Number.parseInt(grace, 10));
  }
  for (const overlay of overlays) {
    const servers = (await resourcesOf(overlay)).filter(({ kind }) => kind === "Deployment");
    expect(servers.length).toBe(2);
    for (const one of servers) {
      const { spec } = deployment.parse(one).spec.template;
      const [{ env, startupProbe, readinessProbe, livenessProbe }] = spec.containers;
      expect(unknown(env.map(({ name }) => name))).toEqual([]);
      const variables = Object.fromEntries(env.map(({ name, value = "" }) => [name, value]));
      expect(stopSeconds(variables)).toBeLessThanOrEqual(spec.terminationGracePeriodSeconds);
      for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe])
        expect(routes).toHaveProperty([httpGet.path]);
    }
  }
});

test("every query is valid PromQL with metrics of the server", async () => {
  const texts = [...filesOf("kubernetes/components/keda/scaled-object.yaml"), ...filesOf("grafana/*.json")].map(read);
  const queries = (await Promise.all(texts)).flatMap((text) => [
    ...text.matchAll(/^ *"expr": (".*"),?$/gm).map(([, expr = '""']) => z.string().parse(JSON.parse(expr))),
    ...text.matchAll(/^ *query: (.*)$/gm).map(([, query = ""]) => query),
  ]);
  expect(queries.length).toBeGreaterThan(20);
  const sources = await Promise.all(
    [...new Bun.Glob("src/server/metrics/*.ts").scanSync(root)].map((path) => read(join(root, path))),
  );
  const has = (name: string) =>
    sources.some((source) => source.includes(`"${name.replace(/_(bucket|sum|count)$/, "")}"`));
  const faults = queries.flatMap((query) => {
    const found: string[] = [];
    parser.parse(query.replaceAll("$__rate_interval", "5m")).iterate({
      enter: ({ type, from }) => {
        if (type.isError) found.push(`${query} at ${from}`);
      },
    });
    const names = query.match(/\b(sconce|process)_\w+/g) ?? [];
    return [...found, ...names.filter((name) => !has(name))];
  });
  expect([...new Set(faults)]).toEqual([]);
});
