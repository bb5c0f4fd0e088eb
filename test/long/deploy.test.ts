/**
 * The files of `deploy/`: checked with the published schemas of Compose, Kubernetes, KEDA and Grafana, by promtool, and
 * against the options, routes and metrics of the server. proxies.test.ts checks and runs the proxies.
 */
import { describe, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import Ajv from "ajv";
import { z } from "zod";
import { routes } from "../../src/base/labels.ts";
import { variableName } from "../../src/cli/command-line/command.ts";
import { registryOptions } from "../../src/cli/commands/registry/registry-options.ts";
import { commonOptions, serveOptions } from "../../src/server/config.ts";
import { debianTool } from "../helpers/debian-tools.ts";
import { tempDir } from "../helpers/fixture.ts";
import { freePort } from "../helpers/free-port.ts";
import { hasRedis, startRedis } from "../helpers/redis.ts";

const root = resolve(import.meta.dir, "../..");
const folder = join(root, "deploy");
const filesOf = (pattern: string) => [...new Bun.Glob(pattern).scanSync(folder)].map((path) => join(folder, path));
const read = (path: string) => readFile(path, "utf8");
const kubectl = Bun.which("kubectl");

/** The npm module and the type in it that describe a kind of resource. */
const kinds: Readonly<Record<string, readonly [module: string, type: string]>> = {
  "v1 Secret": ["kubernetes-types/core/v1", "Secret"],
  "v1 ConfigMap": ["kubernetes-types/core/v1", "ConfigMap"],
  "v1 Service": ["kubernetes-types/core/v1", "Service"],
  "apps/v1 Deployment": ["kubernetes-types/apps/v1", "Deployment"],
  "apps/v1 StatefulSet": ["kubernetes-types/apps/v1", "StatefulSet"],
  "policy/v1 PodDisruptionBudget": ["kubernetes-types/policy/v1", "PodDisruptionBudget"],
  "autoscaling/v2 HorizontalPodAutoscaler": ["kubernetes-types/autoscaling/v2", "HorizontalPodAutoscaler"],
  "networking.k8s.io/v1 NetworkPolicy": ["kubernetes-types/networking/v1", "NetworkPolicy"],
  "networking.k8s.io/v1 Ingress": ["kubernetes-types/networking/v1", "Ingress"],
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
  lifecycle: z.object({ preStop: z.object({ sleep: z.object({ seconds: z.number() }) }) }).optional(),
});
const podSchema = z.looseObject({ terminationGracePeriodSeconds: z.number(), containers: z.tuple([server]) });
const deployment = z.looseObject({ spec: z.looseObject({ template: z.looseObject({ spec: podSchema }) }) });
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

/**
 * The resources of a Kustomize overlay, built by kubectl. Without kubectl: the resources of all base and component
 * files, without the changes of the overlay.
 */
async function resourcesOf(overlay: string): Promise<z.infer<typeof resource>[]> {
  if (kubectl !== null) return documentsOf(await Bun.$`${kubectl} kustomize ${overlay}`.text());
  const paths = filesOf("kubernetes/{base,components}/*/*.yaml").concat(filesOf("kubernetes/base/*.yaml"));
  const all = await Promise.all(paths.map(async (path) => documentsOf(await read(path))));
  return all.flat().filter(({ apiVersion, kind }) => `${apiVersion} ${kind}` in kinds);
}

const overlays = ["cpu", "gpu", "public"].map((name) => join(folder, "kubernetes", "overlays", name));

test("resources and the dashboard have only fields of their published schemas", async () => {
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

test.each(["compose.yaml", "compose.login.yaml"])("%s follows the Compose specification", async (name) => {
  const schema = z
    .looseObject({ $schema: z.string() })
    .parse(JSON.parse(await read(join(root, "node_modules/dclint/schemas/compose.schema.json"))));
  const { $schema: _, ...rules } = schema;
  // Formats of values, such as `duration`, are not checked: Ajv does not know them.
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(rules);
  validate(Bun.YAML.parse(await read(join(folder, name))));
  expect(validate.errors).toBeNull();
});

/** How long a server with these variables may take to stop, in seconds. */
function stopSeconds({ SCONCE_DRAIN_TIMEOUT = "Infinity" }: Readonly<Record<string, string>>): number {
  // Sending the last answers takes up to 2 seconds, and ending the engine process up to 5.
  return Number(SCONCE_DRAIN_TIMEOUT) + 7;
}

test("servers have existing options, enough time to finish their work, and probes of existing routes", async () => {
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
      const [{ env, startupProbe, readinessProbe, livenessProbe, lifecycle }] = spec.containers;
      expect(unknown(env.map(({ name }) => name))).toEqual([]);
      const variables = Object.fromEntries(env.map(({ name, value = "" }) => [name, value]));
      const preStopS = lifecycle?.preStop.sleep.seconds ?? 0;
      expect(preStopS + stopSeconds(variables)).toBeLessThanOrEqual(spec.terminationGracePeriodSeconds);
      for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe])
        expect(routes).toHaveProperty([httpGet.path]);
    }
  }
});

test("callers in the cluster may use the names of the service: no file limits the host names", async () => {
  const files = await Promise.all(filesOf("kubernetes/**/*.yaml").map(read));
  expect(files.filter((text) => text.includes("SCONCE_ALLOWED_HOSTS"))).toEqual([]);
});

test("every query is valid PromQL with metrics of the server", async () => {
  const files = ["kubernetes/components/keda/scaled-object.yaml", "grafana/*.json", "prometheus/*.yaml"];
  const texts = files.flatMap(filesOf).map(read);
  const queries = (await Promise.all(texts)).flatMap((text) => [
    ...text.matchAll(/^ *"expr": (".*"),?$/gm).map(([, expr = '""']) => z.string().parse(JSON.parse(expr))),
    ...text.matchAll(/^ *query: (.*)$/gm).map(([, query = ""]) => query),
    ...text.matchAll(/^ *expr: (?:\|\n((?: {10}.*\n)+)|(.*)$)/gm).map(([, lines, line = ""]) => lines ?? line),
  ]);
  expect(queries.length).toBeGreaterThan(20);
  const sources = await Promise.all(
    [...new Bun.Glob("src/server/metrics/*.ts").scanSync(root), "src/server/front-gauges.ts"].map((path) =>
      read(join(root, path)),
    ),
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

const service = z.looseObject({
  read_only: z.literal(true),
  cap_drop: z.tuple([z.literal("ALL")]),
  security_opt: z.tuple([z.literal("no-new-privileges:true")]),
  mem_limit: z.string(),
});

test("every service of Compose has restricted rights, and needs no file of the user", async () => {
  const text = await read(join(folder, "compose.yaml"));
  const { services } = composition.parse(Bun.YAML.parse(text));
  for (const [name, one] of Object.entries(services))
    expect([name, service.safeParse(one).error?.issues]).toEqual([name, undefined]);
  expect(text).not.toContain("HOME");
});

const labelsSchema = z.record(z.string(), z.string());
const policySchema = z.looseObject({
  spec: z.looseObject({
    podSelector: z.looseObject({ matchLabels: labelsSchema.default({}) }),
    policyTypes: z.array(z.string()),
  }),
});
const workload = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({
    strategy: z
      .looseObject({ rollingUpdate: z.looseObject({ maxSurge: z.number(), maxUnavailable: z.number() }) })
      .optional(),
    template: z.looseObject({
      metadata: z.looseObject({ labels: labelsSchema }),
      spec: z.looseObject({ topologySpreadConstraints: z.array(z.unknown()).default([]) }),
    }),
  }),
});

describe.skipIf(kubectl === null)("in Kubernetes", () => {
  test("a policy limits who reaches each pod, and replicas are spread", async () => {
    for (const overlay of overlays) {
      const resources = await resourcesOf(overlay);
      const policies = resources
        .filter(({ kind }) => kind === "NetworkPolicy")
        .map((one) => policySchema.parse(one).spec);
      const workloads = resources.filter(({ kind }) => ["Deployment", "StatefulSet"].includes(kind));
      expect(workloads.length).toBeGreaterThan(1);
      for (const one of workloads) {
        const { metadata, spec } = workload.parse(one);
        const { labels } = spec.template.metadata;
        const isSelected = policies.some(
          ({ podSelector, policyTypes }) =>
            policyTypes.includes("Ingress") &&
            Object.entries(podSelector.matchLabels).every(([name, value]) => labels[name] === value),
        );
        expect([metadata.name, isSelected]).toEqual([metadata.name, true]);
        if (one.kind === "Deployment") expect(spec.template.spec.topologySpreadConstraints.length).toBe(2);
      }
    }
  });

  test("an update of workers with GPUs needs no spare GPU", async () => {
    const all = (await resourcesOf(join(folder, "kubernetes/overlays/gpu"))).filter(
      ({ kind }) => kind === "Deployment",
    );
    const workers = all.map((one) => workload.parse(one)).find(({ metadata }) => metadata.name === "sconce-worker");
    expect(workers?.spec.strategy?.rollingUpdate).toMatchObject({ maxSurge: 0, maxUnavailable: 1 });
  });

  test("the address of Redis has the password of Redis", async () => {
    const secretSchema = z.looseObject({ metadata: z.looseObject({ name: z.string() }), data: labelsSchema });
    const secrets = (await resourcesOf(join(folder, "kubernetes/overlays/cpu"))).filter(
      ({ kind }) => kind === "Secret",
    );
    const data = secrets
      .map((one) => secretSchema.parse(one))
      .find(({ metadata }) => metadata.name.startsWith("sconce-queue"));
    const [url = "", password = ""] = ["url", "password"].map((name) => atob(data?.data[name] ?? ""));
    expect(new URL(url).password).toBe(password);
    expect(password).not.toBe("");
  });
});

test.skipIf(!hasRedis)("Redis accepts the arguments of Compose, and requires the password", async () => {
  const schema = z.looseObject({ services: z.looseObject({ redis: z.looseObject({ command: z.array(z.string()) }) }) });
  const { services } = schema.parse(Bun.YAML.parse(await read(join(folder, "compose.yaml"))));
  const [, ...given] = services.redis.command.map((each) => each.replace(/^\$\{SCONCE_REDIS_PASSWORD.*/, "made"));
  const port = freePort();
  await using _redis = await startRedis(...given, "--port", String(port), "--bind", "127.0.0.1");
  const answer = async (password: string) => {
    const options = { maxRetries: 0, autoReconnect: false };
    const client = new Bun.RedisClient(`redis://${password}127.0.0.1:${port}`, options);
    return client
      .ping()
      .then(String, String)
      .finally(() => client.close());
  };
  expect([await answer(":made@"), await answer(":other@")]).toEqual(["PONG", expect.stringMatching(/WRONGPASS/)]);
  expect(await answer("")).toContain("NOAUTH");
});

const prometheus = debianTool("prometheus");

describe.skipIf(prometheus === undefined)("promtool", () => {
  const promtool = join(dirname(prometheus?.command ?? ""), "promtool");
  const rules = join(folder, "prometheus/alerts.yaml");

  test("accepts the alert rules", async () => {
    const { exitCode, stdout, stderr } = await Bun.$`${promtool} check rules ${rules}`.nothrow().quiet();
    expect([exitCode, stderr.toString()]).toEqual([0, ""]);
    expect(stdout.toString()).toContain("rules found");
  });

  // Each row: the name of a situation, Prometheus series with one value a minute, and the alerts that fire after half
  // an hour.
  test.each<[name: string, series: readonly (readonly [string, string])[], alerts: readonly string[]]>([
    ["is down", [['up{job="sconce",instance="a"}', "0x30"]], ["SconceDown"]],
    [
      "has a faulty model",
      [
        ['sconce_predictions_total{instance="a",status="failed",reason="model"}', "0+10x30"],
        ['sconce_predictions_total{instance="a",status="success"}', "0+90x30"],
      ],
      ["SconceFailures"],
    ],
    [
      "has clients with faulty inputs",
      [
        ['sconce_predictions_total{instance="a",status="failed",reason="input"}', "0+100x30"],
        ['sconce_predictions_total{instance="a",status="success"}', "0+10x30"],
      ],
      [],
    ],
    [
      "is too slow",
      [
        ['sconce_predictions_total{instance="a",status="failed",reason="timeout"}', "0+10x30"],
        ['sconce_predictions_total{instance="a",status="success"}', "0+90x30"],
      ],
      ["SconceTimeouts"],
    ],
    [
      "is overloaded",
      [['sconce_requests_rejected_total{instance="a",code="429",cause="queue"}', "0+60x30"]],
      ["SconceRefusals"],
    ],
    [
      "loses its engine",
      [['sconce_engine_restarts_total{instance="a",reason="crash"}', "0+1x30"]],
      ["SconceEngineRestarts"],
    ],
    ["has no engine", [['sconce_unready{instance="a",reason="engine"}', "1x30"]], ["SconceNotReady"]],
    ["drains for long", [['sconce_unready{instance="a",reason="draining"}', "1x30"]], []],
    [
      "is full",
      [
        ['sconce_memory_bytes{instance="a",part="bodies"}', "95x30"],
        ['sconce_memory_limit_bytes{instance="a"}', "100x30"],
      ],
      ["SconceMemory"],
    ],
    ["lets inputs wait", [['sconce_oldest_queued_item_age_seconds{instance="a"}', "90x30"]], ["SconceWait"]],
    ["has no worker", [['sconce_queue_age_seconds{instance="a"}', "0+60x30"]], ["SconceQueueWait"]],
    ["lost Redis", [['sconce_queue_connected{instance="a"}', "0x30"]], ["SconceQueueAway"]],
    [
      "works",
      [
        ['sconce_queue_connected{instance="a"}', "1x30"],
        ['up{job="sconce",instance="a"}', "1x30"],
      ],
      [],
    ],
  ])("alerts if a server %s, and else not", async (_, series, alerts) => {
    const names = [...(await read(rules)).matchAll(/- alert: (\w+)/g)].map(([, name = ""]) => name);
    await using dir = await tempDir();
    const firing = names.map((name) => ({ expr: `ALERTS{alertname="${name}",alertstate="firing"} > 0`, name }));
    const promql = firing.map(({ expr, name }) => ({
      expr: `count(${expr}) or vector(0)`,
      eval_time: "30m",
      exp_samples: [{ labels: "{}", value: alerts.includes(name) ? 1 : 0 }],
    }));
    const input = series.map(([name, values]) => ({ series: name, values }));
    const tests = [{ interval: "1m", input_series: input, promql_expr_test: promql }];
    await Bun.write(dir.join("tests.yaml"), JSON.stringify({ rule_files: [rules], evaluation_interval: "1m", tests }));
    const { exitCode, stdout, stderr } = await Bun.$`${promtool} test rules ${dir.join("tests.yaml")}`
      .nothrow()
      .quiet();
    expect([exitCode, exitCode === 0 ? "" : `${stdout}${stderr}`]).toEqual([0, ""]);
  });
});
